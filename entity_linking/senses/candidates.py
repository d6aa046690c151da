"""Candidates and simple scorers for word sense disambiguation over WordNet.

`sense_corpus` reads annotated texts, `sense_walks` disambiguates by PageRank over WordNet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, LinkedText, Mention
from entity_linking.parts import Candidates, Scores, SentenceEncoder
from entity_linking.senses.corpus import SenseText
from entity_linking.senses.wordnet import tag_count
from kg_loaders import KnowledgeGraph
from kg_loaders.formats.wordnet import PARTS
from kg_loaders.formats.wordnet_lexicon import Lexicon


class SenseCandidates:
    """The synsets of a word by lemma and part of speech, in WordNet's order of senses.

    Lemma and part come from `texts` (matched by text id and mention). A lemma that WordNet does not
    have as that part, and a mention that `texts` do not hold, is looked up by its surface and
    morphology (in the second case as every part). The prior is (tags + 1) over the sum of that for
    all candidates, as in `WordNetCandidates`; WordNet's order agrees with it but for a few words
    whose counts changed after the order was made. Synsets that `graph` lacks are left out.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        lexicon: Lexicon,
        texts: Sequence[SenseText] = (),
        *,
        max_candidates: int = 100,
    ) -> None:
        if max_candidates < 1:
            raise LinkingError(f"max_candidates is {max_candidates}; give 1 or more")
        if len({text.id for text in texts}) != len(texts):
            raise LinkingError("two texts have the same id; annotations are found by text id")
        self._graph, self._lexicon = graph, lexicon
        self._max_candidates = max_candidates
        self._words = {
            (text.id, word.mention): (word.lemma, word.part)
            for text in texts
            for word in text.words
        }
        self._known: dict[tuple[str, str, str], Candidates] = {}

    def __repr__(self) -> str:
        return f"SenseCandidates({self._lexicon!r}, {self._graph!r}, {len(self._words)} words)"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its synsets, the first sense first."""
        return [[self._of(text, link.mention) for link in text.links] for text in texts]

    def _of(self, text: LinkedText, mention: Mention) -> Candidates:
        surface = _form(text.text[mention.start : mention.end])
        lemma, part = self._words.get((text.id, mention), (surface, ""))
        key = (_form(lemma), part, surface)
        if key not in self._known:
            self._known[key] = self._decide(*key)
        return self._known[key]

    def _decide(self, lemma: str, part: str, surface: str) -> Candidates:
        senses: dict[str, int] = {}
        for name, letter in self._readings(lemma, part, surface):
            for synset in self._lexicon.synsets(name, letter):
                entity = self._graph.entities.find(synset)
                if entity is not None:
                    senses.setdefault(synset, tag_count(self._graph, entity, name))
        kept = list(senses.items())[: self._max_candidates]
        total = sum(n + 1 for _, n in kept)
        return tuple(
            Candidate(synset, (n + 1) / total, (n + 1) / total, f"sense {rank}, tagged {n} times")
            for rank, (synset, n) in enumerate(kept, start=1)
        )

    def _readings(self, lemma: str, part: str, surface: str) -> list[tuple[str, str]]:
        if part and self._lexicon.synsets(lemma, part):
            return [(lemma, part)]
        parts = [part] if part else list(PARTS.values())
        return [
            (base, letter) for letter in parts for base in self._lexicon.morphy(surface, letter)
        ]


def _form(surface: str) -> str:
    return re.sub(r"[\s_]+", "_", surface.lower())


class FirstSense:
    """The baseline: the first candidate of a link wins; scores -log(rank)."""

    def __repr__(self) -> str:
        return "FirstSense()"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """For each link of each text one score per candidate."""
        return [
            [-np.log(np.arange(1, len(link.candidates) + 1, dtype=np.float64)) for link in t.links]
            for t in texts
        ]


class GlossScorer:
    """Cosine of the sentence with each candidate's gloss, in vectors of a sentence encoder.

    Both sides are written as GlossBERT writes them (Huang et al. 2019): the sentence
    with the word in quotes, and `word : gloss`. GlossBERT then reads both at once with a model
    trained on sense-annotated text; here nothing is trained and the two sides do not see each
    other. The gloss is WordNet's with its examples (`examples=False`: up to the first one). A
    sentence is a line of the text. The score is `scale` times the cosine; 20 is the scale that
    sentence encoders are commonly trained with. A candidate without a gloss is read by its label.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        encoder: SentenceEncoder,
        *,
        scale: float = 20.0,
        examples: bool = True,
    ) -> None:
        if not (math.isfinite(scale) and scale > 0):
            raise LinkingError(f"scale is {scale}; give a number above 0")
        self._graph, self._encoder = graph, encoder
        self._scale, self._examples = scale, examples

    def __repr__(self) -> str:
        return f"GlossScorer({self._encoder.name}, scale={self._scale}, {self._graph!r})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """For each link of each text one score per candidate; links without two are not encoded."""
        rows: dict[str, int] = {}
        row_places = [
            [self._rows(text, mention, rows) for mention in range(len(text.links))]
            for text in texts
        ]
        vectors = self._encoder.encode(list(rows)) if rows else np.zeros((0, 1), np.float32)
        return [[self._cosines(vectors, places) for places in links] for links in row_places]

    def _cosines(self, vectors: NDArray[np.float32], places: list[int]) -> Scores:
        if len(places) < 2:
            return np.zeros(len(places))
        cosines = vectors[places[1:]].astype(np.float64) @ vectors[places[0]].astype(np.float64)
        return np.asarray(self._scale * cosines, np.float64)

    def _rows(self, text: LinkedText, at: int, rows: dict[str, int]) -> list[int]:
        link = text.links[at]
        if len(link.candidates) < 2:
            return [0] * len(link.candidates)
        start = text.text.rfind("\n", 0, link.mention.start) + 1
        end = text.text.find("\n", link.mention.end)
        before, word = text.text[start : link.mention.start], _surface(text, link.mention)
        after = text.text[link.mention.end : len(text.text) if end < 0 else end]
        texts = [f'{before}"{word}"{after}']
        texts += [f"{word} : {self._gloss(c.entity)}" for c in link.candidates]
        return [rows.setdefault(entry, len(rows)) for entry in texts]

    def _gloss(self, entity: str) -> str:
        number = self._graph.entities.find(entity)
        if number is None:
            return entity
        gloss = self._graph.description(number) or self._graph.label(number)
        return gloss if self._examples else definition(gloss)


def _surface(text: LinkedText, mention: Mention) -> str:
    return text.text[mention.start : mention.end]


def definition(gloss: str) -> str:
    """A WordNet gloss without its examples, which stand in quotes at its end.

    >>> definition('a small pond; "they fished in the pool"')
    'a small pond'
    """
    return gloss.partition('; "')[0].partition('"')[0].strip("; ") or gloss
