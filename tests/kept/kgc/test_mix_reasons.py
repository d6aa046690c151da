"""Why a mix answers as it does: the reasons of its completers, in the mix's own scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kept.errors import ConfigError
from kept.kgc.completers.base import Reason
from kept.kgc.completers.mix import MixCompleter, MixPart
from kept.kgc.mixing import Mixture
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

NOTHING = np.zeros(0, np.int64)


@dataclass
class Stated:
    """A completer that gives the same reasons to every question, and counts the questions."""

    changes: dict[str, float]
    n_questions: int = 0
    reads: str = "triples"
    questions: list[Any] = field(default_factory=list)

    def reasons(self, graph: Any, context: Any, direction: Any, triple: Any) -> list[Reason]:
        self.n_questions += 1
        return [Reason("fact", what, change) for what, change in self.changes.items()]


@pytest.fixture
def graph() -> KnowledgeGraph:
    return graph_from_records([Triple("a", "r", "b"), Triple("a", "s", "b"), Triple("a", "t", "b")])


def mix(weights: list[list[list[float]]], *completers: Stated | None) -> MixCompleter:
    """`weights [direction relation scorer]` over spreads of 2, 4, …; relations r and s alone."""
    spreads = np.array([2.0 * (i + 1) for i in range(len(completers))])
    mixture = Mixture(np.array(weights), spreads, "relation", {})
    parts = tuple(MixPart(Path(str(i)), each) for i, each in enumerate(completers))  # type: ignore[arg-type]
    return MixCompleter(parts, mixture, ("r", "s"))


def reasons(of: MixCompleter, graph: KnowledgeGraph, relation: str, direction: Any = "tail") -> Any:
    triple = (0, graph.relations.id(relation), 1)
    reasons_ = of.reasons(graph, NOTHING, direction, triple)
    return [(reason.what, pytest.approx(reason.change)) for reason in reasons_]


def test_changes_are_weighed_and_the_largest_comes_first(graph: KnowledgeGraph) -> None:
    first, second = Stated({"x": 1.0, "y": 3.0}), Stated({"z": 8.0})
    both = mix([[[9.0, 9.0], [9.0, 9.0]], [[1.0, 2.0], [4.0, 0.5]]], first, second)
    tails = int(both.mixture.weights.shape[0] - 1)
    assert tails == 1
    assert reasons(both, graph, "r") == [("z", 4.0), ("y", 1.5), ("x", 0.5)]
    assert reasons(both, graph, "s") == [("y", 6.0), ("x", 2.0), ("z", 1.0)]


def test_a_relation_that_was_not_trained_on_has_the_mean_weights(graph: KnowledgeGraph) -> None:
    both = mix([[[9.0], [9.0]], [[1.0], [5.0]]], Stated({"x": 1.0}))
    assert reasons(both, graph, "t") == [("x", 1.5)]


def test_what_has_no_weight_is_not_asked_and_gives_no_reason(graph: KnowledgeGraph) -> None:
    read, unread = Stated({"x": 1.0}), Stated({"never": 100.0})
    both = mix([[[1.0, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 4.0]]], read, unread)
    assert reasons(both, graph, "r") == [("x", 1.0)]
    assert unread.n_questions == 0
    assert reasons(both, graph, "s") == [("never", 100.0)]
    assert read.n_questions == 1


def test_tables_give_none_and_tables_alone_are_refused(graph: KnowledgeGraph) -> None:
    half = mix([[[1.0, 1.0]] * 2, [[2.0, 4.0]] * 2], None, Stated({"x": 1.0}))
    assert reasons(half, graph, "r") == [("x", 1.0)]
    with pytest.raises(ConfigError, match="compares vectors"):
        reasons(mix([[[1.0]] * 2, [[1.0]] * 2], None), graph, "r")
