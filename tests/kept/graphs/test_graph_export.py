"""Exports hold the whole graph: each is read back and compared, node by node, edge by edge."""

from __future__ import annotations

import builtins
import dataclasses
from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import LinkedText
from kept.errors import BatchError, MissingExtraError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.export import from_json, to_dgl, to_json, to_networkx, to_pyg
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views import adjacency
from kg_loaders import KnowledgeGraph

TYPES = {kind.name.lower(): kind for kind in NodeKind}
EDGE_TYPES = {kind.name.lower(): kind for kind in EdgeKind}
FEATURES = ("ids", "positions", "spans", "origins")


@pytest.fixture(scope="module")
def graphs(
    tokenizer: Any, small_graph: KnowledgeGraph, linked: list[LinkedText]
) -> list[WordKnowledgeGraph]:
    config = BuilderConfig(replace_mentions=False, directions="both")
    return build_many(linked[:8], tokenizer, small_graph, seed=0, config=config)


def edge_set(built: WordKnowledgeGraph) -> list[tuple[int, int, int, float]]:
    rows = zip(built.edges.tolist(), built.edge_kinds, built.edge_weights, strict=True)
    return sorted((*edge, int(kind), float(weight)) for edge, kind, weight in rows)


def test_json_round_trip(graphs: list[WordKnowledgeGraph]) -> None:
    for built in graphs:
        again = from_json(to_json(built))
        for field in dataclasses.fields(WordKnowledgeGraph):
            ours, theirs = getattr(again, field.name), getattr(built, field.name)
            if isinstance(theirs, np.ndarray):
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours, theirs)
            else:
                assert ours == theirs


def test_pyg_holds_everything(graphs: list[WordKnowledgeGraph]) -> None:
    for built in graphs:
        data = to_pyg(built)
        data.validate(raise_on_error=True)
        for name, kind in TYPES.items():
            nodes = data[name].nodes.numpy()
            np.testing.assert_array_equal(nodes, np.flatnonzero(built.kinds == kind))
            for feature in FEATURES:
                np.testing.assert_array_equal(data[name][feature], getattr(built, feature)[nodes])
        edges = [
            (
                int(data[source].nodes[i]),
                int(data[target].nodes[j]),
                int(EDGE_TYPES[edge_type]),
                float(weight),
            )
            for source, edge_type, target in data.edge_types
            for (i, j), weight in zip(
                data[source, edge_type, target].edge_index.T.tolist(),
                data[source, edge_type, target].weights,
                strict=True,
            )
        ]
        assert sorted(edges) == edge_set(built)


def test_dgl_holds_everything(graphs: list[WordKnowledgeGraph]) -> None:
    pytest.importorskip("dgl", reason="the extra `dgl` is not installed")
    for built in graphs:
        data = to_dgl(built)
        for name, kind in TYPES.items():
            nodes = data.nodes[name].data["nodes"].numpy()
            np.testing.assert_array_equal(nodes, np.flatnonzero(built.kinds == kind))
            for feature in FEATURES:
                theirs = data.nodes[name].data[feature]
                np.testing.assert_array_equal(theirs, getattr(built, feature)[nodes])
        edges = []
        for source, edge_type, target in data.canonical_etypes:
            i, j = data.edges(etype=(source, edge_type, target))
            weights = data.edges[(source, edge_type, target)].data["weights"]
            i, j = data.nodes[source].data["nodes"][i], data.nodes[target].data["nodes"][j]
            rows = zip(i.tolist(), j.tolist(), weights.tolist(), strict=True)
            edges += [(a, b, int(EDGE_TYPES[edge_type]), w) for a, b, w in rows]
        assert sorted(edges) == edge_set(built)


def test_networkx_holds_everything(graphs: list[WordKnowledgeGraph]) -> None:
    for built in graphs:
        data = to_networkx(built)
        assert list(data.nodes) == list(range(built.n_nodes))
        for node, attributes in data.nodes(data=True):
            assert TYPES[attributes["kind"]] == built.kinds[node]
            assert attributes["id"] == built.ids[node]
            assert attributes["position"] == built.positions[node]
            assert attributes["span"] == tuple(built.spans[node])
            assert attributes["origin"] == tuple(built.origins[node])
        edges = [
            (i, j, int(EDGE_TYPES[a["kind"]]), a["weight"]) for i, j, a in data.edges(data=True)
        ]
        assert sorted(edges) == edge_set(built)


def test_complete_export_is_the_adjacency(graphs: list[WordKnowledgeGraph]) -> None:
    for built in graphs:
        data = to_networkx(built, complete=True)
        seen = np.eye(built.n_nodes, dtype=bool)
        for i, j in data.edges():
            seen[i, j] = seen[j, i] = True
        np.testing.assert_array_equal(seen, adjacency(built))
        pyg = to_pyg(built, complete=True)
        n_edges = sum(pyg[edge_type].edge_index.shape[1] for edge_type in pyg.edge_types)
        assert n_edges == data.number_of_edges()


def test_dgl_is_named_when_it_is_missing(
    graphs: list[WordKnowledgeGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_dgl(name: str, *args: Any) -> Any:
        if name == "dgl":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_dgl)
    with pytest.raises(MissingExtraError, match=r"kept\[dgl\]"):
        to_dgl(graphs[0])


@pytest.mark.parametrize(
    "line", ["", "[]", "{}", '{"version": 9}', '{"version": 1, "links": [], "kinds": ["x"]}']
)
def test_other_json_is_refused(line: str) -> None:
    with pytest.raises(BatchError):
        from_json(line)
