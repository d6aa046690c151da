"""Every code of the checker is raised by the fault it names, and only soundness is silent."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import LinkedText
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.checks import check
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views import adjacency, is_anchor
from kg_loaders import KnowledgeGraph


@pytest.fixture
def built(
    tokenizer: Any, small_graph: KnowledgeGraph, linked: list[LinkedText]
) -> WordKnowledgeGraph:
    config = BuilderConfig(replace_mentions=False)
    graphs = build_many(linked, tokenizer, small_graph, seed=0, config=config)
    return next(g for g in graphs if is_anchor(g).sum() > 1 and (g.kinds == 2).sum() > 2)


def first(built: WordKnowledgeGraph, kind: NodeKind, *, anchor: bool = False) -> int:
    return int(np.flatnonzero((built.kinds == kind) & (is_anchor(built) == anchor))[0])


def changed(built: WordKnowledgeGraph, name: str, index: Any, value: Any) -> WordKnowledgeGraph:
    array = getattr(built, name).copy()
    array[index] = value
    return dataclasses.replace(built, **{name: array})


def codes(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> set[str]:
    return {problem.code for problem in check(built, graph)}


def test_sound_graphs_have_no_problem(
    built: WordKnowledgeGraph, small_graph: KnowledgeGraph
) -> None:
    assert check(built, small_graph, visible_mask=adjacency(built)) == []


def test_arrays(built: WordKnowledgeGraph, small_graph: KnowledgeGraph) -> None:
    shorter = dataclasses.replace(built, positions=built.positions[1:])
    assert codes(shorter, small_graph) == {"G101"}
    assert codes(changed(built, "edges", (0, 0), built.n_nodes), small_graph) == {"G101"}
    other = dataclasses.replace(built, id_space_hash="0" * 64)
    assert codes(other, small_graph) == {"G102"}
    node = first(built, NodeKind.RELATION)
    problems = check(changed(built, "ids", node, 7), small_graph)
    assert [str(p) for p in problems] == [f"G103 node {node}: id 7 is outside [0, 7)"]


def test_nodes(built: WordKnowledgeGraph, small_graph: KnowledgeGraph) -> None:
    relation, word = first(built, NodeKind.RELATION), first(built, NodeKind.WORD)
    anchor = first(built, NodeKind.ENTITY, anchor=True)
    assert "G104" in codes(changed(built, "kinds", word, NodeKind.RELATION), small_graph)
    assert "G105" in codes(changed(built, "origins", (anchor, 0), 99), small_graph)
    assert "G105" in codes(changed(built, "spans", relation, (0, 1)), small_graph)
    assert "G106" in codes(changed(built, "spans", word, (0, 9999)), small_graph)
    assert "G107" in codes(changed(built, "positions", word, 50), small_graph)
    assert "G107" in codes(changed(built, "positions", relation, 50), small_graph)
    assert "G108" in codes(changed(built, "origins", (relation, 2), -1), small_graph)
    assert "G108" in codes(changed(built, "origins", (word, 0), 0), small_graph)


def test_facts(built: WordKnowledgeGraph, small_graph: KnowledgeGraph) -> None:
    relation = first(built, NodeKind.RELATION)
    edge = int(np.flatnonzero(built.edge_kinds == EdgeKind.RELATION_ENTITY)[0])
    assert "G109" in codes(
        changed(built, "edge_kinds", edge, EdgeKind.ENTITY_RELATION), small_graph
    )
    assert codes(changed(built, "origins", (relation, 1), 99), small_graph) == {"G110"}
    other = (built.ids[relation] + 1) % small_graph.n_relations
    assert codes(changed(built, "ids", relation, other), small_graph) == {"G110"}
    mention = int(np.flatnonzero(built.edge_kinds == EdgeKind.MENTION_ENTITY)[0])
    assert "G113" in codes(changed(built, "edges", (mention, 0), relation), small_graph)


def test_visibility(built: WordKnowledgeGraph, small_graph: KnowledgeGraph) -> None:
    for index in ((0, 0), (0, 1)):
        mask = adjacency(built)
        mask[index] = False
        problems = check(built, small_graph, visible_mask=mask)
        assert {problem.code for problem in problems} == {"G112"}
    assert check(built, small_graph, visible_mask=mask[1:])[0].code == "G112"
