"""A graph by names: made of triples in hand, found by label or alias, said in words; Parquet."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from kg_loaders import (
    KnowledgeGraph,
    Text,
    TextKind,
    Triple,
    UnknownNodeError,
    atlas,
    graph_from_records,
    texts,
)
from kg_loaders.entity import distinct_name, relation_named
from kg_loaders.export import export
from kg_loaders.stored_blocks import blocks_of


def test_an_entity_in_place_of_a_relation_is_said_to_be_one() -> None:
    with pytest.raises(UnknownNodeError, match="'Berlin'; it is the name of an entity"):
        relation_named(atlas.graph(), "Berlin")
    with pytest.raises(UnknownNodeError, match="'countri'; did you mean country"):
        relation_named(atlas.graph(), "countri")


def test_triples_in_hand_make_a_graph() -> None:
    graph = KnowledgeGraph.from_triples(
        [("Q90", "P17", "Q142"), ("Q90", "P17", "Q142"), ("Q64", "P17", "Q183")],
        {"Q90": "Paris", "Q142": "France", "P17": "country"},
    )
    assert (graph.n_entities, graph.n_relations, graph.n_triples) == (4, 1, 2)
    assert graph.facts("Paris") == [("Paris", "country", "France")]
    assert graph.facts("Q183") == [("Q64", "country", "Q183")]
    with pytest.raises(UnknownNodeError, match="'Rome' is of 'Q220', which no triple has"):
        KnowledgeGraph.from_triples([("Q90", "P17", "Q142")], {"Q220": "Rome"})


def test_an_entity_is_found_under_each_of_its_names(small_graph: KnowledgeGraph) -> None:
    n_names = 0
    for entity in range(small_graph.n_entities):
        names = [small_graph.entities.name(entity), small_graph.label(entity)]
        names += [name for name, _ in small_graph.aliases(entity)]
        for name in names:
            actual = small_graph.named(name)
            assert entity in actual
            assert actual == sorted(set(actual))
            n_names += 1
    assert n_names > 20
    assert any(len(small_graph.named(small_graph.label(i))) > 1 for i in range(10)), "Paris, twice"
    assert small_graph.named("nobody at all") == []
    with pytest.raises(UnknownNodeError, match="identifier, label or alias 'nobody at all'"):
        small_graph.facts("nobody at all")


def test_facts_are_the_triples_of_both_directions(small_graph: KnowledgeGraph) -> None:
    relation = small_graph.relation_label

    def label(entity: int) -> str:
        return distinct_name(small_graph, entity)

    for entity in range(small_graph.n_entities):
        same = small_graph.named(small_graph.entities.name(entity))
        expected = {
            (label(h), relation(r), label(t))
            for h, r, t in small_graph.triples.tolist()
            if h in same or t in same
        }
        assert set(small_graph.facts(small_graph.entities.name(entity))) == expected


def test_parquet_has_a_row_per_triple(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "triples.parquet"
    assert export(small_graph, path) == small_graph.n_triples
    rows = pq.read_table(path).to_pylist()
    for row, (head, relation, tail) in zip(rows, small_graph.triples.tolist(), strict=True):
        assert row["head"] == small_graph.entities.name(head)
        assert row["relation"] == small_graph.relations.name(relation)
        assert row["tail_label"] == small_graph.label(tail)
        assert row["relation_label"] == small_graph.relation_label(relation)


def test_labels_at_once_are_those_one_by_one(small_graph: KnowledgeGraph) -> None:
    """Also of entities whose first text is none, and of none at all."""
    graph = graph_from_records(
        [*blocks_of(small_graph), Text("Z1", TextKind.ALIAS, "zed"), Triple("Z2", "P36", "Q90")]
    )
    ids = np.array([*range(graph.n_entities), 0, 3])[::-1]
    assert graph.labels(ids) == [graph.label(int(i)) for i in ids]
    assert graph.labels(ids[:0]) == []


def test_several_names_are_found_by_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    world = atlas.graph()
    names = ["Paris", "Seine", "nobody", "Paris", ""]
    alone = {name: world.entity_texts.named(name) for name in names}
    fresh = pickle.loads(pickle.dumps(world.entity_texts))
    assert fresh._named == {}
    monkeypatch.setattr(texts, "MOST_REMEMBERED", 3)
    for _ in range(2):
        assert fresh.named_each(names) == alone
        assert fresh.named("Lyon") == world.entity_texts.named("Lyon")
        assert len(fresh._named) <= 4
    assert len(alone["Paris"]) == 2
    fresh.named("Seine").append(-1)  # what is handed out is the caller's
    assert fresh.named("Seine") == alone["Seine"]
