"""Facts and paths behind an answer, of a model whose score can be written down."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from kept.evaluation.ranking import Direction
from kept.kgc.completers.base import Reason
from kept.kgc.completers.paths import facts_behind, triple_in_words
from kept.kge.ultra.graphs import Edges
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

VALUES = torch.tensor([-2.0, 10.0, 1.0, 0.0])
"""Of the relations "bad", "best", "good" and "none", which graphs have in this order."""


class Sum(nn.Module):
    """The sum of `VALUES` by relation over all triples, and `bonus` for every pair of edges that
    leads from the query to the answer in two steps."""

    def __init__(self, bonus: float = 0.0) -> None:
        super().__init__()
        self.bonus = bonus
        self.questions: list[tuple[int, int, bool, int]] = []

    def forward(
        self, edges: Edges, between: Edges, query: Tensor, relation: Tensor, is_head: Tensor,
        candidates: Tensor,
    ) -> Tensor:  # fmt: skip
        self.questions.append((int(query), int(relation), bool(is_head), int(candidates)))
        assert not self.training
        n = edges.ends.shape[1]
        weights = torch.ones(n) if edges.weights is None else edges.weights
        n_relations = edges.n_types // 2
        score = (weights * VALUES[edges.types % n_relations]).sum() / 2
        for i, (start, middle) in enumerate(edges.ends.T.tolist()):
            for j, (again, end) in enumerate(edges.ends.T.tolist()):
                if start == int(query) and middle == again and end == int(candidates):
                    score = score + self.bonus * weights[i] * weights[j]
        return score.reshape(1, 1)


@pytest.fixture
def graph() -> KnowledgeGraph:
    """a - b - c by two steps, a - c by one, and a fact that has no part in it."""
    triples = [
        ("a", "good", "b"), ("c", "best", "b"), ("a", "bad", "c"), ("d", "good", "e"),
        ("d", "none", "e"),
    ]  # fmt: skip
    names = [Text(name, TextKind.LABEL, name.upper(), "en") for name in "abcde"]
    return graph_from_records([*(Triple(*triple) for triple in triples), *names])


def reasons(
    model: nn.Module, graph: KnowledgeGraph, direction: Direction = "tail", **options: Any
) -> list[Reason]:
    question = (graph.entities.id("a"), graph.relations.id("good"), graph.entities.id("c"))
    return facts_behind(
        cast(Any, model.train()), graph, graph.triples, direction, question, **options
    )


def test_facts_that_raise_the_answer_come_with_what_they_add(graph: KnowledgeGraph) -> None:
    assert [(r.source, r.what, round(r.change, 4)) for r in reasons(Sum(), graph)] == [
        ("path", "A – good → B; C – best → B", 11.0),
        ("fact", "C – best → B", 10.0),
        ("fact", "A – good → B", 1.0),
        ("fact", "D – good → E", 1.0),
    ], "neither what lowers the answer nor what leaves it is a reason"


def test_a_path_counts_by_what_its_facts_do_together(graph: KnowledgeGraph) -> None:
    changes = {r.what: r.change for r in reasons(Sum(bonus=5.0), graph)}
    assert changes["A – good → B; C – best → B"] == pytest.approx(16)
    assert changes["A – good → B"] == pytest.approx(6), "either fact alone takes the bonus with it"
    assert changes["C – best → B"] == pytest.approx(15)


@pytest.mark.parametrize("direction", ["tail", "head"])
def test_the_question_is_put_in_its_direction(graph: KnowledgeGraph, direction: Direction) -> None:
    model = Sum()
    reasons(model, graph, direction)
    a, c = graph.entities.id("a"), graph.entities.id("c")
    ends = (a, c) if direction == "tail" else (c, a)
    assert {*model.questions} == {(ends[0], 2, direction == "head", ends[1])}


def test_relations_are_named_as_the_model_knows_them(graph: KnowledgeGraph) -> None:
    """A model of ten relations calls these four otherwise; the words stay those of the graph."""
    global_rows = np.array([3, 2, 1, 0])
    model = Sum()
    reasons_ = reasons(model, graph, relations=global_rows, n_relations=4)
    assert {relation for _, relation, _, _ in model.questions} == {1}
    assert [(r.what, round(r.change, 4)) for r in reasons_] == [
        ("A – good → B; C – best → B", 11.0), ("A – good → B", 10.0), ("D – good → E", 10.0),
        ("C – best → B", 1.0),
    ]  # fmt: skip


def test_the_best_path_has_three_edges_at_most() -> None:
    """a to e by four facts of value 10 is too long; by two of value 1 it is not."""
    chain = [("a", "best", "b"), ("b", "best", "c"), ("c", "best", "d"), ("d", "best", "e")]
    short = [("a", "good", "x"), ("x", "good", "e")]
    order = [("0", "good", "1"), ("0", "best", "1"), ("0", "bad", "1"), ("0", "none", "1")]
    graph = graph_from_records([Triple(*triple) for triple in (*order, *chain, *short)])
    question = (graph.entities.id("a"), 2, graph.entities.id("e"))

    def path_of(rows: Any) -> list[str]:
        reasons_ = facts_behind(cast(Any, Sum()), graph, rows, "tail", question)
        return [reason.what for reason in reasons_ if reason.source == "path"]

    assert path_of(graph.triples) == ["a – good → x; x – good → e"]
    without = np.array([t for t in graph.triples.tolist() if graph.entities.id("x") not in t])
    assert path_of(without) == []
    shortcut = [*chain[1:], ("a", "best", "c")]
    graph = graph_from_records([Triple(*triple) for triple in (*order, *shortcut, *short)])
    question = (graph.entities.id("a"), 2, graph.entities.id("e"))
    assert path_of(graph.triples) == ["a – best → c; c – best → d; d – best → e"]


def test_a_path_passes_no_entity_twice() -> None:
    """There and back again would be worth more."""
    triples = [
        ("a", "good", "b"), ("a", "best", "c"), ("a", "bad", "x"), ("x", "none", "y"),
        ("a", "best", "b"),
    ]  # fmt: skip
    graph = graph_from_records([Triple(*triple) for triple in triples])
    question = (graph.entities.id("c"), 2, graph.entities.id("b"))
    reasons_ = facts_behind(cast(Any, Sum()), graph, graph.triples, "tail", question)
    assert [r.what for r in reasons_ if r.source == "path"] == ["a – best → c; a – best → b"]


def test_words_of_a_triple(graph: KnowledgeGraph) -> None:
    assert triple_in_words(graph, graph.triples[0].tolist()) == "A – bad → C"


def test_a_path_of_one_fact_is_said_once() -> None:
    graph = graph_from_records(
        [Triple("a", "best", "c"), Triple("d", "bad", "e"), Triple("d", "good", "e"),
         Triple("d", "none", "e")]
    )  # fmt: skip
    question = (graph.entities.id("a"), 2, graph.entities.id("c"))
    reasons_ = facts_behind(cast(Any, Sum()), graph, graph.triples, "tail", question)
    assert [(r.source, r.what) for r in reasons_] == [
        ("fact", "a – best → c"), ("fact", "d – good → e"),
    ]  # fmt: skip
