"""CoLAKE's view (Sun et al. 2020, section 3.1): words, anchors, entities and relations as nodes.

Axis legend: node, text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch, Layout, Visibility
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views.base import WeighingView, weights_of


class CoLAKEView(WeighingView):
    """`colake_view` as a method's view.

    With `weigh_links` nodes are weighted by the confidence of their link; an anchor that took the
    place of its words keeps weight 1, since nothing else represents it. A node sees what is at most
    `reach` edges away: 1 is the paper's, where a word sees no more than the anchors; with 2 a word
    sees their relations, and an anchor the other ends of its facts; with 3 a word sees these, too.
    """

    def __init__(self, *, weigh_links: bool = False, reach: int = 1) -> None:
        if reach < 1:
            raise ConfigError(f"CoLAKEView: reach {reach}: 1 or more")
        super().__init__(weigh_links=weigh_links)
        self.reach = reach

    @classmethod
    def within_positions(
        cls, n_positions: int, options: Mapping[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """A relation and the other end of its fact take the two positions behind an anchor."""
        return n_positions - 2, {}

    @property
    def fingerprint(self) -> str:
        return super().fingerprint + (f" reach {self.reach}" if self.reach > 1 else "")

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        return self.stacked([graph])

    def stacked(
        self, graphs: Sequence[WordKnowledgeGraph], *, word_pad_id: int = 0
    ) -> KnowledgeBatch:
        """In one pass."""
        batch = colake_batch(graphs, word_pad_id=word_pad_id, reach=self.reach)
        if not self.weigh_links:
            return batch
        weights = np.ones(batch.node_ids.shape, np.float32)
        for row, graph in zip(weights, graphs, strict=True):
            row[: graph.n_nodes] = _link_weights(graph)
        return batch.replace(node_weights=torch.from_numpy(weights))

    def places(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> NDArray[np.int64]:
        """Every node of the graph is the node of the batch with its number."""
        return np.arange(graph.n_nodes)

    def n_nodes(
        self, n_words: NDArray[np.int64], n_links: NDArray[np.int64], n_facts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return n_words + n_links + 2 * n_facts


def _link_weights(graph: WordKnowledgeGraph) -> NDArray[np.float32]:
    """Confidence of the link behind each node; 1 where nothing else represents the words."""
    weights = weights_of(graph)
    entity_nodes = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY, 1]
    alone = is_anchor(graph)
    alone[entity_nodes] = False
    weights[alone] = 1.0
    return weights


def is_anchor(graph: WordKnowledgeGraph) -> NDArray[np.bool_]:
    """Which nodes are anchors: entities with a span, bool `[node]`."""
    anchor: NDArray[np.bool_] = (graph.kinds == NodeKind.ENTITY) & (graph.spans[:, 0] >= 0)
    return anchor


def adjacency(graph: WordKnowledgeGraph) -> NDArray[np.bool_]:
    """Who sees whom in CoLAKE (section 3.1), bool `[node node]`, symmetric.

    Words and anchors form one complete block; a relation and each of its two entities see one
    another; every node sees itself. A head and its tail do not see one another directly.
    """
    reachable = np.eye(graph.n_nodes, dtype=np.bool_)
    block = np.flatnonzero((graph.kinds == NodeKind.WORD) | is_anchor(graph))
    reachable[np.ix_(block, block)] = True
    facts = graph.edges[graph.edge_kinds >= EdgeKind.ENTITY_RELATION]
    reachable[facts[:, 0], facts[:, 1]] = True
    reachable[facts[:, 1], facts[:, 0]] = True
    return reachable


def colake_view(graph: WordKnowledgeGraph) -> KnowledgeBatch:
    """One graph as CoLAKE reads it: a batch of one, without padding.

    `node_ids` of entities and relations are table rows (graph id + `N_SPECIAL_ROWS`); `segment_ids`
    are the host's own and 0; `mention_spans` are the anchors in text order, each one node long.
    """
    return colake_batch([graph])


def colake_batch(
    graphs: Sequence[WordKnowledgeGraph],
    *,
    layout: Layout = "joined",
    word_pad_id: int = 0,
    reach: int = 1,
) -> KnowledgeBatch:
    """`colake_view` of every graph, stacked; in layout "joined" in one pass over all nodes.

    `reach` is `CoLAKEView`'s, for layout "joined".
    """
    if layout == "grouped":
        samples = [colake_view(graph) for graph in graphs]
        return KnowledgeBatch.stack(samples, layout=layout, word_pad_id=word_pad_id)
    rows = Rows.of(graphs)
    kinds = np.concatenate([graph.kinds for graph in graphs])
    spans = np.concatenate([graph.spans for graph in graphs])
    ids = np.concatenate([graph.ids for graph in graphs]).astype(np.int64)
    ids[kinds != NodeKind.WORD] += N_SPECIAL_ROWS
    anchor = (kinds == NodeKind.ENTITY) & (spans[:, 0] >= 0)
    return KnowledgeBatch(
        node_ids=rows.padded(ids, word_pad_id),
        node_kinds=rows.padded(kinds.astype(np.int64), 0),
        node_mask=rows.padded(np.ones(len(kinds), np.bool_), False),
        positions=rows.padded(rows.of_nodes("positions"), 0),
        segment_ids=rows.padded(rows.of_nodes("segments"), 0),
        visibility=Visibility(within(_adjacencies(rows, anchor, kinds), reach)),
        mention_spans=_anchor_spans(rows, anchor),
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """Where the nodes of several graphs stand in rows as long as the largest: `places [node]` of
    the flat rows, `firsts [graph]` the number of its first node among all."""

    graphs: Sequence[WordKnowledgeGraph]
    width: int
    firsts: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, graphs: Sequence[WordKnowledgeGraph]) -> Rows:
        """Raises `BatchError` without a graph."""
        if not graphs:
            raise BatchError("there is nothing to stack")
        counts = np.array([graph.n_nodes for graph in graphs])
        firsts, width = np.cumsum(counts) - counts, int(counts.max())
        shift = np.repeat(np.arange(len(graphs)) * width - firsts, counts)
        return cls(graphs, width, firsts, np.arange(len(shift)) + shift)

    def of_nodes(self, name: str) -> NDArray[np.int64]:
        """A field of all graphs, `[node]`."""
        return np.concatenate([getattr(graph, name) for graph in self.graphs]).astype(np.int64)

    def padded(self, values: NDArray[Any], fill: int | bool) -> Tensor:
        """`values [node]` in rows, `[graph width]`."""
        whole = np.full(len(self.graphs) * self.width, fill, values.dtype)
        whole[self.places] = values
        return torch.from_numpy(whole.reshape(len(self.graphs), self.width))


def _adjacencies(
    rows: Rows, anchor: NDArray[np.bool_], kinds: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """`adjacency` of every graph, `[graph width width]`; padding sees itself."""
    block = rows.padded(anchor | (kinds == NodeKind.WORD), False).numpy()
    reachable: NDArray[np.bool_] = block[:, :, None] & block[:, None, :]
    n, width = block.shape
    flat = reachable.reshape(n, width * width)
    flat[:, :: width + 1] = True
    edges = [graph.edges[graph.edge_kinds >= EdgeKind.ENTITY_RELATION] for graph in rows.graphs]
    sources, targets = np.concatenate(edges).T.astype(np.int64)
    rests = np.repeat(np.arange(n), [len(each) for each in edges]) * (width * width)
    whole = reachable.reshape(-1)
    whole[rests + sources * width + targets] = True
    whole[rests + targets * width + sources] = True
    return reachable


def within(adjacency: NDArray[np.bool_], reach: int) -> Tensor:
    """Who is at most `reach` edges from whom, `[graph width width]`; each node is 0 from itself."""
    one = torch.from_numpy(adjacency)
    reachable = one
    for _ in range(reach - 1):
        reachable = reachable.float() @ one.float() > 0
    return reachable


def _anchor_spans(rows: Rows, anchor: NDArray[np.bool_]) -> Tensor:
    """The anchors of every graph, each one node long, `[graph mention 2]`; (0, 0) is padding."""
    nodes = np.flatnonzero(anchor)
    owners = np.searchsorted(rows.firsts, nodes, side="right") - 1
    counts = np.bincount(owners, minlength=len(rows.graphs))
    numbers = np.arange(len(nodes)) - (np.cumsum(counts) - counts)[owners]
    spans = np.zeros((len(counts), counts.max(), 2), np.int64)
    spans[owners, numbers, 0] = nodes - rows.firsts[owners]
    spans[owners, numbers, 1] = spans[owners, numbers, 0] + 1
    return torch.from_numpy(spans)
