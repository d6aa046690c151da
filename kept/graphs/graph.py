"""`WordKnowledgeGraph`: the positional heterogeneous graph of one text, as flat arrays.

Nodes are word pieces, entities and relations. Each injected node remembers why it is there.
Axis legend: node, edge, link, triple.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import Link
from kg_loaders.counting import counted
from kg_loaders.notebook import table


class NodeKind(IntEnum):
    """What a node is. The numbers enter tensors."""

    WORD = 0
    ENTITY = 1
    RELATION = 2


class EdgeKind(IntEnum):
    """What an edge joins."""

    WORD_WORD = 0
    MENTION_ENTITY = 1
    ENTITY_RELATION = 2
    RELATION_ENTITY = 3


class Hidden(Protocol):
    """Facts that a text must not be shown."""

    def keeps(self, triples: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of `triples [n 3]` may be shown, bool `[n]`."""
        ...


@dataclass(frozen=True, eq=False)
class WordKnowledgeGraph:
    """One text joined with its neighbourhood in a knowledge graph.

    Shapes: `kinds` uint8, `ids` int32, `positions` int32, `segments` uint8 `[node]`; `spans` int32
    `[node 2]` (character offsets, -1 for injected nodes); `origins` int32 `[node 3]` =
    (index into `links`, graph triple row, rank of that triple among the entity's candidates), -1
    where none applies;
    `edges` int32 `[edge 2]` (source, target), `edge_kinds` uint8, `edge_weights` float32 `[edge]`.

    `ids` are word-piece ids for words (special tokens included), graph entity ids for entities,
    graph relation ids for relations. `segments` are 0, and 1 for the words of a second text, its
    anchors and what they bring. `link_labels` int64 `[link]` is what a text-level preparation says
    of each link (see `kept.objectives.base.Rewritten`). `hidden` are facts that a view must not
    show either, where it reads the knowledge graph itself. An *anchor* is an entity node with a
    span: it stands for a mention. Word-word edges are implied (words and anchors form one complete
    block), not stored.
    """

    text: str
    links: tuple[Link, ...]
    kinds: NDArray[np.uint8]
    ids: NDArray[np.int32]
    positions: NDArray[np.int32]
    segments: NDArray[np.uint8]
    spans: NDArray[np.int32]
    origins: NDArray[np.int32]
    edges: NDArray[np.int32]
    edge_kinds: NDArray[np.uint8]
    edge_weights: NDArray[np.float32]
    id_space_hash: str
    link_labels: NDArray[np.int64] | None = None
    hidden: Hidden | None = None

    def __repr__(self) -> str:
        counts = [int((self.kinds == kind).sum()) for kind in NodeKind]
        return (
            f"WordKnowledgeGraph({counted(counts[0], 'words')}, "
            f"{counted(counts[1], 'entities')}, {counted(counts[2], 'relations')}, "
            f"{counted(len(self.edges), 'edges')})"
        )

    def _repr_html_(self) -> str:
        rows = (
            (NodeKind(kind).name.lower(), id_, position, self.text[start:end] if start >= 0 else "")
            for kind, id_, position, (start, end) in zip(
                self.kinds.tolist(),
                self.ids.tolist(),
                self.positions.tolist(),
                self.spans.tolist(),
                strict=True,
            )
        )
        return table(repr(self), ("kind", "id", "soft position", "text"), rows, self.n_nodes)

    @property
    def n_nodes(self) -> int:
        return len(self.kinds)
