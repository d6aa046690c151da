"""CoLAKE's view (Sun et al. 2020, section 3.1): words, anchors, entities and relations as nodes.

Axis legend: node, text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch, Layout, Visibility
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views.base import WeighingView, row, weights_of


class CoLAKEView(WeighingView):
    """`colake_view` as a method's view.

    With `weigh_links` nodes are weighted by the confidence of their link; an anchor that took the
    place of its words keeps weight 1, since nothing else represents it.
    """

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        batch = colake_view(graph)
        if not self.weigh_links:
            return batch
        weights = weights_of(graph)
        beside = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY, 1]
        alone = is_anchor(graph)
        alone[beside] = False
        weights[alone] = 1.0
        return batch.replace(node_weights=torch.from_numpy(weights)[None])

    def places(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> NDArray[np.int64]:
        """Every node of the graph is the node of the batch with its number."""
        return np.arange(graph.n_nodes)

    def n_nodes(
        self, n_words: NDArray[np.int64], n_links: NDArray[np.int64], n_facts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return n_words + n_links + 2 * n_facts


def is_anchor(graph: WordKnowledgeGraph) -> NDArray[np.bool_]:
    """Which nodes are anchors: entities with a span, bool `[node]`."""
    anchor: NDArray[np.bool_] = (graph.kinds == NodeKind.ENTITY) & (graph.spans[:, 0] >= 0)
    return anchor


def adjacency(graph: WordKnowledgeGraph) -> NDArray[np.bool_]:
    """Who sees whom in CoLAKE (section 3.1), bool `[node node]`, symmetric.

    Words and anchors form one complete block; a relation and each of its two entities see one
    another; every node sees itself. A head and its tail do not see one another directly.
    """
    seen = np.eye(graph.n_nodes, dtype=np.bool_)
    block = np.flatnonzero((graph.kinds == NodeKind.WORD) | is_anchor(graph))
    seen[np.ix_(block, block)] = True
    facts = graph.edges[graph.edge_kinds >= EdgeKind.ENTITY_RELATION]
    seen[facts[:, 0], facts[:, 1]] = True
    seen[facts[:, 1], facts[:, 0]] = True
    return seen


def colake_view(graph: WordKnowledgeGraph) -> KnowledgeBatch:
    """One graph as CoLAKE reads it: a batch of one, without padding.

    `node_ids` of entities and relations are table rows (graph id + `N_SPECIAL_ROWS`); `segment_ids`
    are the host's own and 0; `mention_spans` are the anchors in text order, each one node long.
    """
    kinds = graph.kinds.astype(np.int64)
    anchors = np.flatnonzero(is_anchor(graph))
    return KnowledgeBatch(
        node_ids=row(graph.ids + np.where(kinds == NodeKind.WORD, 0, N_SPECIAL_ROWS)),
        node_kinds=row(kinds),
        node_mask=torch.ones(1, graph.n_nodes, dtype=torch.bool),
        positions=row(graph.positions),
        segment_ids=row(graph.segments),
        visibility=Visibility(torch.from_numpy(adjacency(graph))[None]),
        mention_spans=row(np.stack([anchors, anchors + 1], axis=1)),
    )


def colake_batch(
    graphs: Sequence[WordKnowledgeGraph], *, layout: Layout = "joined", word_pad_id: int = 0
) -> KnowledgeBatch:
    """`colake_view` of every graph, stacked."""
    return KnowledgeBatch.stack(
        [colake_view(graph) for graph in graphs], layout=layout, word_pad_id=word_pad_id
    )
