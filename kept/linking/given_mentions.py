"""Links of mentions that are given with a text, such as the column `mention` of a table.

A linker of names links what is written as a name of the graph. A given mention is known to be a
name, so it may also be a part of one ("Okoral" for "Kelsel Okoral"), a name turned round ("Okoral,
Kelsel") or an inflected one ("Kelsel Okorals"), where only one entity has such a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from entity_linking.completing import touch
from entity_linking.decision import Decision
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.names import NameCandidates, NameIndex
from entity_linking.names.identifiers import by_identifiers
from entity_linking.names.rules.case import Case
from entity_linking.scorers.features import PriorScorer
from kg_loaders import KnowledgeGraph

_CANDIDATES: WeakKeyDictionary[KnowledgeGraph, dict[Case, NameCandidates]] = WeakKeyDictionary()
SURE = 0.6
"""Confidence below which several entities may be meant, so that none is linked."""


def link_given(
    texts: Sequence[LinkedText],
    mentions: Sequence[Sequence[Mention]],
    graph: KnowledgeGraph,
    case: Case = "smart",
) -> list[LinkedText]:
    """Return the texts with links for those of their `mentions` that no link with an entity has.

    >>> from kg_loaders import Triple, graph_from_records
    >>> graph = graph_from_records([Triple("Kelsel Okoral", "works as", "pilot")])
    >>> (text,) = link_given([LinkedText("Okorals car", ())], [[Mention(0, 7)]], graph)
    >>> text.links[0].entity
    'Kelsel Okoral'
    """
    missing = [
        tuple(
            Link(mention, (), None, 0.0)
            for mention in each
            if not any(link.entity and touch(link.mention, mention) for link in text.links)
        )
        for text, each in zip(texts, mentions, strict=True)
    ]
    if not any(missing):
        return list(texts)
    source, scorer, decision = _candidates(graph, case), PriorScorer(), Decision(nil_below=SURE)
    to_link = [LinkedText(text.text, links) for text, links in zip(texts, missing, strict=True)]
    complete = []
    for text, proposals, links in zip(texts, source.candidates(to_link), missing, strict=True):
        choices = [
            decision.decide(link.mention, candidates, scorer.of_candidates(candidates), 1.0)
            for link, candidates in zip(links, proposals, strict=True)
        ]
        complete.append(_with(text, [link for link in choices if link.entity]))
    return complete


def _candidates(graph: KnowledgeGraph, case: Case) -> NameCandidates:
    """Names of the graph that have every word of a mention; made once for each graph and case."""
    of_graph = _CANDIDATES.setdefault(graph, {})
    if case not in of_graph:
        index = NameIndex.build(by_identifiers(graph), case=case)
        of_graph[case] = NameCandidates(index, covers_mention=True, in_document=False)
    return of_graph[case]


def _with(text: LinkedText, new: Sequence[Link]) -> LinkedText:
    """The text with `new` links in place of those that they touch."""
    if not new:
        return text
    others = [link for link in text.links if not any(touch(link.mention, k.mention) for k in new)]
    return replace(text, links=tuple(sorted([*others, *new], key=lambda link: link.mention)))
