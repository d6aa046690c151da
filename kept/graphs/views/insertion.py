"""Nodes put between the words of a text, in the place of some, or behind them all.

Axis legend: node, word, insertion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kept.batches import KnowledgeBatch, Visibility
from kept.graphs.views.base import row

Ids = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Insertion:
    """Nodes that stand before word `start`; words from there to `stop` (exclusive) go.

    They belong to the segment of the word `mention`. `weight` is the confidence of their link.
    """

    start: int
    stop: int
    mention: int
    ids: tuple[int, ...]
    kinds: tuple[int, ...]
    weight: float = 1.0


class Inserted(NamedTuple):
    """The nodes in one row, and where each is from.

    `of_words [word]` is the node of each word, for one that went the first node in its place;
    `of_insertions [insertion]` the first node of each insertion; `owners [node]` the number of the
    insertion that brought a node, -1 for words.
    """

    batch: KnowledgeBatch
    of_words: Ids
    of_insertions: Ids
    owners: Ids


def insert(
    words: KnowledgeBatch,
    insertions: Sequence[Insertion],
    *,
    words_first: bool = False,
    soft_positions: bool = False,
) -> Inserted:
    """`words` (as `words_of` returns them) with every insertion; all nodes see all.

    Nodes stand in the order in which they are read, with `words_first` words before all else.
    Positions run on in the order of reading; with `soft_positions` words keep theirs, and each
    insertion goes on from the word before it (K-BERT, section 3.2). Insertions are in the order of
    the text and do not overlap.
    """
    stays = np.ones(words.node_ids.shape[1], np.bool_)
    for each in insertions:
        stays[each.start : each.stop] = False
    staying = np.flatnonzero(stays)
    lengths = _ints(len(each.ids) for each in insertions)
    brought = np.repeat(np.arange(len(insertions)), lengths)
    starts = _ints(each.start for each in insertions)[brought]
    mentions = _ints(each.mention for each in insertions)[brought]
    read = _ranks(np.concatenate([staying + 0.5, starts]))
    slots = np.arange(len(read)) if words_first else read
    firsts = np.cumsum(lengths) - lengths
    positions = read
    if soft_positions:
        positions = np.concatenate([staying, starts + np.arange(len(brought)) - firsts[brought]])
    of_insertions = slots[len(staying) + firsts]
    of_words = np.empty(len(stays), np.int64)
    of_words[staying] = slots[: len(staying)]
    for each, node in zip(insertions, of_insertions, strict=True):
        of_words[each.start : each.stop] = node

    def laid_out(of_word: NDArray[Any], of_brought: Any) -> NDArray[Any]:
        column = np.concatenate([of_word[staying], np.asarray(of_brought, of_word.dtype)])
        return column[np.argsort(slots)]

    ids, kinds, segments = (
        column[0].numpy() for column in (words.node_ids, words.node_kinds, words.segment_ids)
    )
    weights = np.array([each.weight for each in insertions], np.float32)[brought]
    batch = KnowledgeBatch(
        node_ids=row(laid_out(ids, [i for each in insertions for i in each.ids])),
        node_kinds=row(laid_out(kinds, [k for each in insertions for k in each.kinds])),
        node_mask=torch.ones(1, len(slots), dtype=torch.bool),
        positions=row(positions[np.argsort(slots)]),
        segment_ids=row(laid_out(segments, segments[mentions])),
        visibility=Visibility.everyone(1, len(slots)),
        node_weights=torch.from_numpy(laid_out(np.ones(len(ids), np.float32), weights))[None],
    )
    return Inserted(batch, of_words, of_insertions, laid_out(np.full(len(ids), -1), brought))


def _ints(values: Any) -> Ids:
    return np.fromiter(values, np.int64)


def _ranks(keys: NDArray[np.float64]) -> Ids:
    """The place of each key among all, equal ones in their order."""
    ranks = np.empty(len(keys), np.int64)
    ranks[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return ranks
