"""Words alone, with the entity of each mention beside them, for objectives that predict it.

Axis legend: mention.
"""

from __future__ import annotations

import numpy as np
import torch

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.graphs.graph import EdgeKind, WordKnowledgeGraph
from kept.graphs.views.base import WeighingView, row, weights_of, words_of
from kept.graphs.views.colake import is_anchor


class LinkedWordsView(WeighingView):
    """`linked_words` as a method's view; build graphs with `WORDS_ONLY`.

    Without a graph no mention has an entity, and the words are the same. With `weigh_links`
    mentions are weighted by their link's confidence in the losses.
    """

    reads_graph = False

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        batch = linked_words(graph)
        if not self.weigh_links:
            return batch
        weights = weights_of(graph)[is_anchor(graph)]
        return batch.replace(mention_weights=torch.from_numpy(weights)[None])


def linked_words(graph: WordKnowledgeGraph) -> KnowledgeBatch:
    """`words_of` with `mention_spans` and `mention_labels` (entity rows) of the linked mentions.

    Where links have labels, they are the `mention_classes`. Encoders that read words alone never
    look at them. Mentions are in text order.
    """
    words = words_of(graph)
    anchors = np.flatnonzero(is_anchor(graph))
    edges = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY]
    first = np.full(graph.n_nodes, graph.n_nodes, np.int64)
    last = np.full(graph.n_nodes, -1, np.int64)
    np.minimum.at(first, edges[:, 1], edges[:, 0])
    np.maximum.at(last, edges[:, 1], edges[:, 0])
    spans = np.stack([first[anchors], last[anchors] + 1], axis=1)
    classes = None
    if graph.link_labels is not None:
        classes = row(graph.link_labels[graph.origins[anchors, 0]])
    return words.replace(
        mention_classes=classes,
        mention_spans=row(spans),
        mention_labels=row(graph.ids[anchors] + N_SPECIAL_ROWS),
    )
