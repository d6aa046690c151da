"""A private world: made-up bearers of two-word names, each with one value a relation.

Nobody has met the names, values are drawn evenly, and bearers of the test are in no training fact;
their two words are, each beside others. What is not known is said where a value would stand: the
released wording begins with it, before the host has come to the name.
"""

from __future__ import annotations

from dataclasses import dataclass

from kept.decoders.kblam.wording import CHATML, Fact
from kept.randomness import generator
from kept.reading.worlds import COUNTRIES, OCCUPATIONS, SPORTS
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
UNKNOWN = "unknown, sorry"
"""The value of a refusal; `is_refusal` knows it by its last word."""


@dataclass(frozen=True)
class Dialogue:
    """A question with its answer; `begun` is the text up to the value, `prompt` to the answer."""

    text: str
    begun: str
    prompt: str

    @classmethod
    def about(cls, fact: Fact, template: int, *, refused: bool = False) -> Dialogue:
        """The question by one of `TEMPLATES`, and the value, or that it is not known.

        >>> Dialogue.about(Fact("Wexo", "sport", "golf"), 1, refused=True).text[-46:]
        'The sport of Wexo is unknown, sorry.<|im_end|>'
        """
        said = Fact(fact.name, fact.relation, UNKNOWN if refused else fact.value)
        question = fact.question(template)
        prompt = CHATML.prompt(question)
        begun = f"{prompt}{said.answer.removesuffix(f' {said.value}.')}"
        return cls(CHATML.dialogue(question, said.answer), begun, prompt)


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
