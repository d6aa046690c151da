"""`DictionaryLinker`: the linker of a graph's names, and the parts that it is made of.

Every interface that links without further settings links so: `kept link`, `kept show`,
`kept finetune --link`, `AutoEncoder.encode`, the demo, the spaCy component. The same graph and text
give the same links in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from entity_linking.decision import Decision
from entity_linking.fuzzy.of_graph import SpeltAlike
from entity_linking.names.candidates import NameCandidates
from entity_linking.names.identifiers import by_identifiers
from entity_linking.names.index import NameIndex
from entity_linking.names.linker import Gates, NameLinker
from entity_linking.names.priors import PriorFormula
from entity_linking.names.rules.case import Case, is_sentence_case
from entity_linking.parts import CandidateSource
from entity_linking.pipeline import Pipeline
from entity_linking.scorers.features import PriorScorer
from entity_linking.sources import AtLeast, FirstFound
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.disk.arrow import mask_array

LINKS_VERSION = 3
"""Raised when the same graph and text get other links: part of what such links are stored under."""


def lowers_first_letters(graph: KnowledgeGraph) -> bool:
    """Whether "smart" case finds "gefitinib" for "Gefitinib" in this graph (`names.rules.case`).

    Until version 3 of the links it never did; links of other graphs are the same, so that what is
    stored under the version alone stays valid for them.
    """
    texts = by_identifiers(graph).entity_texts
    is_name = np.isin(np.asarray(texts.kinds), [TextKind.LABEL, TextKind.ALIAS])
    return is_sentence_case([texts.values.filter(mask_array(is_name))])


class DictionaryLinker(Pipeline):
    """Links texts by the names of `graph`; needs no training, no settings and no network.

    Mentions are the longest names, candidates come by name in all its forms, else by spelling, the
    best prior wins (`entity_linking.names`). A graph without any name is taken by its identifiers.

    `case`: "smart", "sensitive" or "insensitive" (`names.rules.case`). `min_prior` drops
    candidates (a mention needs one); `nil_below` makes a link NIL when its confidence is lower.
    `min_length` of a mention is in characters. `languages` takes names in these languages and those
    without one; None takes all. `formula` weighs labels, aliases and popularity in the prior.
    `exact` takes names as they are written alone: no other forms, stop words are mentions too, and
    where no name is written so there is no candidate.

    A link's `confidence` is the prior of the choice, for NIL one minus the best prior. It is not
    calibrated. `LinkingError` for settings out of range.

    >>> from kg_loaders import Text, TextKind, graph_from_records
    >>> graph = graph_from_records([Text("Q90", TextKind.LABEL, "Paris")])
    >>> [link.entity for link in DictionaryLinker(graph).link(["In Paris, at last."])[0].links]
    ['Q90']
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        *,
        case: Case = "smart",
        min_prior: float = 0.0,
        nil_below: float = 0.0,
        min_length: int = 2,
        languages: Sequence[str] | None = None,
        max_candidates: int = 30,
        formula: PriorFormula = PriorFormula(),  # noqa: B008 - frozen
        exact: bool = False,
    ) -> None:
        named = by_identifiers(graph)
        names = NameIndex.build(named, languages=languages, case=case, variants=not exact)
        gates = Gates(min_prior=min_prior, min_length=min_length)
        if exact:
            gates = replace(gates, stop_words=frozenset())
        mentions = NameLinker(names, gates, max_candidates=max_candidates, formula=formula)
        source: CandidateSource = mentions
        if not exact:
            by_name = NameCandidates(names, max_candidates=max_candidates, formula=formula)
            source = candidates_of(by_name, [SpeltAlike(named, languages)], min_prior)
        super().__init__(mentions, source, PriorScorer(), Decision(nil_below=nil_below))
        self._about = f"{names!r}, case={case!r}, exact={exact}, {graph!r}"

    def __repr__(self) -> str:
        return f"DictionaryLinker({self._about})"


def candidates_of(
    names: CandidateSource, further: Sequence[CandidateSource], min_prior: float
) -> CandidateSource:
    """What mentions may mean: by name, else by the first of `further` that knows anything."""
    source: CandidateSource = FirstFound([names, *further])
    return AtLeast(source, min_prior) if min_prior else source
