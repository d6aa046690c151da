"""Dense linking: entities whose cards are like the mention in its context.

A bi-encoder (Gillick et al. 2019; Wu et al. 2020, BLINK section 3) without training: one sentence
encoder reads cards and mentions alike, where BLINK trains one encoder for each and marks the
mention with tokens of its own. An untrained encoder drowns the mention in its sentence, so the
query is not one text but the mean of two vectors, the surface's and the window's: with MiniLM, on
700 T-REx mentions and the 2,034 cards of CoDEx-S, gold is among the first 1 / 5 / 30 for

    window alone .36 / .57 / .73      "surface: window" as one text .55 / .73 / .88
    mean of both .79 / .91 / .97      surface alone .88 / .94 / .98 (it cannot tell namesakes apart)

with 8 words a side; 16 are worse throughout.

`DenseCandidates` finds entities that no name leads to; `ContextScorer` chooses among the candidates
of any source. Both take a `SentenceEncoder`; share one `RememberingEncoder` between them and each
context is read once.

Axis legend: mention, candidate, width.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from entity_linking.dense.building import encode_distinct
from entity_linking.dense.index import DenseIndex, Hit, IndexReport
from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, LinkedText, Mention
from entity_linking.parts import Candidates, Scores, SentenceEncoder

__all__ = [
    "ContextScorer",
    "DenseCandidates",
    "DenseIndex",
    "Hit",
    "IndexReport",
    "RememberingEncoder",
    "context_vectors",
    "contexts_of",
]

TEMPERATURE = 0.05
"""The all-MiniLM models were trained on cosines times 20: divided by this they are log-odds."""
CHARACTERS_PER_WORD = 12
_WORD = re.compile(r"\S+")


Context = tuple[str, str]
"""A mention's surface and its window."""


def contexts_of(texts: Sequence[LinkedText], window: int) -> list[list[Context]]:
    """For each link of each text its surface and its window, white space squeezed.

    The window is the mention with up to `window` words before and after it. Words are what white
    space divides, at most `window` times 12 characters a side, so that scripts without spaces have
    windows too.
    """
    return [
        [
            _context(linked.text, spans, link.mention, window)
            for spans in [[match.span() for match in _WORD.finditer(linked.text)]]
            for link in linked.links
        ]
        for linked in texts
    ]


def _context(text: str, words: list[tuple[int, int]], mention: Mention, window: int) -> Context:
    start, stop = mention.start, mention.end
    if window and words:
        first = bisect_right(words, mention.start, key=lambda word: word[1])
        last = bisect_left(words, mention.end, key=lambda word: word[0])
        most = window * CHARACTERS_PER_WORD
        start = max(min(start, words[max(0, first - window)][0]), start - most)
        stop = min(max(stop, words[min(len(words), last + window) - 1][1]), stop + most)
    surface = " ".join(text[mention.start : mention.end].split())
    return surface, " ".join(text[start:stop].split())


def context_vectors(
    encoder: SentenceEncoder, contexts: Sequence[Context], surface_share: float
) -> NDArray[np.float32]:
    """`surface_share` of the surface's vector and the rest of the window's, length 1.

    Float32 `[context width]`; each distinct text is read once.
    """
    texts = [text for context in contexts for text in context]
    pairs = encode_distinct(encoder, texts).reshape(-1, 2, encoder.width)
    mixed = surface_share * pairs[:, 0] + (1.0 - surface_share) * pairs[:, 1]
    lengths = np.sqrt((mixed * mixed).sum(axis=1, keepdims=True))
    vectors: NDArray[np.float32] = mixed / np.maximum(lengths, 1e-12)
    return vectors


