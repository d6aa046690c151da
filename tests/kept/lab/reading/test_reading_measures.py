"""Each statistic against a calculation by hand, and verdicts on readers that are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from kept.lab.reading.conditions import REDRAWN, AnotherEntity, graph_under
from kept.lab.reading.measures import (
    DOES_NOT_READ,
    NOT_TESTED,
    OTHERWISE,
    READS,
    Verdict,
    at_chance,
    probe_accuracy,
    share_moved,
    steps_until,
)
from kept.lab.reading.worlds import TASKS, PrivateWorld, Size
from kept.layers.spans import target_means


def test_a_probe_is_ridge_regression_on_indicators() -> None:
    draws = np.random.default_rng(0)
    states, classes = draws.normal(size=(60, 5)), draws.integers(3, size=60)
    states[np.arange(60), classes] += 1.0
    tested, gold = states[40:], classes[40:]
    mean, spread = states[:40].mean(0), states[:40].std(0, ddof=1)
    design, wanted = (states[:40] - mean) / spread, np.eye(3)[classes[:40]]
    inner = design.T @ design + 0.1 * 40 * np.eye(5)  # the primal form
    weights = np.linalg.solve(inner, design.T @ (wanted - wanted.mean(0)))
    best = (((tested - mean) / spread) @ weights + wanted.mean(0)).argmax(1)
    accuracy = probe_accuracy(
        (torch.from_numpy(states[:40]).float(), torch.from_numpy(classes[:40])),
        (torch.from_numpy(tested).float(), torch.from_numpy(gold)),
    )
    assert accuracy == pytest.approx((best == gold).mean())
    assert 0.4 < accuracy < 1


def test_a_probe_of_states_that_do_not_differ_takes_the_commonest_class() -> None:
    classes = torch.tensor([0, 1, 1])
    states = torch.ones(3, 4)
    assert probe_accuracy((states, classes), (states, classes)) == pytest.approx(2 / 3)


def test_the_share_that_moves() -> None:
    one = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    assert share_moved(one, one) == 0
    unrelated = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert share_moved(one, unrelated) == pytest.approx(math.sqrt(2))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0, 1))
def test_steps_until_by_a_second_way(values: list[float], level: float) -> None:
    curve = [(10 * i, value) for i, value in enumerate(values)]
    below = [i for i, value in enumerate(values) if value < level]
    first = (below[-1] + 1) if below else 0
    assert steps_until(curve, level) == (10 * first if first < len(values) else None)


def test_chance_is_a_binomial_share() -> None:
    n, chance = 240, 1 / 8
    edge = chance + norm.ppf(0.995) * math.sqrt(chance * (1 - chance) / n)
    assert at_chance(edge - 0.001, n, chance)
    assert not at_chance(edge + 0.001, n, chance)


def accuracy_of(answer: Any, world: PrivateWorld, condition: str, seed: int = 0) -> float:
    """The accuracy on the test set of who answers from a graph and the training set."""
    graph = graph_under(world.graph, condition, seed)
    moved = AnotherEntity.of(world.graph, world.head_type) if condition == REDRAWN else None
    draws = np.random.default_rng(seed)
    right = []
    for example in world.test:
        linked = example.linked if moved is None else moved(example.linked, draws)
        right.append(answer(graph, linked, world) == example.labels[0])
    return float(np.mean(right))


def reader(graph: Any, linked: Any, world: PrivateWorld) -> str:
    """Answers what the facts of the linked entity say."""
    head = graph.entities.find(linked.links[0].entity)
    return next(
        graph.label(t) for _, _, t in graph.outgoing(head) if graph.label(t) in world.classes
    )


def memoriser(graph: Any, linked: Any, world: PrivateWorld) -> str:
    """Answers what was right for this entity in training; of an unknown one, the first class."""
    known = {e.linked.links[0].entity: e.labels[0] for e in world.train}
    return known.get(linked.links[0].entity, world.classes[0])


def cheat(graph: Any, linked: Any, world: PrivateWorld) -> str:
    """Knows the answer without the graph."""
    return next(e.labels[0] for e in world.test if e.linked.text == linked.text)


@pytest.mark.parametrize(
    ("who", "words"), [(reader, READS), (memoriser, DOES_NOT_READ), (cheat, OTHERWISE)]
)
def test_a_reader_a_memoriser_and_a_cheat_are_told_apart(who: Any, words: str) -> None:
    world = TASKS["occupation"](Size(n_train=320, n_test=240), 0)
    accuracy, others = (accuracy_of(who, world, condition) for condition in ("true", REDRAWN))
    verdict = Verdict(
        accuracy=accuracy, others=others, chance=world.chance, ceiling=1.0, n=240, steps=400
    )
    assert verdict.in_words == words
    assert verdict.reads == (words == READS)


@pytest.mark.parametrize(
    ("accuracy", "others", "words"),
    [
        (0.9, None, NOT_TESTED),
        (0.89, None, DOES_NOT_READ),
        (0.9, 0.125, READS),
        (0.9, 0.9, OTHERWISE),
    ],
)
def test_reading_needs_a_run_with_the_facts_of_another(
    accuracy: float, others: float | None, words: str
) -> None:
    verdict = Verdict(accuracy=accuracy, others=others, chance=0.125, ceiling=1.0, n=240, steps=400)
    assert verdict.in_words == words
    assert verdict.reads == (words == READS)


def test_means_of_targets_by_hand() -> None:
    states = torch.arange(12.0).reshape(1, 6, 2)
    spans = torch.tensor([[[1, 3], [5, 6]]])
    assert target_means(states, spans).tolist() == [[[3.0, 4.0], [10.0, 11.0]]]


def test_the_world_that_is_simulated_is_that_of_the_task() -> None:
    """A guard of this file: the reader's answers are wrong where facts are shuffled."""
    world = TASKS["occupation"](Size(n_train=320, n_test=240), 0)
    assert accuracy_of(reader, world, "shuffled") < 0.3
    assert accuracy_of(reader, world, "true") == 1
