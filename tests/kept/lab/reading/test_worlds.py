"""Made-up worlds: nothing but the graph tells a class, and no test head is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kept.errors import ConfigError
from kept.lab.reading.worlds import OCCUPATIONS, TASKS, TIES, WORKS, PrivateWorld, Size
from kept.objectives.mentions.made_up import made_up_names

SMALL = Size(n_train=64, n_test=32, n_returning=16, n_distractors=2)


def heads(world: PrivateWorld, name: str) -> list[str]:
    """The first linked entity of every text of a set."""
    return [example.linked.links[0].entity or "" for example in getattr(world, name)]


@given(st.integers(0, 50), st.integers(1, 300))
def test_no_name_is_drawn_twice(seed: int, n: int) -> None:
    names = made_up_names(n, np.random.default_rng(seed))
    assert len(set(names)) == n
    assert all(name.isalpha() and name[0].isupper() for name in names)


def test_more_names_than_there_are_half_of_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 100800"):
        made_up_names(100_801, np.random.default_rng(0))


@pytest.mark.parametrize("task", TASKS)
def test_a_world_is_its_seed(task: str) -> None:
    one, same, other = (TASKS[task](SMALL, seed) for seed in (1, 1, 2))
    assert one.train == same.train
    assert one.graph.content_hash == same.graph.content_hash
    assert one.train != other.train


@pytest.mark.parametrize("task", TASKS)
def test_heads_of_the_test_set_are_in_no_training_text(task: str) -> None:
    world = TASKS[task](SMALL, 0)
    tested, known = heads(world, "test"), heads(world, "train")
    assert len(set(tested)) == len(tested) == SMALL.n_test
    assert not {*tested} & {*known}
    texts = " ".join(example.linked.text for example in world.train)
    for example in world.test:
        for link in example.linked.links:
            assert example.linked.text[link.mention.start : link.mention.end] not in texts


@pytest.mark.parametrize("task", TASKS)
def test_fresh_heads_come_once_and_returning_ones_again(task: str) -> None:
    fresh = heads(TASKS[task](SMALL, 0), "train")
    assert len(set(fresh)) == len(fresh) == SMALL.n_train
    again = heads(TASKS[task](Size(form="returning", n_train=64, n_returning=16), 0), "train")
    assert {again.count(head) for head in again} == {4}


@pytest.mark.parametrize("task", TASKS)
def test_classes_are_even_and_the_graph_alone_tells_them(task: str) -> None:
    """Hand-made reading: the class of a head follows from its triples, never from its text."""
    world = TASKS[task](SMALL, 0)
    graph = world.graph
    numbers = [world.classes.index(e.labels[0]) for e in (*world.train, *world.test)]
    counts = np.bincount(numbers)
    assert len(counts) == len(world.classes)
    assert counts.max() - counts.min() <= 1 or task == "two-hops"
    for example in (*world.train, *world.test):
        head = graph.entities.find(example.linked.links[0].entity or "")
        assert head is not None
        facts = [(graph.relation_label(r), graph.label(t)) for _, r, t in graph.outgoing(head)]
        label = example.labels[0]
        if task == "relation":
            tail = graph.entities.find(example.linked.links[1].entity or "")
            between = [r for _, r, t in graph.outgoing(head).tolist() if t == tail]
            assert [graph.relation_label(r) for r in between] == [f"{label} of"]
        elif task == "two-hops":
            (guild,) = [t for _, r, t in graph.outgoing(head) if "guild" in graph.label(t)]
            assert [graph.label(t) for _, _, t in graph.outgoing(guild)] == [label]
        else:
            assert [value for name, value in facts if value in world.classes] == [label]
            assert label in OCCUPATIONS or name_of(facts, label) == "instance of"
        values = [value for value in world.classes if value in example.linked.text.split()]
        if task == "conflict":
            continue
        assert not values


def name_of(facts: list[tuple[str, str]], value: str) -> str:
    """The relation of the fact with this object."""
    return next(name for name, of_name in facts if of_name == value)


def test_the_text_of_a_conflict_says_another_class_as_often_as_chance() -> None:
    world = TASKS["conflict"](Size(n_train=800, n_test=8), 0)
    values = [
        next(value for value in OCCUPATIONS if f"the {value}," in example.linked.text)
        for example in world.train
    ]
    agreeing = np.mean([e.labels[0] == value for e, value in zip(world.train, values, strict=True)])
    assert 0.08 < agreeing < 0.17


def test_a_cloze_asks_at_the_mask() -> None:
    for example in TASKS["cloze"](SMALL, 0).test:
        (target,) = example.targets
        assert example.linked.text[target.start : target.end] == "[MASK]"


def test_no_description_names_what_it_describes() -> None:
    assert len(WORKS) == len(OCCUPATIONS) == len(TIES)
    for work in WORKS:
        assert not {*work.split()} & {*OCCUPATIONS}


def test_every_faulty_size_is_named() -> None:
    with pytest.raises(ConfigError, match=r"form 'old'.*n_train 2.*n_distractors 9"):
        Size(form="old", n_train=2, n_distractors=9)
