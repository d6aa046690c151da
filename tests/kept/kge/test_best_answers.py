"""The best answers to a question, by scores that are written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from kept.errors import ConfigError
from kept.evaluation.ranking import Direction
from kept.kge.prediction import UNKNOWN, Answers, best_answers, by_identifiers
from kept.kge.splits import Seen, Splits
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import UnknownNodeError

TRAIN = [("a", "r", "b"), ("b", "r", "c"), ("a", "s", "a")]
VALID = [("a", "r", "d")]
SCORES = [1.0, 5.0, 3.0, 4.0, 9.0]


class Stated:
    """The same scores for every question; notes what it was asked."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, list[int]]] = []

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        self.questions.append((direction, triples[0].tolist()))
        n = 2 if direction == "relation" else len(SCORES)
        return torch.tensor([SCORES[:n]])


@pytest.fixture
def splits() -> Splits:
    records = [Triple(*triple) for triple in (*TRAIN, *VALID, ("c", "r", "e"))]
    graph = graph_from_records([*records, Text("e", TextKind.LABEL, "Eve")])

    def rows(triples: Sequence[tuple[str, str, str]]) -> Any:
        ids = [
            (graph.entities.id(h), graph.relations.id(r), graph.entities.id(t))
            for h, r, t in triples
        ]
        return np.array(ids, np.int32).reshape(-1, 3)

    return Splits(graph, rows(TRAIN), rows(VALID), rows([]))


def seen(splits: Splits, *without: str) -> Seen:
    names = splits.graph.entities
    return Seen(
        np.array([name not in without for name in names]), np.ones(splits.graph.n_relations, bool)
    )


def ids(answers: Answers) -> list[str]:
    return [answer.id for answer in answers.best]


def answers_to(
    splits: Splits, question: tuple[str, str, str], *without: str, **options: Any
) -> Answers:
    scorer = cast(Any, Stated())
    return best_answers(scorer, splits, seen(splits, *without), question, n=9, **options)


def test_the_best_come_first_without_the_asked_one(splits: Splits) -> None:
    answers = answers_to(splits, ("a", "r", UNKNOWN))
    assert ids(answers) == ["e", "b", "d", "c"]
    assert answers.left_out == "a"
    assert [answer.known for answer in answers.best] == [False, True, True, False]
    assert answers.best[0].label == "Eve"
    assert str(answers).splitlines()[0] == "   9.000  Eve"
    assert all(answer.trained and answer.confidence is None for answer in answers.best)
    assert len(best_answers(cast(Any, Stated()), splits, seen(splits), ("a", "r", UNKNOWN),
                            n=2).best) == 2  # fmt: skip


def test_of_a_relation_with_loops_the_asked_one_competes(splits: Splits) -> None:
    answers = answers_to(splits, ("a", "s", UNKNOWN))
    assert answers.left_out is None
    assert "a" in ids(answers)


def test_heads_and_relations(splits: Splits) -> None:
    answers = answers_to(splits, (UNKNOWN, "r", "c"))
    assert answers.left_out == "c"
    assert [answer.id for answer in answers.best if answer.known] == ["b"]
    relations = answers_to(splits, ("a", UNKNOWN, "b"))
    assert (ids(relations), relations.left_out) == (["s", "r"], None)
    assert [answer.known for answer in relations.best] == [False, True]


def test_what_training_never_saw_is_no_answer(splits: Splits) -> None:
    answers = answers_to(splits, ("a", "r", UNKNOWN), "e", "d")
    assert (ids(answers), answers.n_untrained) == (["b", "c"], 2)
    every = answers_to(splits, ("a", "r", UNKNOWN), "e", "d", untrained=True)
    assert (ids(every), every.n_untrained) == (["e", "b", "d", "c"], 0)
    assert [answer.trained for answer in every.best] == [False, True, False, True]


def test_a_question_about_what_was_never_seen_is_refused(splits: Splits) -> None:
    with pytest.raises(ConfigError, match="'a': in no training triple"):
        answers_to(splits, ("a", "r", UNKNOWN), "a")
    answers = answers_to(splits, ("a", "r", UNKNOWN), "a", untrained=True)
    assert not any(answer.trained for answer in answers.best)


@pytest.mark.parametrize("question", [("a", "r", "b"), ("?", "r", "?"), ("?", "?", "?")])
def test_one_slot_is_asked_for(splits: Splits, question: tuple[str, str, str]) -> None:
    with pytest.raises(ConfigError, match="exactly one of head, relation and tail"):
        answers_to(splits, question)


class Sure:
    """Every new candidate has its place as confidence."""

    def __init__(self) -> None:
        self.new: list[bool] = []

    def confidences(self, scores: Any, is_new: Any) -> Any:
        self.new = is_new.tolist()
        return np.arange(len(scores)) / 10


def test_only_new_answers_have_a_confidence(splits: Splits) -> None:
    sure = Sure()
    answers = answers_to(splits, ("a", "r", UNKNOWN), calibration=cast(Any, sure))
    assert [answer.confidence for answer in answers.best] == [0.4, None, None, 0.2]
    assert sure.new == [False, False, True, False, True]
    relations = answers_to(splits, ("a", UNKNOWN, "b"), calibration=cast(Any, sure))
    assert all(answer.confidence is None for answer in relations.best)


def test_names_and_labels(splits: Splits) -> None:
    graph: KnowledgeGraph = splits.graph
    assert by_identifiers(graph, ("Eve", "r", UNKNOWN)) == ("e", "r", UNKNOWN)
    assert by_identifiers(graph, (UNKNOWN, UNKNOWN, "Eve")) == (UNKNOWN, UNKNOWN, "e")
    assert by_identifiers(graph, ("new", "r", "e"), allow_new=True) == ("new", "r", "e")
    with pytest.raises(UnknownNodeError):
        by_identifiers(graph, ("new", "r", "e"))
    with pytest.raises(UnknownNodeError):
        by_identifiers(graph, ("e", "nothing", UNKNOWN), allow_new=True)
