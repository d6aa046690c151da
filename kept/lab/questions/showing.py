"""What is shown with each question under a condition, and what is right then.

Links are right: questions name whom they ask about. Under `edited` every value of every relation is
another one, right is the new one; under `absent` the facts that are asked for are taken out of the
graph, and every other fact stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kept.errors import ConfigError, NoControlError
from kept.inputs.controls.conditions import Knowledge
from kept.inputs.controls.shuffles import shuffle_objects
from kept.lab.questions.items import Item, QuestionSet, values_of
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

CONDITIONS: tuple[Knowledge, ...] = ("true", "off", "shuffled", "random-entity")
"""The kinds of knowledge that a question can be asked with."""


@dataclass(frozen=True)
class ShownItem:
    """An item, and whose facts are shown with it: nobody's where `entity` is None.

    `index` is the item's place among all that are asked; `right` are the labels that count.
    """

    index: int
    item: Item
    entity: str | None
    right: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ItemSet:
    """A graph with the items that are asked over it."""

    questions: QuestionSet
    items: tuple[ShownItem, ...]

    @property
    def graph(self) -> KnowledgeGraph:
        """The graph that facts are taken from."""
        return self.questions.graph


def items_under(questions: QuestionSet, knowledge: Knowledge, seed: int) -> ItemSet:
    """Under a kind of knowledge; right is what the unchanged graph says.

    Raises `NoControlError` where the control shows what the true graph shows, `ConfigError` for a
    kind that is none of `CONDITIONS`.
    """
    items = questions.items
    if knowledge == "true":
        return _over(questions, questions.graph, [item.entity for item in items])
    if knowledge == "off":
        return _over(questions, questions.graph, [None] * len(items))
    if knowledge == "random-entity":
        others = other_entities(questions, seed)
        return _over(questions, questions.graph, [others[item.entity] for item in items])
    if knowledge == "shuffled":
        draws = generator(seed, "shuffled objects")
        graph = shuffle_objects(questions.graph, draws)
        if not _changed(questions, graph):
            raise NoControlError(
                "knowledge shuffled leaves every fact that is asked for as it is: each relation "
                "has one value"
            )
        return _over(questions, graph, [item.entity for item in items])
    raise ConfigError(
        f"questions are asked with knowledge {', '.join(CONDITIONS)}, not {knowledge}; give others "
        "as --controls"
    )


def edited(questions: QuestionSet, seed: int) -> ItemSet:
    """Every value changed; only items whose answer changed, right is the new one."""
    graph = edited_graph(questions.graph, generator(seed, "edited facts"))
    changed: list[ShownItem] = []
    for item in questions.items:
        new = values_of(graph, *questions.fact_of(item))
        if not set(new) & set(item.answers):
            changed.append(ShownItem(len(changed), item, item.entity, new))
    return ItemSet(_with_graph(questions, graph), tuple(changed))


def absent(questions: QuestionSet) -> ItemSet:
    """The facts that are asked for taken out; right is what they said."""
    graph = questions.graph
    facts = {questions.fact_of(item) for item in questions.items}
    pairs = graph.triples[:, :2].tolist()
    kept = np.array([tuple(pair) not in facts for pair in pairs], np.bool_)
    without = graph.with_triples(graph.triples[kept], note="without the facts that are asked for")
    return _over(questions, without, [item.entity for item in questions.items])


def _over(questions: QuestionSet, graph: KnowledgeGraph, entities: Sequence[str | None]) -> ItemSet:
    items = tuple(
        ShownItem(i, item, entity, item.answers)
        for i, (item, entity) in enumerate(zip(questions.items, entities, strict=True))
    )
    return ItemSet(_with_graph(questions, graph), items)


def _with_graph(questions: QuestionSet, graph: KnowledgeGraph) -> QuestionSet:
    if graph is questions.graph:
        return questions
    return QuestionSet(graph, questions.items, questions.wording)


def _changed(questions: QuestionSet, graph: KnowledgeGraph) -> int:
    """How many items have other values in `graph`."""
    facts = [(questions.fact_of(item), item.answers) for item in questions.items]
    return sum(not set(values_of(graph, *fact)) & set(answers) for fact, answers in facts)


def other_entities(questions: QuestionSet, seed: int) -> dict[str, str]:
    """For each entity that is asked about another one with facts of the same relations.

    One to one among those of the same relations; the rest trade among themselves. Where we differ
    from `kept.inputs.controls.random_entities`: not by degree alone, or a person could be given a
    town, which has no fact to show. Raises `NoControlError` where there is one entity alone.
    """
    graph = questions.graph
    relations = {questions.fact_of(item)[1] for item in questions.items}
    known: dict[int, set[int]] = {}
    for head, relation, _ in graph.triples.tolist():
        if relation in relations:
            known.setdefault(head, set()).add(relation)
    groups: dict[tuple[int, ...], list[int]] = {}
    for head in sorted(known):
        groups.setdefault(tuple(sorted(known[head])), []).append(head)
    cycles = [group for group in groups.values() if len(group) > 1]
    alone = [group[0] for group in groups.values() if len(group) == 1]
    if len(alone) == 1 and cycles:
        cycles[0].append(alone[0])
    elif len(alone) == 1:
        raise NoControlError("one entity alone has facts that are asked for: there is no other")
    elif alone:
        cycles.append(alone)
    draws, others = generator(seed, "another entity"), dict[str, str]()
    for group in cycles:
        order = draws.permutation(group).tolist()
        for one, other in zip(order, [*order[1:], order[0]], strict=True):
            others[graph.entities.name(one)] = graph.entities.name(other)
    return others


def edited_graph(graph: KnowledgeGraph, draws: np.random.Generator) -> KnowledgeGraph:
    """Every fact's value becomes another of its relation's; one of a single value stays."""
    triples = np.array(graph.triples)
    for relation in np.unique(triples[:, 1]):
        rows = np.flatnonzero(triples[:, 1] == relation)
        values = np.unique(triples[rows, 2])
        if len(values) == 1:
            continue
        places = np.searchsorted(values, triples[rows, 2])
        steps = draws.integers(1, len(values), size=len(rows))
        triples[rows, 2] = values[(places + steps) % len(values)]
    return graph.with_triples(triples, note="every value changed")
