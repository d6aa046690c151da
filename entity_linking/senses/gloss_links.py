"""Links from synsets to the senses of the words in their glosses.

UKB's published numbers rest on the Princeton WordNet Gloss Corpus, in which people and programs
chose the sense of each gloss word. Here nothing chooses: a word stands for its first sense, or for
all of them, weighted by how often each was tagged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy import sparse

from entity_linking.errors import LinkingError
from entity_linking.senses.candidates import definition
from entity_linking.senses.wordnet import tag_count
from kg_loaders import KnowledgeGraph
from kg_loaders.formats.wordnet import PARTS
from kg_loaders.formats.wordnet_lexicon import Lexicon

GlossSenses = Literal["first", "all"]
Senses = tuple[tuple[int, float], ...]
LONGEST_COLLOCATION = 3
_FUNCTION_WORDS = """
a about above across after against all along also am among an and another any are around as at
be because been before being below between both but by can could did do does doing done down
during each either etc every few for from had has have having he her him his how i if in into is
it its itself less like many may me might more most much must my near nor not of off on one
one's ones only onto or other others our out over own per she should so some someone something
such than that the their them then there these they this those through to too toward towards two
under until up upon us very was we were what when where whether which while who whom whose why
will with within without would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words of a gloss that say nothing about its subject; some are lemmas of WordNet ("a", "in")."""

_WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W_]+)*\.?")


def gloss_links(graph: KnowledgeGraph, lexicon: Lexicon, *, senses: GlossSenses = "first") -> Any:
    """Weights `[entity entity]`, scipy CSR: row = the synset, column = a sense of a gloss word.

    Words come from the definition alone, without examples; the longest lemma of up to three words
    wins, function words are skipped, and so is a word that means the synset itself. Parts of speech
    are not known: of the lemmas that morphology finds in any part, those of the part whose first
    sense was tagged most (ties: noun, verb, adjective, adverb). Each word weighs 1 in all; with
    `senses="all"` it is shared out by (tags + 1).
    """
    if senses not in ("first", "all"):
        raise LinkingError(f"senses is {senses!r}; choose 'first' or 'all'")
    meanings = _Meanings(graph, lexicon, senses)
    rows, columns, weights = [], [], []
    for entity in range(graph.n_entities):
        gloss = graph.description(entity)
        for form in _forms(definition(gloss), meanings.of) if gloss else ():
            for sense, weight in meanings.of(form):
                if sense != entity:
                    rows.append(entity)
                    columns.append(sense)
                    weights.append(weight)
    shape = (graph.n_entities, graph.n_entities)
    matrix = sparse.csr_matrix((np.array(weights, np.float64), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def _forms(gloss: str, of: Callable[[str], Senses]) -> list[str]:
    """Words and collocations of a gloss that have a meaning, longest first from the left."""
    words = _WORD.findall(gloss.lower())
    forms, at = [], 0
    while at < len(words):
        for length in range(min(LONGEST_COLLOCATION, len(words) - at), 0, -1):
            form = "_".join(word.rstrip(".") for word in words[at : at + length])
            if of(form):
                forms.append(form)
                break
        else:
            length = 1
        at += length
    return forms


class _Meanings:
    """Senses of a written form with their weights, remembered."""

    def __init__(self, graph: KnowledgeGraph, lexicon: Lexicon, senses: GlossSenses) -> None:
        self._graph, self._lexicon, self._first_only = graph, lexicon, senses == "first"
        self._known: dict[str, Senses] = {}

    def of(self, form: str) -> Senses:
        if form not in self._known:
            self._known[form] = self._decide(form)
        return self._known[form]

    def _decide(self, form: str) -> Senses:
        if form in FUNCTION_WORDS:
            return ()
        best: list[tuple[int, int]] = []
        for part in PARTS.values():
            for lemma in self._lexicon.morphy(form, part):
                tagged = self._tagged(lemma, part)
                if tagged and (not best or tagged[0][1] > best[0][1]):
                    best = tagged
        if self._first_only:
            return tuple((sense, 1.0) for sense, _ in best[:1])
        total = sum(n + 1 for _, n in best)
        return tuple((sense, (n + 1) / total) for sense, n in best)

    def _tagged(self, lemma: str, part: str) -> list[tuple[int, int]]:
        ids = [self._graph.entities.find(s) for s in self._lexicon.synsets(lemma, part)]
        return [(i, tag_count(self._graph, i, lemma)) for i in ids if i is not None]
