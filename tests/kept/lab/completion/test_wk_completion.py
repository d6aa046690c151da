"""The split keeps every tested fact out of the graphs and the training sentences."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from entity_linking import RelationExample
from kept.errors import ConfigError
from kept.inputs.controls.shuffles import shuffle_objects, without_triples
from kept.kgc.split import CompletionSplit, split_examples
from kg_loaders import KnowledgeGraph


def make_split(
    examples: list[RelationExample], world: KnowledgeGraph, seed: int = 0
) -> CompletionSplit:
    return split_examples(
        examples,
        world,
        n_valid=3,
        n_transductive=12,
        n_inductive=7,
        inductive_heads=[f"p{i:02d}" for i in range(10)],
        generator=np.random.default_rng(seed),
        max_sentences_per_fact=2,
    )


def named(graph: KnowledgeGraph) -> list[tuple[str, str, str]]:
    return [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
        for h, r, t in graph.triples.tolist()
    ]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_leaks(examples: list[RelationExample], world: KnowledgeGraph, seed: int) -> None:
    split = make_split(examples, world, seed)
    tested = [*split.valid, *itertools.chain.from_iterable(split.tests.values())]
    assert {name: len(rows) for name, rows in split.tests.items()} == {
        "transductive": 12,
        "inductive": 7,
    }
    pairs = {frozenset((e.head, e.tail)) for e in tested}
    for graph in (split.train_graph, split.context_graph):
        assert not any(frozenset((h, t)) in pairs for h, _, t in named(graph))
        assert graph.id_space_hash == world.id_space_hash
    for example in split.train:
        assert frozenset((example.head, example.tail)) not in pairs
    assert not {e.linked.text for e in split.train} & {e.linked.text for e in tested}


@pytest.mark.parametrize("seed", range(5))
def test_settings_mean_what_they_say(
    examples: list[RelationExample], world: KnowledgeGraph, seed: int
) -> None:
    split = make_split(examples, world, seed)
    seen = {name for h, _, t in named(split.train_graph) for name in (h, t)}
    seen_relations = {r for _, r, _ in named(split.train_graph)}
    for example in (*split.tests["transductive"], *split.valid):
        assert {example.head, example.tail} <= seen
        assert example.relation in seen_relations
    in_training = {name for e in split.train for name in (e.head, e.tail)}
    for example in split.tests["inductive"]:
        assert example.head not in seen | in_training
    unseen = {e.head for e in split.tests["inductive"]}
    assert unseen & {h for h, _, _ in named(split.context_graph)}


def test_counts_add_up(examples: list[RelationExample], world: KnowledgeGraph) -> None:
    split = make_split(examples, world)
    assert len(split.train) + sum(split.dropped.values()) == len(examples)
    facts = [(e.head, e.relation, e.tail) for e in split.train]
    assert max(facts.count(fact) for fact in facts) == 2


def test_same_seed_same_split(examples: list[RelationExample], world: KnowledgeGraph) -> None:
    first, second = make_split(examples, world, 3), make_split(examples, world, 3)
    assert first.train == second.train
    assert first.context_graph.content_hash == second.context_graph.content_hash
    assert make_split(examples, world, 4).tests != first.tests


def test_too_many_are_refused(examples: list[RelationExample], world: KnowledgeGraph) -> None:
    sizes = {"n_valid": 0, "generator": np.random.default_rng(0), "inductive_heads": ["p00"]}
    with pytest.raises(ConfigError, match="n_inductive is 9, but only 3 facts"):
        split_examples(examples, world, n_transductive=1, n_inductive=9, **sizes)
    with pytest.raises(ConfigError, match=r"n_valid \+ n_transductive is 999"):
        split_examples(examples, world, n_transductive=999, n_inductive=1, **sizes)


def test_shuffled_objects_keep_degrees(world: KnowledgeGraph) -> None:
    shuffled = shuffle_objects(world, np.random.default_rng(0))
    assert shuffled.id_space_hash == world.id_space_hash
    assert shuffled.content_hash != world.content_hash
    for relation in range(world.n_relations):
        before = world.triples[world.triples[:, 1] == relation]
        after = shuffled.triples[shuffled.triples[:, 1] == relation]
        assert set(after[:, 0]) == set(before[:, 0])
        assert set(after[:, 2]) == set(before[:, 2])
    assert without_triples(world).n_triples == 0


def test_sentence_of_another_fact_of_a_tested_pair_is_dropped(
    examples: list[RelationExample], world: KnowledgeGraph
) -> None:
    split = make_split(examples, world)
    tested = split.tests["transductive"][0]
    twin = dataclasses.replace(tested, relation="P69")
    again = split_examples(
        [*examples, twin],
        world,
        n_valid=3,
        n_transductive=12,
        n_inductive=7,
        inductive_heads=[f"p{i:02d}" for i in range(10)],
        generator=np.random.default_rng(0),
        max_sentences_per_fact=2,
    )
    pairs = {frozenset((e.head, e.tail)) for rows in again.tests.values() for e in rows}
    assert not any(frozenset((e.head, e.tail)) in pairs for e in again.train)
