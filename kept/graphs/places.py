"""Which nodes of a batch stand for a span of the text, in any method's view.

Axis legend: node, target.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import Mention
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph


def text_nodes(graph: WordKnowledgeGraph) -> NDArray[np.int64]:
    """Nodes that stand for the text, in its order: words, and anchors in the place of their words.

    Special word pieces, which have no characters, are not among them.
    """
    entity_nodes = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY, 1]
    is_text = graph.spans[:, 0] >= 0
    is_text[entity_nodes] = False
    nodes = np.flatnonzero(is_text)
    return nodes[np.argsort(graph.spans[nodes, 0], kind="stable")]


def nodes_of(
    graph: WordKnowledgeGraph, nodes: NDArray[np.int64], mention: Mention
) -> NDArray[np.int64]:
    """Those of `nodes` (of `text_nodes`) that share a character with `mention`."""
    spans = graph.spans[nodes]
    return nodes[(spans[:, 0] < mention.end) & (spans[:, 1] > mention.start)]


def target_spans(
    graph: WordKnowledgeGraph, positions: NDArray[np.int64], targets: Sequence[Mention]
) -> NDArray[np.int64]:
    """Batch nodes of every target, `[target 2]`; (0, 0) for one that no shown node stands for.

    A target's words count; an anchor only where it took the place of all of them. `positions` are
    `View.places`. Where a view puts branches between words, the span reaches over them.
    """
    nodes = text_nodes(graph)
    spans = np.zeros((len(targets), 2), np.int64)
    for i, target in enumerate(targets):
        nodes_chosen = nodes_of(graph, nodes, target)
        words = nodes_chosen[graph.kinds[nodes_chosen] == NodeKind.WORD]
        nodes_chosen = words if len(words) else nodes_chosen
        target_rows = positions[nodes_chosen]
        target_rows = target_rows[target_rows >= 0]
        if len(target_rows):
            spans[i] = target_rows.min(), target_rows.max() + 1
    return spans