class RememberingEncoder:
    """A `SentenceEncoder` that keeps the vectors of the `most` texts that were encoded last."""

    def __init__(self, encoder: SentenceEncoder, *, most: int = 8192) -> None:
        if most < 1:
            raise LinkingError(f"most is {most}; give 1 or more")
        self._encoder, self._most = encoder, most
        self._known: dict[str, NDArray[np.float32]] = {}

    def __repr__(self) -> str:
        return f"RememberingEncoder({self._encoder!r}, most={self._most})"

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def width(self) -> int:
        return self._encoder.width

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Rows of length 1, `[text width]`."""
        used = {text: self._known.pop(text, None) for text in dict.fromkeys(texts)}
        new = [text for text, vector in used.items() if vector is None]
        vectors = self._encoder.encode(new) if new else np.empty((0, self.width), np.float32)
        vector_of = {text: vector for text, vector in used.items() if vector is not None}
        vector_of.update(zip(new, vectors, strict=True))
        self._known.update(vector_of)  # those used now are last
        for text in list(self._known)[: max(0, len(self._known) - self._most)]:
            del self._known[text]
        return np.array([vector_of[text] for text in texts], np.float32).reshape(-1, self.width)


class DenseCandidates:
    """Entities whose cards are nearest to each mention in its context, as a `CandidateSource`.

    The query is `context_vectors` with `window` words a side. A candidate's prior is its share of
    the softmax over the candidates found, cosines divided by `temperature`: how it compares with
    the others, not how often the surface means it. `min_cosine` drops what is too unlike.

    Raises `LinkIndexError` when `encoder` is not the one that made `index`.
    """

    def __init__(
        self,
        index: DenseIndex,
        encoder: SentenceEncoder,
        *,
        max_candidates: int = 30,
        window: int = 8,
        surface_share: float = 0.5,
        temperature: float = TEMPERATURE,
        min_cosine: float = -1.0,
    ) -> None:
        index.require_encoder(encoder)
        _check(window, surface_share, temperature)
        if max_candidates < 1:
            raise LinkingError(f"max_candidates is {max_candidates}; give 1 or more")
        self._index, self._encoder = index, encoder
        self._max_candidates, self._window = max_candidates, window
        self._surface_share = surface_share
        self._temperature, self._min_cosine = temperature, min_cosine

    def __repr__(self) -> str:
        return f"DenseCandidates({self._index!r}, max_candidates={self._max_candidates})"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, best first; equal mentions cost one search."""
        contexts = contexts_of(texts, self._window)
        distinct = list(dict.fromkeys(context for some in contexts for context in some))
        vectors = context_vectors(self._encoder, distinct, self._surface_share)
        hits = self._index.search(vectors, self._max_candidates)
        proposals = dict(zip(distinct, map(self._propose, hits), strict=True))
        return [[proposals[context] for context in some] for some in contexts]

    def _propose(self, hits: Iterable[Hit]) -> Candidates:
        kept = [hit for hit in hits if hit.cosine >= self._min_cosine]
        if not kept:
            return ()
        cosines = np.array([hit.cosine for hit in kept], np.float64)
        shares = np.exp((cosines - cosines.max()) / self._temperature)
        shares /= shares.sum()
        return tuple(
            Candidate(hit.entity, share, share, f"card like the context {_short(hit.cosine)}")
            for hit, share in zip(kept, shares.tolist(), strict=True)
        )


class ContextScorer:
    """How like its context each candidate's card is, as a `Scorer`.

    `weight * (cosine(context, card) - cosine(context, mean card)) / temperature`: log-odds against
    an entity of which nothing is known, such as a candidate that is not in `index`, which scores 0.
    The query is `context_vectors` with `window` words a side.

    Raises `LinkIndexError` when `encoder` is not the one that made `index`.
    """

    def __init__(
        self,
        index: DenseIndex,
        encoder: SentenceEncoder,
        *,
        weight: float = 1.0,
        window: int = 8,
        surface_share: float = 0.5,
        temperature: float = TEMPERATURE,
    ) -> None:
        index.require_encoder(encoder)
        _check(window, surface_share, temperature)
        if not np.isfinite(weight):
            raise LinkingError(f"weight is {weight}; give a finite number")
        self._index, self._encoder, self._window = index, encoder, window
        self._surface_share = surface_share
        self._scale = weight / temperature

    def __repr__(self) -> str:
        return f"ContextScorer({self._index!r}, window={self._window}, scale={self._scale:g})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """For each link of each text one number per candidate; equal contexts are read once."""
        contexts_and_names = [
            (context, [candidate.entity for candidate in link.candidates])
            for linked, contexts in zip(texts, contexts_of(texts, self._window), strict=True)
            for link, context in zip(linked.links, contexts, strict=True)
        ]
        vectors = self._vectors([context for context, names in contexts_and_names if names])
        distinct = list(dict.fromkeys(name for _, names in contexts_and_names for name in names))
        number_of = {name: i for i, name in enumerate(distinct)}
        cards, known = self._index.vectors(distinct)
        scores = iter(
            [
                self._of(vectors.get(context), cards, known, [number_of[name] for name in names])
                for context, names in contexts_and_names
            ]
        )
        return [[next(scores) for _ in linked.links] for linked in texts]

    def _vectors(self, contexts: Sequence[Context]) -> dict[Context, NDArray[np.float32]]:
        distinct = list(dict.fromkeys(contexts))
        vectors = context_vectors(self._encoder, distinct, self._surface_share)
        return dict(zip(distinct, vectors, strict=True))

    def _of(
        self,
        context: NDArray[np.float32] | None,
        cards: NDArray[np.float32],
        known: NDArray[np.bool_],
        places: list[int],
    ) -> Scores:
        """Of the candidates whose cards are at `places`."""
        if context is None:
            return np.empty(0)
        unlike_mean = cards[places].astype(np.float64) - self._index.mean
        cosines = (unlike_mean * context).sum(axis=1)
        return np.where(known[places], self._scale * cosines, 0.0)


def _check(window: int, surface_share: float, temperature: float) -> None:
    if window < 0:
        raise LinkingError(f"window is {window}; give 0 words or more")
    if not 0.0 <= surface_share <= 1.0:
        raise LinkingError(f"surface_share is {surface_share}; give 0 to 1")
    if not temperature > 0:
        raise LinkingError(f"temperature is {temperature}; it must be above 0")


def _short(cosine: float) -> str:
    return f"{cosine:.2f}".replace("0.", ".", 1)
