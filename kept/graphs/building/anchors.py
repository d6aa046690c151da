"""Which links of several texts become anchors, and where each stands.

Axis legend: text, word (word pieces of all texts), link, anchor (of all texts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entity_linking.alignment import pieces_of_all
from entity_linking.mentions import LinkedText
from kept.graphs.building.config import BuilderConfig
from kept.graphs.words import Ids, Segments, Words
from kg_loaders.store import KnowledgeGraph

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AllWords:
    """Word pieces of several texts below one another: `texts` is the text of each, `[word]`."""

    ids: Ids
    spans: Ids
    segments: Segments
    texts: Rows
    n_texts: int

    @classmethod
    def of(cls, words: Sequence[Words]) -> AllWords:
        """Those of every text, in order; there is one text at least."""
        counts = [len(each.ids) for each in words]
        if any(each.segments is not None for each in words):
            segments = np.concatenate([each.segment_ids for each in words])
        else:
            segments = np.zeros(sum(counts), np.uint8)
        return cls(
            np.concatenate([each.ids for each in words]),
            np.concatenate([each.spans for each in words]),
            segments,
            np.repeat(np.arange(len(words)), counts),
            len(words),
        )

    def __getitem__(self, index: NDArray[np.bool_]) -> AllWords:
        return AllWords(
            self.ids[index],
            self.spans[index],
            self.segments[index],
            self.texts[index],
            self.n_texts,
        )

    @property
    def counts(self) -> Rows:
        """Words of every text, `[text]`."""
        return np.bincount(self.texts, minlength=self.n_texts)


@dataclass(frozen=True, eq=False)
class Anchors:
    """Anchors of several texts, in order of texts, all `[anchor]`.

    `ids` entity, `positions` soft position, `spans [anchor 2]` characters, `links` index of the
    link in its text, `texts`; `pieces [anchor 2]` are the words of each in `AllWords`.
    """

    ids: Ids
    positions: Ids
    spans: Ids
    links: Ids
    texts: Rows
    pieces: Rows

    def __getitem__(self, index: NDArray[np.bool_]) -> Anchors:
        return Anchors(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def find_anchors(
    linked: Sequence[LinkedText], words: AllWords, graph: KnowledgeGraph, config: BuilderConfig
) -> Anchors:
    """The links that become anchors; their positions are 0 until `lay_slots` knows them."""
    links = [link for text in linked for link in text.links]
    counts = [len(text.links) for text in linked]
    texts = np.repeat(np.arange(len(linked)), counts)
    spans = np.array([(link.mention.start, link.mention.end) for link in links], np.int32)
    spans = spans.reshape(-1, 2)
    entities = _entities([link.entity for link in links], graph)
    pieces = _pieces(words, spans, texts)
    is_fit = (entities >= 0) & (pieces[:, 0] < pieces[:, 1])
    is_fit &= ~_cut_off(words, spans, texts, pieces, config.max_words)
    fit = np.flatnonzero(is_fit)
    first_fits = fit[_apart(texts[fit], pieces[fit], entities[fit], config.repeats == "first")]
    numbers = np.arange(len(links)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Anchors(
        entities[first_fits],
        np.zeros(len(first_fits), np.int32),
        spans[first_fits],
        numbers[first_fits].astype(np.int32),
        texts[first_fits],
        pieces[first_fits],
    )


def _entities(names: Sequence[str | None], graph: KnowledgeGraph) -> Ids:
    """The id of each name, -1 without one."""
    different = [name for name in dict.fromkeys(names) if name is not None]
    ids_by_name: dict[str | None, int] = {None: -1}
    ids_by_name.update(zip(different, graph.entities.ids(different).tolist(), strict=True))
    return np.array([ids_by_name[name] for name in names], np.int32)


def _pieces(words: AllWords, spans: Ids, texts: Rows) -> Rows:
    """`pieces_of_all` in one call: the characters of each text come after all of the one before."""
    reach = 1 + max(int(words.spans.max(initial=0)), int(spans.max(initial=0)))
    moved = words.spans + np.where(words.spans[:, :1] >= 0, words.texts[:, None] * reach, 0)
    return pieces_of_all(moved, spans + texts[:, None] * reach)


def _cut_off(
    words: AllWords, spans: Ids, texts: Rows, pieces: Rows, max_words: int
) -> NDArray[np.bool_]:
    """Which mentions reach beyond the last piece of a text that was cut, or of its part of one."""
    is_full = words.counts >= max_words
    if not is_full.any():
        return np.zeros(len(texts), np.bool_)
    last = np.full(2 * words.n_texts, -1, np.int64)
    np.maximum.at(last, 2 * words.texts + words.segments, words.spans[:, 1])
    part = 2 * texts + words.segments[pieces[:, 0]]
    is_cut: NDArray[np.bool_] = is_full[texts] & (spans[:, 1] > last[part])
    return is_cut


def _apart(texts: Rows, pieces: Rows, entities: Ids, first_only: bool) -> list[int]:
    """Indices of those that overlap no earlier one of their text (with `first_only` each entity
    once)."""
    fitting: list[int] = []
    current, end, used = -1, 0, set[int]()
    rows = zip(texts.tolist(), pieces.tolist(), entities.tolist(), strict=True)
    for index, (text, (start, stop), entity) in enumerate(rows):
        if text != current:
            current, end, used = text, 0, set()
        if start < end or (first_only and entity in used):
            continue
        fitting.append(index)
        used.add(entity)
        end = stop
    return fitting


def lay_slots(words: AllWords, anchors: Anchors, *, replace: bool) -> tuple[NDArray[np.bool_], Ids]:
    """Which words are shown, and the position of every word, both `[word]`.

    With `replace` an anchor takes the place of its words: the first of them keeps its position, for
    the anchor, and none is shown.
    """
    n_words = len(words.ids)
    is_shown = np.ones(n_words, np.bool_)
    is_slot = is_shown
    if replace:
        border = np.zeros(n_words + 1, np.int8)
        border[anchors.pieces[:, 0]] += 1
        border[anchors.pieces[:, 1]] -= 1
        is_shown = np.cumsum(border[:-1], dtype=np.int8) == 0
        is_slot = is_shown.copy()
        is_slot[anchors.pieces[:, 0]] = True
    before = np.concatenate([[0], np.cumsum(is_slot)])
    counts = words.counts
    slots = before[1:] - 1 - np.repeat(before[np.cumsum(counts) - counts], counts)
    return is_shown, slots.astype(np.int32)
