"""Made-up worlds to be asked about: bearers with a few facts each, and the demo's company.

Nobody has met the names, values are drawn evenly, and who is asked about is in no training
question. The two words of a bearer's name are, each beside others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kept.lab.demo.private.world import WORKS_AS, company
from kept.lab.reading.worlds import COUNTRIES, OCCUPATIONS, SPORTS
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.records import Record, Text, TextKind, Triple

FIRST = (
    "Amber", "Ancient", "Autumn", "Black", "Blue", "Brave", "Bright", "Broken", "Bronze", "Calm",
    "Clever", "Cold", "Copper", "Crystal", "Dark", "Deep", "Distant", "Eastern", "Empty", "Faint",
    "Frozen", "Gentle", "Giant", "Golden", "Grand", "Green", "Grey", "Happy", "Heavy", "Hidden",
    "Hollow", "Honest", "Iron", "Lazy", "Little", "Lonely", "Lost", "Lucky", "Marble", "Narrow",
    "Noble", "Northern", "Patient", "Pink", "Proud", "Purple", "Quick", "Quiet", "Red", "Royal",
    "Sacred", "Sharp", "Silent", "Silver", "Simple", "Southern", "Summer", "Velvet", "Violet",
    "Western", "White", "Wild", "Winter", "Yellow",
)  # fmt: skip
SECOND = (
    "Anchor", "Apple", "Arrow", "Badger", "Beacon", "Bear", "Bell", "Bird", "Bridge", "Brook",
    "Candle", "Castle", "Cedar", "Cloud", "Clover", "Crane", "Crown", "Dragon", "Eagle", "Falcon",
    "Feather", "Field", "Flower", "Forest", "Fox", "Garden", "Gate", "Hammer", "Harbor", "Hawk",
    "Horse", "Island", "Lake", "Lantern", "Lion", "Meadow", "Mirror", "Moon", "Mountain", "Oak",
    "Orchard", "Owl", "Pearl", "Pine", "Planet", "Rabbit", "Raven", "River", "Rose", "Shadow",
    "Shell", "Shield", "Star", "Stone", "Storm", "Sword", "Tiger", "Tower", "Tree", "Valley",
    "Whale", "Wheel", "Willow", "Wolf",
)  # fmt: skip
INSTRUMENTS = ("violin", "piano", "guitar", "trumpet", "drum", "harp", "flute", "organ")
VALUES = {
    "occupation": OCCUPATIONS,
    "country": COUNTRIES,
    "sport": SPORTS,
    "instrument": INSTRUMENTS,
}


@dataclass(frozen=True, eq=False)
class PrivateWorld:
    """Two graphs without a bearer in common; each bearer has a fact of every relation."""

    train: KnowledgeGraph
    test: KnowledgeGraph


def private_world(seed: int, *, n_train: int, n_test: int) -> PrivateWorld:
    """The world of a seed with so many bearers; raises `ValueError` for more than there are names.

    >>> world = private_world(0, n_train=3, n_test=2)
    >>> world.train.n_triples, world.test.n_triples
    (12, 8)
    """
    names = [f"{first} {second}" for first in FIRST for second in SECOND]
    if n_train + n_test > len(names):
        raise ValueError(f"{n_train + n_test} bearers, but {len(names)} names; ask for fewer")
    draws = generator(seed, "kblam world")
    chosen = [names[i] for i in draws.permutation(len(names))[: n_train + n_test]]
    return PrivateWorld(
        _graph(seed, "train", chosen[:n_train]), _graph(seed, "test", chosen[n_train:])
    )


def _graph(seed: int, part: str, names: list[str]) -> KnowledgeGraph:
    draws = generator(seed, "kblam facts", part)
    records: list[Record] = [
        Text(relation, TextKind.LABEL, relation, "en", 0, True) for relation in VALUES
    ]
    for relation, values in VALUES.items():
        records += [Text(f"{relation}{i}", TextKind.LABEL, v, "en") for i, v in enumerate(values)]
    for number, name in enumerate(names):
        records.append(Text(f"bearer{number}", TextKind.LABEL, name, "en"))
        records += [
            Triple(f"bearer{number}", relation, f"{relation}{draws.integers(len(values))}")
            for relation, values in VALUES.items()
        ]
    return graph_from_records(records)


@dataclass(frozen=True, eq=False)
class AskedWorld:
    """Graphs of training and of the questions, whose heads are asked about, by which relations.

    `wording` of a relation where the common one would read badly.
    """

    train: KnowledgeGraph
    test: KnowledgeGraph
    train_heads: tuple[str, ...]
    test_heads: tuple[str, ...]
    relations: tuple[str, ...]
    wording: dict[str, dict[str, str]]


def bearers(seed: int, n_train: int, n_test: int) -> AskedWorld:
    """`private_world`, of which everything is asked."""
    world = private_world(seed, n_train=n_train, n_test=n_test)
    train, test = (tuple(f"bearer{i}" for i in range(n)) for n in (n_train, n_test))
    return AskedWorld(world.train, world.test, train, test, tuple(VALUES), {})


def staff(seed: int, n_train: int, n_test: int) -> AskedWorld:
    """The company of `kept demo`: what a person works as, beside facts that do not say it."""
    graph = company(seed, n_train=n_train, n_test=n_test, n_new=0).world.graph
    people = tuple(f"person{i}" for i in range(n_train + n_test))
    wording = {
        WORKS_AS: {
            "question": "What does {name} work as?",
            "begin": "{name} works as a",
            "statement": "{name} works as a {value}.",
        },
        "lives in": {"statement": "{name} lives in {value}."},
        "reports to": {"statement": "{name} reports to {value}."},
    }
    return AskedWorld(graph, graph, people[:n_train], people[n_train:], (WORKS_AS,), wording)


WORLDS: Mapping[str, Callable[[int, int, int], AskedWorld]] = {"bearers": bearers, "company": staff}
"""From a seed and numbers of heads to train on and to ask about."""
