"""LUKE's view (Yamada et al. 2020, section 3.1): the words, and behind them the linked entities.

Axis legend: node, anchor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.errors import ConfigError
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views.base import WeighingView, row, weights_of, words_of
from kept.graphs.views.colake import is_anchor
from kept.graphs.views.insertion import Insertion, insert

LONGEST_MENTION = 30


class LUKEView(WeighingView):
    """Words, then one node for each linked entity in the order of the text, with `mention_spans`.

    Of a mention the first `max_mention` word pieces count. All nodes see all. With `weigh_links`
    attention to an entity is weighted by the confidence of its link. Targets of a task are no nodes
    here: the encoder gives them a [MASK] entity.
    """

    def __init__(self, *, weigh_links: bool = False, max_mention: int = LONGEST_MENTION) -> None:
        if max_mention < 1:
            raise ConfigError(f"max_mention is {max_mention}; use 1 or more")
        super().__init__(weigh_links=weigh_links)
        self.max_mention = max_mention

    @property
    def fingerprint(self) -> str:
        return f"{super().fingerprint} {self.max_mention}"

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        """Raises `BatchError` when anchors took the place of words."""
        anchors, spans = _mentions(graph)
        weights = weights_of(graph)
        insertions = [
            Insertion(
                start, start, start, (int(graph.ids[anchor]) + N_SPECIAL_ROWS,),
                (int(NodeKind.ENTITY),), float(weights[anchor]),
            )
            for anchor, start in zip(anchors.tolist(), spans[:, 0].tolist(), strict=True)
        ]  # fmt: skip
        inserted = insert(words_of(graph), insertions, words_first=True, soft_positions=True)
        spans[:, 1] = np.minimum(spans[:, 1], spans[:, 0] + self.max_mention)
        batch = inserted.batch.replace(mention_spans=row(spans))
        return batch if self.weigh_links else batch.replace(node_weights=None)

    def places(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> NDArray[np.int64]:
        """Words in their order, then linked entities in theirs."""
        anchors, _ = _mentions(graph)
        positions = np.full(graph.n_nodes, -1, np.int64)
        words = np.flatnonzero(graph.kinds == NodeKind.WORD)
        positions[words] = np.arange(len(words))
        positions[anchors] = len(words) + np.arange(len(anchors))
        return positions

    def n_nodes(
        self, n_words: NDArray[np.int64], n_links: NDArray[np.int64], n_facts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return n_words + n_links


def _mentions(graph: WordKnowledgeGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The anchors in text order, and the words of each one's mention, end exclusive."""
    anchors = np.flatnonzero(is_anchor(graph))
    edges = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY]
    spans = np.zeros((len(anchors), 2), np.int64)
    for i, anchor in enumerate(anchors.tolist()):
        words = edges[edges[:, 1] == anchor, 0]
        spans[i] = words.min(), words.max() + 1
    order = np.argsort(spans[:, 0], kind="stable")
    return anchors[order], spans[order]
