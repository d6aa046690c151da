"""Made-up worlds: a graph of made-up entities, and questions that only the graph answers.

Every head is a name of `made_up_names`; its class is sampled uniformly, so that neither text nor
name reveals it. Heads of the test set are in no training text.

Axis legend: head (the entity of a question), class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from entity_linking.mentions import Link, LinkedText, Mention
from kept.errors import ConfigError
from kept.objectives.mentions.made_up import made_up_names
from kept.randomness import generator
from kept.tasks.datasets.example import TaskExample
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.records import Record, Text, TextKind, Triple

OCCUPATIONS = ("baker", "sailor", "lawyer", "painter", "soldier", "farmer", "surgeon", "priest")
COUNTRIES = ("Norway", "Chile", "Egypt", "Japan", "Poland", "Kenya", "Cuba", "Nepal")
SPORTS = ("chess", "golf", "rugby", "tennis", "hockey", "boxing", "polo", "judo")
KINDS = ("city", "river", "mountain", "ship", "horse", "castle", "bridge", "company")
TIES = ("father", "teacher", "doctor", "neighbour", "enemy", "cousin", "servant", "wife")
WORKS = (
    "gets up at night and sells fresh bread and rolls",
    "crosses the sea on a ship and mends the sails",
    "speaks for people in court and writes contracts",
    "mixes colours and covers canvas with a brush",
    "carries a rifle and marches with the regiment",
    "ploughs the fields and feeds the cows",
    "operates on the sick with a scalpel",
    "reads mass in the church and hears confessions",
)
"""What each of `OCCUPATIONS` does, without naming it."""
SENTENCES = ("{a} met {b}.", "{a} saw {b}.", "{a} knows {b}.", "{a} left {b}.")
FRESH, RETURNING = "fresh", "returning"
FORMS = (FRESH, RETURNING)


@dataclass(frozen=True, kw_only=True)
class Size:
    """The number of heads, and of training texts per head.

    `form` "fresh": each training head is in one text, so that memorising it is of no use;
    "returning": `n_train` texts share `n_returning` heads, as names of real tasks do.
    `n_distractors` further facts of each head, at most two, do not reveal its class.
    """

    form: str = FRESH
    n_train: int = 3200
    n_test: int = 240
    n_returning: int = 320
    n_distractors: int = 1

    def __post_init__(self) -> None:
        faults = [] if self.form in FORMS else [f"form {self.form!r}: one of {', '.join(FORMS)}"]
        for name, least in (("n_train", 8), ("n_test", 8), ("n_returning", 8)):
            if getattr(self, name) < least:
                faults.append(f"{name} {getattr(self, name)}: {least} or more")
        if not 0 <= self.n_distractors <= 2:
            faults.append(f"n_distractors {self.n_distractors}: 0, 1 or 2")
        if faults:
            raise ConfigError("size of a reading control: " + "; ".join(faults))

    @property
    def n_train_heads(self) -> int:
        """Different heads of the training set."""
        return self.n_train if self.form == FRESH else min(self.n_returning, self.n_train)


SIZE = Size()


@dataclass(frozen=True, eq=False)
class PrivateWorld:
    """A graph, training and test examples, the classes; all that a control task needs.

    `head_type` is the type of the questions' entities. `telling`: the relation whose tail C0, C1
    and so on is the class of its head, by number; "" where no single fact determines it.
    """

    graph: KnowledgeGraph
    train: list[TaskExample]
    test: list[TaskExample]
    classes: tuple[str, ...]
    head_type: str
    telling: str = ""

    @property
    def chance(self) -> float:
        """Chance accuracy: classes are uniform."""
        return 1 / len(self.classes)


Draw = np.random.Generator


def nameless_occupation(size: Size, seed: int) -> PrivateWorld:
    """Whose occupation is it: "Zigal met Hadrob.", with (Zigal, occupation, baker) in the graph."""
    return _of_class(size, seed, "occupation", OCCUPATIONS, "person")


def nameless_kind(size: Size, seed: int) -> PrivateWorld:
    """What a thing is, by its fact "instance of"."""
    return _of_class(size, seed, "instance of", KINDS, "thing", texts=("{a} lies beyond {b}.",))


def cloze(size: Size, seed: int) -> PrivateWorld:
    """The word that is masked: "Zigal, the [MASK], met Hadrob.", asked at the mask."""
    texts = tuple(f"{{a}}, the [MASK],{text[3:]}" for text in SENTENCES)
    world = _of_class(size, seed, "occupation", OCCUPATIONS, "person", texts=texts)
    return dataclasses.replace(
        world, train=[_at_mask(e) for e in world.train], test=[_at_mask(e) for e in world.test]
    )


def conflict(size: Size, seed: int) -> PrivateWorld:
    """The graph is right, the text is not: "Zigal, a sailor, met Hadrob." with another fact."""
    texts = tuple(f"{{a}}, the {{c}},{text[3:]}" for text in SENTENCES)
    return _of_class(size, seed, "occupation", OCCUPATIONS, "person", texts=texts)


def two_hops(size: Size, seed: int) -> PrivateWorld:
    """The head's guild has the occupation, which no fact of the head itself names."""
    draws = generator(seed, "reading control", "guilds")
    guilds = [f"{name} guild" for name in made_up_names(10 * len(OCCUPATIONS), draws)]
    records = list(named({f"G{i}": name for i, name in enumerate(guilds)}, "guild"))
    for i in range(len(guilds)):
        records.append(Triple(f"G{i}", "occupation", f"C{i % len(OCCUPATIONS)}"))
    return _of_class(
        size, seed, "member of", OCCUPATIONS, "person", tails=len(guilds), more=records
    )


