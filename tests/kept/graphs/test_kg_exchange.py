"""Whole graphs in pandas, networkx, torch-geometric and DGL hold the same triples."""

import pytest

import kept
from kg_loaders import KnowledgeGraph


def test_networkx_has_every_triple_and_label(small_graph: KnowledgeGraph) -> None:
    exported = kept.kg_to_networkx(small_graph)
    assert exported.number_of_nodes() == small_graph.n_entities
    triples = {(head, data["relation"], tail) for head, tail, data in exported.edges(data=True)}
    names = small_graph.entities.name
    assert triples == {
        (names(h), small_graph.relations.name(r), names(t))
        for h, r, t in small_graph.triples.tolist()
    }
    for entity in range(small_graph.n_entities):
        assert exported.nodes[names(entity)]["label"] == small_graph.label(entity)


def test_torch_geometric_and_dgl_have_the_same_edges(small_graph: KnowledgeGraph) -> None:
    data = kept.kg_to_pyg(small_graph)
    assert data.num_nodes == small_graph.n_entities
    rows = zip(*data.edge_index.tolist(), data.edge_type.tolist(), strict=True)
    assert [[h, r, t] for h, t, r in rows] == small_graph.triples.tolist()
    pytest.importorskip("dgl", exc_type=ImportError)
    exported = kept.kg_to_dgl(small_graph)
    assert exported.num_nodes() == small_graph.n_entities
    heads, tails = (ends.tolist() for ends in exported.edges())
    triples = list(zip(heads, exported.edata["relation"].tolist(), tails, strict=True))
    assert triples == [tuple(row) for row in small_graph.triples.tolist()]


def test_pandas_has_a_row_per_triple(small_graph: KnowledgeGraph) -> None:
    pytest.importorskip("pandas")
    frame = kept.kg_to_pandas(small_graph)
    assert len(frame) == small_graph.n_triples
    head, relation, tail = small_graph.triples[0].tolist()
    assert frame.iloc[0].tolist() == [
        small_graph.entities.name(head),
        small_graph.relations.name(relation),
        small_graph.entities.name(tail),
        small_graph.label(head),
        small_graph.relation_label(relation),
        small_graph.label(tail),
    ]
