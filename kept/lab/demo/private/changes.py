"""The answers of a trained model when its graph changes and nothing is trained.

Facts are edited, wrong facts are added beside right ones, people join.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np

from entity_linking import DictionaryLinker
from kept.lab.demo.private.world import Company
from kept.lab.reading.trial import with_facts
from kept.randomness import generator
from kept.tasks.datasets.example import TaskExample
from kept.training.finetuning.predictor import Explanation, Influence, Predictor
from kg_loaders import KnowledgeGraph


class Edited(msgspec.Struct, frozen=True):
    """The roles of all `n` test people were changed; shares of answers, and one explanation.

    `new` follow the graph, `old` stay what they were right with; the rest are neither.
    """

    n: int
    new: float
    old: float
    before: Explanation
    after: Explanation


class Added(msgspec.Struct, frozen=True):
    """`n` people were added with their facts; accuracies before and after, and one explanation."""

    n: int
    without: float
    accuracy: float
    explanation: Explanation


class Misled(msgspec.Struct, frozen=True):
    """A wrong role was added beside the right one of `n` people; shares of answers.

    `wrong` name the wrong role, `right` still the right one. Of the first `n_explained` wrong ones:
    the fact that moves the answer most is the one that was added (`named`), and without it the
    answer is right (`restored`). None where no answer is wrong.
    """

    n: int
    wrong: float
    right: float
    n_explained: int
    named: float | None
    restored: float | None
    explanation: Explanation | None


class Changes(msgspec.Struct, frozen=True):
    """All of it."""

    edited: Edited
    added: Added
    misled: Misled


def after_changes(
    predictor: Predictor, company: Company, *, seed: int, n_explained: int
) -> Changes:
    """Predict while the company's graph is edited, grows, and receives wrong facts."""
    world = company.world
    draws = generator(seed, "changed facts")
    wrong = {
        example.linked.id: (world.classes.index(example.labels[0]) + int(step)) % len(world.classes)
        for example, step in zip(
            world.test, draws.integers(1, len(world.classes), len(world.test)), strict=True
        )
    }
    return Changes(
        _edited(predictor, company, wrong),
        _added(predictor, company),
        _misled(predictor, company, wrong, n_explained),
    )


def _edited(predictor: Predictor, company: Company, wrong: dict[str, int]) -> Edited:
    world, first = company.world, company.world.test[0]
    answers = _answers(predictor, world.test, with_facts(world.graph, world.telling, wrong))
    one = {first.linked.id: wrong[first.linked.id]}
    return Edited(
        n=len(answers),
        new=_share(answers, [world.classes[wrong[e.linked.id]] for e in world.test]),
        old=_share(answers, [e.labels[0] for e in world.test]),
        before=predictor.explain(first, world.graph),
        after=predictor.explain(first, with_facts(world.graph, world.telling, one)),
    )


def _added(predictor: Predictor, company: Company) -> Added:
    gold = [example.labels[0] for example in company.new]
    answers_of = {}
    for name, graph in {"before": company.world.graph, "after": company.later}.items():
        linked = DictionaryLinker(graph).link([example.linked.text for example in company.new])
        answers_of[name] = [
            dataclasses.replace(e, linked=dataclasses.replace(e.linked, links=text.links))
            for e, text in zip(company.new, linked, strict=True)
        ]
    return Added(
        n=len(gold),
        without=_share(_answers(predictor, answers_of["before"], company.world.graph), gold),
        accuracy=_share(_answers(predictor, answers_of["after"], company.later), gold),
        explanation=predictor.explain(answers_of["after"][0], company.later),
    )


def _misled(
    predictor: Predictor, company: Company, wrong: dict[str, int], n_explained: int
) -> Misled:
    world = company.world
    graph = with_wrong_facts(world.graph, world.telling, wrong)
    answers = _answers(predictor, world.test, graph)
    false_labels = [world.classes[wrong[example.linked.id]] for example in world.test]
    misled = [e for e, a, w in zip(world.test, answers, false_labels, strict=True) if a == w]
    example_shown, named, restored = None, [], []
    for example in misled[:n_explained]:
        explained = predictor.explain(example, graph)
        fact = next(one for one in explained.influences if one.kind == "fact")
        named.append(_is_fact(fact, graph, example, world.telling, wrong))
        restored.append(named[-1] and fact.label == example.labels[0])
        example_shown = explained if example_shown is None and restored[-1] else example_shown
    return Misled(
        n=len(answers),
        wrong=_share(answers, false_labels),
        right=_share(answers, [e.labels[0] for e in world.test]),
        n_explained=len(named),
        named=float(np.mean(named)) if named else None,
        restored=float(np.mean(restored)) if named else None,
        explanation=example_shown,
    )


def with_wrong_facts(graph: KnowledgeGraph, relation: str, wrong: dict[str, int]) -> KnowledgeGraph:
    """`graph` with a further fact `relation` of each head, to the class of its number."""
    number = graph.relations.find(relation)
    more = [
        (graph.entities.find(head), number, graph.entities.find(f"C{tail}"))
        for head, tail in wrong.items()
    ]
    triples = np.concatenate([graph.triples, np.array(more, np.int32)])
    return graph.with_triples(triples, note=f"{len(more)} wrong facts added")


def _is_fact(
    fact: Influence,
    graph: KnowledgeGraph,
    example: TaskExample,
    relation: str,
    wrong: dict[str, int],
) -> bool:
    """Whether it is the wrong fact about the person in question."""
    assert fact.row is not None
    head, relation_found, tail = graph.triples[fact.row].tolist()
    names = (
        graph.entities.name(head),
        graph.relations.name(relation_found),
        graph.entities.name(tail),
    )
    return names == (example.linked.id, relation, f"C{wrong[example.linked.id]}")


def _answers(
    predictor: Predictor, examples: Sequence[TaskExample], graph: KnowledgeGraph
) -> list[str]:
    return [labels[0] for labels in predictor.predict(examples, graph)]


def _share(answers: Sequence[str], gold: Sequence[str]) -> float:
    return float(np.mean([a == g for a, g in zip(answers, gold, strict=True)]))