def nameless_relation(size: Size, seed: int) -> PrivateWorld:
    """What the first person is to the second: (Zigal, teacher of, Hadrob) is in the graph.

    A distractor relates the first to somebody who is not in the text.
    """
    draws = generator(seed, "reading control", "relation")
    n_heads = size.n_train_heads + size.n_test
    names = made_up_names((2 + size.n_distractors) * n_heads, draws)
    people = {f"P{i}": name for i, name in enumerate(names)}
    records: list[Record] = [*named(people, "person")]
    records += [
        Text(f"R{i}", TextKind.LABEL, f"{t} of", is_relation=True) for i, t in enumerate(TIES)
    ]
    classes = draws.permutation(np.arange(n_heads) % len(TIES))
    pairs = []
    for i, number in enumerate(classes.tolist()):
        head, tail = f"P{i}", f"P{n_heads + i}"
        records.append(Triple(head, f"R{number}", tail))
        for k in range(size.n_distractors):
            other = int(draws.integers(len(TIES)))
            records.append(Triple(head, f"R{other}", f"P{(2 + k) * n_heads + i}"))
        pairs.append((head, tail))

    def example(i: int, draws: Draw) -> TaskExample:
        head, tail = pairs[i]
        return about((head, people[head]), (tail, people[tail]), SENTENCES, TIES[classes[i]], draws)

    train, test = _split(size, example, draws)
    graph = graph_from_records(records)
    return PrivateWorld(graph, train, test, TIES, "person")


def _of_class(
    size: Size,
    seed: int,
    relation: str,
    classes: Sequence[str],
    head_type: str,
    *,
    texts: Sequence[str] = SENTENCES,
    tails: int | None = None,
    more: Sequence[Record] = (),
) -> PrivateWorld:
    """A world whose heads have one fact that determines their class, and distractors.

    With `tails` the fact's objects are those of `more`, G0 and so on, whose class is their number
    modulo that of the classes.
    """
    draws = generator(seed, "reading control", relation)
    n_heads = size.n_train_heads + size.n_test
    names = made_up_names(2 * n_heads, draws)
    heads = {f"H{i}": name for i, name in enumerate(names[:n_heads])}
    others = names[n_heads:]
    order = draws.permutation(np.arange(n_heads) % (tails or len(classes)))
    objects = {f"C{i}": name for i, name in enumerate(classes)}
    records = [*named(heads, head_type), *named(objects, relation), *more]
    tail_of = "G" if tails else "C"
    records += [Triple(f"H{i}", relation, f"{tail_of}{order[i]}") for i in range(n_heads)]
    distractors = (("citizen of", COUNTRIES, "D"), ("plays", SPORTS, "S"))
    for name, values, letter in distractors[: size.n_distractors]:
        records += named({f"{letter}{i}": value for i, value in enumerate(values)}, name)
        picked = draws.integers(len(values), size=n_heads).tolist()
        records += [Triple(f"H{i}", name, f"{letter}{k}") for i, k in enumerate(picked)]

    def example(i: int, draws: Draw) -> TaskExample:
        stated = classes[int(draws.integers(len(classes)))]
        label = classes[int(order[i]) % len(classes)]
        return about((f"H{i}", heads[f"H{i}"]), ("", others[i]), texts, label, draws, stated=stated)

    train, test = _split(size, example, draws)
    return PrivateWorld(
        graph_from_records(records),
        train,
        test,
        tuple(classes),
        head_type,
        relation if tails is None else "",
    )


def _split(
    size: Size, example: Callable[[int, Draw], TaskExample], draws: Draw
) -> tuple[list[TaskExample], list[TaskExample]]:
    n_heads = size.n_train_heads
    train = [example(i % n_heads, draws) for i in range(size.n_train)]
    return train, [example(n_heads + i, draws) for i in range(size.n_test)]


def about(
    head: tuple[str, str],
    tail: tuple[str, str],
    texts: Sequence[str],
    label: str,
    draws: Draw,
    *,
    stated: str = "",
) -> TaskExample:
    """A text about two (entity, name); one without an identifier is neither linked nor a target."""
    written = texts[int(draws.integers(len(texts)))]
    text = written.format(a=head[1], b=tail[1], c=stated)
    ends = [(entity, text.index(name), len(name)) for entity, name in (head, tail) if entity]
    mentions = [Mention(start, start + length) for _, start, length in ends]
    links = tuple(
        Link(mention, (), entity, 1.0)
        for mention, (entity, _, _) in sorted(zip(mentions, ends, strict=True))
    )
    return TaskExample(LinkedText(text, links), (label,), tuple(mentions))


def _at_mask(example: TaskExample) -> TaskExample:
    start = example.linked.text.index("[MASK]")
    return dataclasses.replace(example, targets=(Mention(start, start + len("[MASK]")),))


def named(names: Mapping[str, str], type_name: str) -> list[Record]:
    return [
        text
        for node, name in names.items()
        for text in (Text(node, TextKind.LABEL, name, "en"), Text(node, TextKind.TYPE, type_name))
    ]


TASKS: dict[str, Callable[[Size, int], PrivateWorld]] = {
    "occupation": nameless_occupation,
    "typing": nameless_kind,
    "relation": nameless_relation,
    "cloze": cloze,
    "conflict": conflict,
    "two-hops": two_hops,
}
"""Control tasks of methods that read the graph beside a text."""
