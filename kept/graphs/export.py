"""Word-knowledge graphs for other libraries, and as JSON.

Node and edge types are named after `NodeKind` and `EdgeKind`: an edge type is a triple such as
("entity", "entity_relation", "relation"). Word-word edges are implied; `complete=True` writes them
out, as every ordered pair of different nodes in the block of words and anchors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from entity_linking.mentions import Candidate, Link, Mention
from kept.errors import BatchError, MissingExtraError
from kept.graphs.exchange import imported_dgl
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views import is_anchor

JSON_VERSION = 2
_NODE_ARRAYS = {
    "kinds": "u1", "ids": "i4", "positions": "i4", "segments": "u1", "spans": "i4", "origins": "i4"
}  # fmt: skip
_EDGE_ARRAYS = {"edges": "i4", "edge_kinds": "u1", "edge_weights": "f4"}
_WIDTHS = {"spans": 2, "origins": 3, "edges": 2}


def to_pyg(graph: WordKnowledgeGraph, *, complete: bool = False) -> Any:
    """`torch_geometric.data.HeteroData` with node types word, entity, relation.

    Nodes carry `ids`, `positions`, `segments`, `spans`, `origins` and `nodes` (their index in
    `graph`); edges `edge_index` and `weights`. An edge type without edges is absent.
    """
    try:
        from torch_geometric.data import HeteroData  # slow to import, and few need it
    except ImportError as error:
        raise MissingExtraError("torch-geometric is missing: pip install 'kept[pyg]'") from error

    data = HeteroData()
    for kind in NodeKind:
        nodes = np.flatnonzero(graph.kinds == kind)
        store = data[kind.name.lower()]
        store.num_nodes = len(nodes)
        store.nodes = torch.from_numpy(nodes)
        for name in ("ids", "positions", "segments", "spans", "origins"):
            store[name] = torch.from_numpy(getattr(graph, name)[nodes].astype(np.int64))
    for edge_type, edges, weights in _typed_edges(graph, complete):
        data[edge_type].edge_index = torch.from_numpy(edges.T.copy())
        data[edge_type].weights = torch.from_numpy(weights)
    return data


def to_dgl(graph: WordKnowledgeGraph, *, complete: bool = False) -> Any:
    """`dgl.DGLGraph` (heterogeneous) with the types and features of `to_pyg`.

    Raises `MissingExtraError` when DGL is not installed.
    """
    dgl = imported_dgl("to_dgl")
    typed = list(_typed_edges(graph, complete))
    edges = {kind: tuple(torch.from_numpy(column.copy()) for column in e.T) for kind, e, _ in typed}
    counts = {kind.name.lower(): int((graph.kinds == kind).sum()) for kind in NodeKind}
    data = dgl.heterograph(edges, num_nodes_dict=counts, idtype=torch.int64)
    for kind in NodeKind:
        nodes = np.flatnonzero(graph.kinds == kind)
        features = data.nodes[kind.name.lower()].data
        features["nodes"] = torch.from_numpy(nodes)
        for name in ("ids", "positions", "segments", "spans", "origins"):
            features[name] = torch.from_numpy(getattr(graph, name)[nodes].astype(np.int64))
    for edge_type, _, weights in typed:
        data.edges[edge_type].data["weights"] = torch.from_numpy(weights)
    return data


def to_networkx(graph: WordKnowledgeGraph, *, complete: bool = False) -> nx.MultiDiGraph[int]:
    """A `MultiDiGraph` over node indices; attributes kind, id, position, span, origin, weight."""
    data: nx.MultiDiGraph[int] = nx.MultiDiGraph(text=graph.text)
    for node in range(graph.n_nodes):
        data.add_node(
            node,
            kind=NodeKind(int(graph.kinds[node])).name.lower(),
            id=int(graph.ids[node]),
            position=int(graph.positions[node]),
            span=tuple(graph.spans[node].tolist()),
            origin=tuple(graph.origins[node].tolist()),
        )
    edges, kinds, weights = _all_edges(graph, complete)
    for (source, target), kind, weight in zip(
        edges.tolist(), kinds.tolist(), weights.tolist(), strict=True
    ):
        data.add_edge(source, target, kind=EdgeKind(kind).name.lower(), weight=weight)
    return data


def to_json(graph: WordKnowledgeGraph) -> str:
    """One line of JSON that `from_json` reads back."""
    links = [
        {
            "start": link.mention.start,
            "end": link.mention.end,
            "entity": link.entity,
            "confidence": link.confidence,
            "candidates": [[c.entity, c.prior, c.score] for c in link.candidates],
        }
        for link in graph.links
    ]
    arrays = {name: getattr(graph, name).tolist() for name in (*_NODE_ARRAYS, *_EDGE_ARRAYS)}
    fields = {"text": graph.text, "id_space_hash": graph.id_space_hash, "links": links, **arrays}
    return json.dumps({"version": JSON_VERSION, **fields}, ensure_ascii=False)


def from_json(line: str) -> WordKnowledgeGraph:
    """Read what `to_json` wrote; raises `BatchError` for anything else."""
    try:
        data = json.loads(line)
        if data["version"] != JSON_VERSION:
            raise BatchError(
                f"word-knowledge graph of version {data['version']}, this kept reads {JSON_VERSION}"
            )
        links = tuple(
            Link(
                Mention(item["start"], item["end"]),
                tuple(Candidate(*candidate) for candidate in item["candidates"]),
                item["entity"],
                item["confidence"],
            )
            for item in data["links"]
        )
        arrays: dict[str, Any] = {
            name: _array(data[name], name) for name in (*_NODE_ARRAYS, *_EDGE_ARRAYS)
        }
        return WordKnowledgeGraph(
            text=data["text"], links=links, id_space_hash=data["id_space_hash"], **arrays
        )
    except BatchError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise BatchError(f"not a word-knowledge graph: {error!r}: {line[:80]!r}") from error


def _array(values: Any, name: str) -> NDArray[Any]:
    array = np.array(values, np.dtype((_NODE_ARRAYS | _EDGE_ARRAYS)[name]))
    return array.reshape(-1, _WIDTHS[name]) if name in _WIDTHS else array


def _all_edges(
    graph: WordKnowledgeGraph, complete: bool
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.float32]]:
    edges, kinds, weights = graph.edges.astype(np.int64), graph.edge_kinds, graph.edge_weights
    if not complete:
        return edges, kinds, weights
    block = np.flatnonzero((graph.kinds == NodeKind.WORD) | is_anchor(graph))
    source, target = (axis.ravel() for axis in np.meshgrid(block, block, indexing="ij"))
    pairs = np.stack([source, target], axis=1)[source != target]
    return (
        np.concatenate([pairs, edges]),
        np.concatenate([np.full(len(pairs), EdgeKind.WORD_WORD, np.uint8), kinds]),
        np.concatenate([np.ones(len(pairs), np.float32), weights]),
    )


def _typed_edges(
    graph: WordKnowledgeGraph, complete: bool
) -> Iterator[tuple[tuple[str, str, str], NDArray[np.int64], NDArray[np.float32]]]:
    """(edge type, edges `[edge 2]` counted within each node type, weights), without empty types."""
    rank = np.zeros(graph.n_nodes, np.int64)
    for kind in NodeKind:
        nodes = np.flatnonzero(graph.kinds == kind)
        rank[nodes] = np.arange(len(nodes))
    edges, kinds, weights = _all_edges(graph, complete)
    for source in NodeKind:
        for edge_kind in EdgeKind:
            for target in NodeKind:
                ends = graph.kinds[edges]
                is_of_type = (kinds == edge_kind) & (ends[:, 0] == source) & (ends[:, 1] == target)
                if is_of_type.any():
                    names = (source.name.lower(), edge_kind.name.lower(), target.name.lower())
                    yield names, rank[edges[is_of_type]], weights[is_of_type]
