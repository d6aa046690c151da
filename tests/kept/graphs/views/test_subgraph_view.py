"""The subgraph view against loops over triples: entities, roles, edges, what is hidden."""

from __future__ import annotations

import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS, PAD_ROW, Role
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, Exclusion, build_many
from kept.graphs.views import SubgraphView
from kept.graphs.views.base import View
from kg_loaders import KnowledgeGraph

SMALL = BuilderConfig(replace_mentions=False, max_words=40, max_nodes=90)


def triples_of(graph: KnowledgeGraph) -> list[tuple[int, int, int]]:
    return [tuple(row) for row in graph.triples.tolist()]  # type: ignore[misc]


def edges_of(view: View, graph: Any) -> tuple[list[int], set[tuple[int, int, int]]]:
    """The entities of a view, and its edges by their ids."""
    batch = view(graph)
    assert batch.subgraph_ids is not None
    assert batch.subgraph_edges is not None
    ids = (batch.subgraph_ids[0] - N_SPECIAL_ROWS).tolist()
    edges = {(ids[h], r, ids[t]) for h, r, t in batch.subgraph_edges[0].tolist()}
    return ids, edges


def test_entities_and_edges_are_those_of_loops(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    graphs = build_many(linked, tokenizer, small_graph, seed=0, config=SMALL)
    triples = triples_of(small_graph)
    near = {i: set[int]() for i in range(small_graph.n_entities)}
    for head, _, tail in triples:
        if head != tail:
            near[head].add(tail)
            near[tail].add(head)
    for built in graphs:
        ids, edges = edges_of(SubgraphView(small_graph), built)
        anchors = {int(i) for i in built.ids[(built.kinds == 1) & (built.spans[:, 0] >= 0)]}
        common = {x for u, v in combinations(anchors, 2) for x in near[u] & near[v]}
        assert {*ids} == anchors | common
        assert len(ids) == len({*ids})
        inside = {(h, r, t) for h, r, t in triples if {h, t} <= {*ids} and h != t}
        assert edges == inside


def test_a_hidden_fact_is_no_edge(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    hidden = [Exclusion(triples=np.array(small_graph.triples)) for _ in linked]
    graphs = build_many(linked, tokenizer, small_graph, seed=0, config=SMALL)
    without = build_many(linked, tokenizer, small_graph, seed=0, config=SMALL, exclude=hidden)
    assert any(edges_of(SubgraphView(small_graph), each)[1] for each in graphs)
    for extras in ("common", "facts"):
        view = SubgraphView(small_graph, extras=extras)
        assert not any(edges_of(view, each)[1] for each in without)


def test_facts_are_those_of_the_builder(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    view, n_edges = SubgraphView(small_graph, extras="facts"), 0
    for built in build_many(linked, tokenizer, small_graph, seed=0, config=SMALL):
        _, edges = edges_of(view, built)
        rows = built.origins[built.kinds == 2, 1]
        facts = {tuple(row) for row in small_graph.triples[rows].tolist()}
        assert edges == {(h, r, t) for h, r, t in facts if h != t}
        n_edges += len(edges)
    assert n_edges


def test_roles_places_and_pickles(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    texts = [text for text in linked if len(text.links) > 1]
    (built, *_) = build_many(texts, tokenizer, small_graph, seed=0, config=SMALL)
    batch = SubgraphView(small_graph, max_places=2)(built)
    assert batch.subgraph_ids is not None
    assert batch.subgraph_ids.shape == (1, 1)
    assert batch.subgraph_roles.tolist() == [[int(Role.QUESTION)]]  # type: ignore[union-attr]
    visible_ids = {int(batch.subgraph_ids[0, 0]), PAD_ROW}
    assert {*batch.entity_ids[0].tolist()} <= visible_ids  # type: ignore[union-attr]
    view = SubgraphView(small_graph)
    view(built)
    again = pickle.loads(pickle.dumps(view))
    assert again(built).same_as(view(built))
    with pytest.raises(ConfigError, match="extras is 'all'"):
        SubgraphView(small_graph, extras="all")
    with pytest.raises(ConfigError, match="use 2 or more"):
        SubgraphView(small_graph, max_places=1)


def test_a_text_with_an_entity_alone_contains_knowledge(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    view = SubgraphView(small_graph)
    unlinked = [LinkedText(each.text, ()) for each in linked]
    for texts, expected in ((linked, True), (unlinked, False)):
        graphs = build_many(texts, tokenizer, small_graph, seed=0, config=SMALL)
        contains = [view.contains_knowledge(each, view(each)) for each in graphs]
        assert contains == [bool((each.kinds == 1).any()) for each in graphs]
        assert any(contains) == expected
