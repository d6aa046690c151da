"""What is asked: questions of a file, or of a graph's facts by templates.

A file is JSON lines: `question`, `subject` (an entity's id or label, one of whose names stands in
the question), `relation` (id or label), `answer` (the label or id of what the graph has there, or a
list), and `begin`, the beginning of the answer, if it should be given:

    {"question": "Where was Ada Lovelace born?", "subject": "Q7259", "relation": "P19",
     "answer": "London", "begin": "Ada Lovelace was born in"}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from entity_linking.annotations import read_rows
from entity_linking.errors import LinkingError
from entity_linking.mentions import Mention
from kept.errors import ConfigError
from kept.lab.questions.source import Source, Wording
from kept.lab.questions.worlds import WORLDS
from kept.randomness import generator
from kept.suggestions import no_such, require_there
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from kg_loaders.spelling import did_you_mean

N_SHOWN = 5
"""Names that an error lists."""


@dataclass(frozen=True)
class Item:
    """A question about `entity`, named at `mention`; `answers` are the labels of its values.

    Ids are those of the graph; `begin` is the beginning of the answer.
    """

    question: str
    mention: Mention
    entity: str
    relation: str
    answers: tuple[str, ...]
    begin: str = ""

    @property
    def name(self) -> str:
        """The entity as the question names it."""
        return self.question[self.mention.start : self.mention.end]


@dataclass(frozen=True, eq=False)
class QuestionSet:
    """A graph and questions about it; `wording` by a relation's id or label."""

    graph: KnowledgeGraph
    items: tuple[Item, ...]
    wording: Mapping[str, Wording]

    def wording_of(self, relation: int) -> Wording:
        """That of a relation by its number."""
        return wording_of(self.graph, relation, self.wording)

    def statement(self, name: str, relation: int, value: str) -> str:
        """A fact of whoever is called `name`, as a sentence."""
        label = self.graph.relation_label(relation)
        return self.wording_of(relation).statement.format(name=name, relation=label, value=value)

    def fact_of(self, item: Item) -> tuple[int, int]:
        """Numbers of an item's entity and relation."""
        return self.graph.entities.id(item.entity), self.graph.relations.id(item.relation)

    @cached_property
    def values(self) -> dict[int, list[str]]:
        """Of each relation asked for the labels of its values, sorted, each once."""
        labels: dict[int, list[str]] = {}
        for relation in sorted({self.fact_of(item)[1] for item in self.items}):
            tails = np.unique(self.graph.triples[self.graph.triples[:, 1] == relation, 2])
            labels[relation] = sorted({self.graph.label(tail) for tail in tails.tolist()})
        return labels


def values_of(graph: KnowledgeGraph, entity: int, relation: int) -> tuple[str, ...]:
    """The labels of what `graph` has for an entity and a relation, in its order."""
    triples = graph.outgoing(entity)
    tails = triples[triples[:, 1] == relation, 2]
    return tuple(dict.fromkeys(graph.label(tail) for tail in tails.tolist()))


def wording_of(graph: KnowledgeGraph, relation: int, wordings: Mapping[str, Wording]) -> Wording:
    """What `wordings` says of a relation by its id or label, or the common wording."""
    by_id = wordings.get(graph.relations.name(relation))
    return by_id or wordings.get(graph.relation_label(relation)) or Wording()


# ---- where questions come from -------------------------------------------------------------------
def question_sets(source: Source, root: Path) -> tuple[QuestionSet, QuestionSet]:
    """What rows are trained on, and what is asked; ConfigError where nothing is left to ask."""
    if source.world is not None:
        return _of_world(source)
    graph = KnowledgeGraph.open(root / str(source.kg))
    if source.asked is None:
        train, test = _split(graph, source)
    else:
        test = tuple(read_items(root / source.asked, graph))
        train = tuple(read_items(root / source.train, graph)) if source.train else ()
    if not test:
        raise ConfigError(
            f"there is nothing to ask: {source.asked or graph} has no question; name relations of "
            "the graph whose heads have labels, or give a file of questions"
        )
    _require_apart(train, test)
    limited = train[: source.max_train], spread(test)[: source.max_asked]
    return tuple(QuestionSet(graph, each, source.wording) for each in limited)  # type: ignore[return-value]


def _of_world(source: Source) -> tuple[QuestionSet, QuestionSet]:
    world = WORLDS[str(source.world)](source.seed, source.n_train, source.n_test)
    wording = {name: Wording(**words) for name, words in world.wording.items()} | source.wording
    sides = []
    for graph, heads, most in (
        (world.train, world.train_heads, source.max_train),
        (world.test, world.test_heads, source.max_asked),
    ):
        numbers = [graph.entities.id(head) for head in heads]
        relations = [graph.relations.id(name) for name in world.relations]
        items = tuple(of_facts(graph, numbers, relations, wording))
        sides.append(QuestionSet(graph, spread(items)[:most], wording))
    return sides[0], sides[1]


