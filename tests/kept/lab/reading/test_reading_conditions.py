"""What each condition leaves of the facts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kept.errors import ConfigError
from kept.lab.reading.conditions import (
    CONDITIONS,
    OFF,
    AnotherEntity,
    examples_under,
    graph_under,
    shuffle_within_types,
)
from kept.lab.reading.worlds import TASKS, Size
from kg_loaders import graph_from_records
from kg_loaders.records import Text, TextKind, Triple

OCCUPATIONS = TASKS["occupation"](Size(n_train=64, n_test=16), 0)


def share_of_true(graph: object) -> float:
    """The share of test heads whose fact in a graph is their class."""
    right = []
    for example in OCCUPATIONS.test:
        head = graph.entities.find(example.linked.links[0].entity)  # type: ignore[attr-defined]
        labels = [graph.label(t) for _, _, t in graph.outgoing(head)]  # type: ignore[attr-defined]
        right.append(example.labels[0] in labels)
    return float(np.mean(right))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_ids_stay_and_what_is_left_is_as_named(condition: str) -> None:
    graph = graph_under(OCCUPATIONS.graph, condition, 0)
    assert graph.id_space_hash == OCCUPATIONS.graph.id_space_hash
    if condition in ("true", "off", "redrawn"):
        assert graph is OCCUPATIONS.graph
    elif condition == "anchors-only":
        assert graph.n_triples == 0
    else:
        assert graph.n_triples == OCCUPATIONS.graph.n_triples or condition.startswith("shuffled")
        assert share_of_true(graph) < 0.6
    links = [e.linked.links for e in examples_under(OCCUPATIONS.test, condition)]
    assert all(links) != (condition == OFF)


def test_shuffling_within_types_crosses_relations_but_no_type() -> None:
    records = [Triple(f"p{i}", ("lives in", "was born in")[i % 2], f"t{i}") for i in range(40)]
    records += [Triple(f"p{i}", "owns", f"d{i}") for i in range(40)]
    texts = [Text(f"{c}{i}", TextKind.TYPE, name) for c, name in (("t", "town"), ("d", "dog"))
             for i in range(40)]  # fmt: skip
    graph = graph_from_records([*records, *texts])
    shuffled = shuffle_within_types(graph, np.random.default_rng(0))
    names = [
        (graph.relations.name(r), graph.entities.name(t)) for _, r, t in shuffled.triples.tolist()
    ]
    assert all((relation == "owns") == tail.startswith("d") for relation, tail in names)
    born = {tail for relation, tail in names if relation == "was born in"}
    assert {int(tail[1:]) % 2 for tail in born} == {0, 1}
    assert Counter(tail for _, tail in names) == Counter(f"{c}{i}" for c in "td" for i in range(40))


def test_another_entity_is_of_the_type_and_drawn_anew() -> None:
    moved = AnotherEntity.of(OCCUPATIONS.graph, OCCUPATIONS.head_type)
    assert len(moved.entities) == 80
    linked = OCCUPATIONS.test[0].linked
    samples = [moved(linked, np.random.default_rng(seed)) for seed in range(30)]
    entities = {sample.links[0].entity for sample in samples}
    assert len(entities) > 15
    assert entities <= {*moved.entities}
    assert all(sample.text == linked.text for sample in samples)
    assert samples[3] == moved(linked, np.random.default_rng(3))


def test_an_unknown_condition_is_refused_with_a_near_name() -> None:
    with pytest.raises(ConfigError, match="shuffled"):
        graph_under(OCCUPATIONS.graph, "shufled", 0)
