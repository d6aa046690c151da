"""ERNIE's view (Zhang et al. 2019, section 3.2): words, an entity beside the first of each mention.

Axis legend: node.
"""

from __future__ import annotations

import numpy as np
import torch

from kept.batches import N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.errors import ConfigError
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views.base import View, row, weights_of, words_of


class ERNIEView(View):
    """Words with `entity_ids`: a linked entity stands at the first word piece of its mention.

    ERNIE keeps a link or drops it: those of confidence `min_confidence` or less are dropped (the
    released code keeps scores strictly above 0.3). Gold links have confidence 1. With `weigh_links`
    those that are kept are weighted by their confidence.
    """

    def __init__(self, *, min_confidence: float = 0.3, weigh_links: bool = False) -> None:
        if not 0 <= min_confidence < 1:
            raise ConfigError(f"min_confidence {min_confidence}: from 0 to below 1")
        self.min_confidence, self.weigh_links = min_confidence, weigh_links

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        """Raises `BatchError` when anchors took the place of words."""
        batch = words_of(graph)
        anchors = np.flatnonzero((graph.kinds == NodeKind.ENTITY) & (graph.spans[:, 0] >= 0))
        confidence = np.array([graph.links[i].confidence for i in graph.origins[anchors, 0]])
        kept = anchors[confidence > self.min_confidence] if len(anchors) else anchors
        entity_ids = np.full(batch.node_ids.shape[1], PAD_ROW, np.int64)
        entity_ids[graph.positions[kept]] = graph.ids[kept] + N_SPECIAL_ROWS
        batch = batch.replace(entity_ids=row(entity_ids))
        if not self.weigh_links:
            return batch
        weights = torch.ones(1, len(entity_ids))
        weights[0, graph.positions[kept]] = torch.from_numpy(weights_of(graph)[kept])
        return batch.replace(node_weights=weights)

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.min_confidence} {self.weigh_links}"