def _split(graph: KnowledgeGraph, source: Source) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Every fact of the relations; heads are drawn for training or for the questions."""
    relations = [_number(graph, "relation", name) for name in source.relations]
    relations = relations or list(range(graph.n_relations))
    asked_of = np.isin(graph.triples[:, 1], relations)
    heads = np.unique(graph.triples[asked_of, 0])
    heads = generator(source.seed, "questions", "heads").permutation(heads)
    n_train = round(source.train_share * len(heads))
    wording = source.wording
    parts = (heads[:n_train], heads[n_train:])
    train, test = (tuple(of_facts(graph, h.tolist(), relations, wording)) for h in parts)
    return train, test


def of_facts(
    graph: KnowledgeGraph,
    heads: Iterable[int],
    relations: Sequence[int],
    wording: Mapping[str, Wording],
) -> Iterator[Item]:
    """A question for each head and relation that has a fact."""
    for head in heads:
        name = graph.label(head)
        for relation in relations:
            answers = values_of(graph, head, relation)
            if not answers:
                continue
            words, label = wording_of(graph, relation, wording), graph.relation_label(relation)
            fields = {"name": name, "relation": label}
            question = words.question.format(**fields)
            start = words.question.format(**(fields | {"name": "\0"})).index("\0")
            yield Item(
                question, Mention(start, start + len(name)), graph.entities.name(head),
                graph.relations.name(relation), answers, words.begin.format(**fields),
            )  # fmt: skip


def spread(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items in rounds, one of each entity in each, its relation another from one to the next.

    So the first of them are of as many entities as can be, and of all relations alike.
    """
    by_entity: dict[str, list[Item]] = {}
    for item in items:
        by_entity.setdefault(item.entity, []).append(item)
    turned = [
        group[i % len(group) :] + group[: i % len(group)]
        for i, group in enumerate(by_entity.values())
    ]
    longest = max(map(len, turned), default=0)
    return tuple(group[turn] for turn in range(longest) for group in turned if turn < len(group))


def _require_apart(train: Sequence[Item], test: Sequence[Item]) -> None:
    """Raise ConfigError where an entity that is asked about is in a training question."""
    both = sorted({item.entity for item in train} & {item.entity for item in test})
    if both:
        raise ConfigError(
            f"{len(both)} entities are in questions of training and of the tables, such as "
            f"{', '.join(both[:N_SHOWN])}: a row could know the answer without the graph; give "
            "them to one file alone"
        )


# ---- files ---------------------------------------------------------------------------------------
class _Row(msgspec.Struct, forbid_unknown_fields=True):
    question: str
    subject: str
    relation: str
    answer: str | list[str]
    begin: str = ""


def read_items(path: Path, graph: KnowledgeGraph) -> Iterator[Item]:
    """The questions of a file; `DamageError` with file, line and remedy for the first bad one."""
    require_there(path, "give a file of JSON lines with question, subject, relation and answer")
    yield from read_rows(path, DamageReport(), _Row, lambda row: _of_row(row, graph))


def _of_row(row: _Row, graph: KnowledgeGraph) -> Item:
    try:
        subject = _number(graph, "entity", row.subject)
        relation = _number(graph, "relation", row.relation)
    except ConfigError as error:
        raise LinkingError(str(error)) from error
    names = [row.subject, graph.label(subject), *(name for name, _ in graph.aliases(subject))]
    places = [(row.question.find(name), name) for name in dict.fromkeys(names) if name]
    there = [(start, name) for start, name in places if start >= 0]
    if not there:
        known = ", ".join(repr(name) for name in dict.fromkeys(names[1:]))
        raise LinkingError(
            f"question {row.question!r} does not name its subject {row.subject!r}; write one of "
            f"its names: {known}"
        )
    start, name = max(there, key=lambda match: len(match[1]))
    values = values_of(graph, subject, relation)
    listed = [row.answer] if isinstance(row.answer, str) else row.answer
    answers = tuple(_label(graph, answer) for answer in listed)
    if wrong := [answer for answer in answers if answer not in values]:
        has = ", ".join(map(repr, values[:N_SHOWN])) or "no fact"
        raise LinkingError(
            f"answer {wrong[0]!r} is not in the graph, which has {has} for {row.subject!r} and "
            f"{row.relation!r}{did_you_mean(wrong[0], values)}; add the fact (kept kg add) or mend "
            "the answer: a comparison takes away and edits the fact that answers"
        )
    if not answers:
        raise LinkingError("answer is an empty list; give one value or more")
    return Item(
        row.question, Mention(start, start + len(name)), graph.entities.name(subject),
        graph.relations.name(relation), answers, row.begin,
    )  # fmt: skip


def _label(graph: KnowledgeGraph, answer: str) -> str:
    """The label of an entity that is given by its id; anything else as it is."""
    number = graph.entities.find(answer)
    return answer if number is None else graph.label(number)


def entity_number(graph: KnowledgeGraph, name: str) -> int:
    """Return the number of an entity by its id or its label; `ConfigError` for one that is none."""
    return _number(graph, "entity", name)


def _number(graph: KnowledgeGraph, kind: str, name: str) -> int:
    """The number of an entity or relation by its id, or by a label that one alone has."""
    entities = kind == "entity"
    vocabulary = graph.entities if entities else graph.relations
    number = vocabulary.find(name)
    if number is not None:
        return number
    size, label = (
        (graph.n_entities, graph.label) if entities else (graph.n_relations, graph.relation_label)
    )
    numbers = [i for i in range(size) if label(i) == name]
    if len(numbers) > 1:
        ids = ", ".join(vocabulary.name(i) for i in numbers[:N_SHOWN])
        raise ConfigError(f"{len(numbers)} entities are called {name!r}: give the id, one of {ids}")
    if not numbers:
        some = [vocabulary.name(i) for i in range(min(size, 1000))]
        labels = [label(i) for i in range(min(size, 1000))]
        known = [*some, *labels] if size <= N_SHOWN * 4 else []
        if known:
            raise no_such(f"{kind} in the graph", name, list(dict.fromkeys(known)))
        hint = did_you_mean(name, [*some, *labels])
        raise ConfigError(f"the graph has no {kind} {name!r}{hint}; give an id or a label of it")
    return numbers[0]
