"""Nodes put between the words of a text, or in the place of some.

Axis legend: node, word, insertion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from kept.batches import KnowledgeBatch, Visibility
from kept.graphs.views.base import row


@dataclasses.dataclass(frozen=True)
class Insertion:
    """Nodes that stand before word `start`; words from there to `stop` (exclusive) go.

    `weight` is how sure the link is that brings them.
    """

    start: int
    stop: int
    ids: tuple[int, ...]
    kinds: tuple[int, ...]
    weight: float = 1.0


def insert(
    words: KnowledgeBatch, insertions: Sequence[Insertion]
) -> tuple[KnowledgeBatch, NDArray[np.int64], NDArray[np.int64]]:
    """`words` (a batch of one, words alone) with every insertion, positions running on.

    All nodes see all, and inserted ones belong to the segment of the word that they stand before.
    Also returned: the node of each word `[word]`, for one that went the first node of what stands
    in its place, and the first node of each insertion `[insertion]`. Insertions are in the order of
    the text and do not overlap.
    """
    ids, segments = words.node_ids[0].tolist(), words.segment_ids[0].tolist()
    nodes: list[tuple[int, int, int, float]] = []  # id, kind, segment, weight
    places = np.empty(len(ids), np.int64)
    starts: list[int] = []
    word = 0

    def take_words(stop: int) -> None:
        for i in range(word, stop):
            places[i] = len(nodes)
            nodes.append((ids[i], 0, segments[i], 1.0))

    for each in insertions:
        take_words(each.start)
        starts.append(len(nodes))
        places[each.start : each.stop] = len(nodes)
        pairs = zip(each.ids, each.kinds, strict=True)
        nodes += [(id_, kind, segments[each.start], each.weight) for id_, kind in pairs]
        word = each.stop
    take_words(len(ids))
    columns = [np.array(column) for column in zip(*nodes, strict=True)]
    n_nodes = len(nodes)
    batch = KnowledgeBatch(
        node_ids=row(columns[0]),
        node_kinds=row(columns[1]),
        node_mask=torch.ones(1, n_nodes, dtype=torch.bool),
        positions=torch.arange(n_nodes)[None],
        segment_ids=row(columns[2]),
        visibility=Visibility.everyone(1, n_nodes),
        node_weights=torch.from_numpy(columns[3].astype(np.float32))[None],
    )
    return batch, places, np.array(starts, np.int64)
