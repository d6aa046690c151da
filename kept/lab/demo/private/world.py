"""A company of made-up people, towns and devices: a graph, a text about each person, questions.

Nobody has met these names before, and what a person works as is never said in a text: it stands in
the graph alone, beside facts that say nothing of it. Every person is the target of one text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from entity_linking.mentions import Link, LinkedText, Mention
from kept.lab.reading.worlds import OCCUPATIONS, PrivateWorld, named
from kept.objectives.mentions.made_up import made_up_names
from kept.randomness import generator
from kept.tasks.datasets.example import TaskExample
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.records import Record, Triple

WORKS_AS = "works as"
SENTENCES = (
    "{person} met {colleague} in {town}.",
    "{person} sent the {device} to {colleague}.",
    "{person} took a train to {town} to see {colleague}.",
    "In {town}, {person} waited for {colleague} all day.",
)
N_TOWNS, N_DEVICES = 12, 24


@dataclass(frozen=True, eq=False)
class Company:
    """The world of training and test, and the same graph with people added later.

    `world.telling` is the relation to the role, `C0` and so on. The targets of `new` are people who
    are in `later` alone.
    """

    world: PrivateWorld
    later: KnowledgeGraph
    new: list[TaskExample]


def company(seed: int, *, n_train: int, n_test: int, n_new: int) -> Company:
    """The company of a seed, with so many people; all links of its texts are right.

    >>> staff = company(0, n_train=8, n_test=8, n_new=8)
    >>> staff.world.test[0].linked.text, staff.world.test[0].labels
    ('In Bruzil, Pizhil waited for Vlumuz all day.', ('painter',))
    """
    draws = generator(seed, "private world")
    n_old, n = n_train + n_test, n_train + n_test + n_new
    names = made_up_names(n + N_TOWNS + N_DEVICES, draws)
    people = {f"person{i}": name for i, name in enumerate(names[:n])}
    towns = {f"town{i}": name for i, name in enumerate(names[n : n + N_TOWNS])}
    devices = {f"device{i}": name for i, name in enumerate(names[n + N_TOWNS :])}
    roles = draws.permutation(np.arange(n) % len(OCCUPATIONS))
    facts: list[Record] = []
    for i, person in enumerate(people):
        facts += [
            Triple(person, WORKS_AS, f"C{roles[i]}"),
            Triple(person, "lives in", f"town{draws.integers(N_TOWNS)}"),
            Triple(person, "reports to", f"person{draws.integers(n_old)}"),
        ]
    shared: list[Record] = [
        *named({f"C{i}": role for i, role in enumerate(OCCUPATIONS)}, "role"),
        *named(towns, "town"),
        *named(devices, "device"),
        *(Triple(device, "made in", f"town{draws.integers(N_TOWNS)}") for device in devices),
    ]
    of_people = list(named(people, "person"))
    old = [*shared, *of_people[: 2 * n_old], *facts[: 3 * n_old]]
    labels = {**people, **towns, **devices}
    examples = [_example(i, labels, OCCUPATIONS[roles[i]], n_old, draws) for i in range(n)]
    return Company(
        world=PrivateWorld(
            graph_from_records(old),
            examples[:n_train],
            examples[n_train:n_old],
            OCCUPATIONS,
            "person",
            WORKS_AS,
        ),
        later=graph_from_records([*old, *of_people[2 * n_old :], *facts[3 * n_old :]]),
        new=examples[n_old:],
    )


def _example(
    number: int, labels: Mapping[str, str], role: str, n_people: int, draws: np.random.Generator
) -> TaskExample:
    """A text about a person, a colleague and a town or device; the person's role is the label."""
    colleague = (number + 1 + int(draws.integers(n_people - 1))) % n_people
    slots = {
        "person": f"person{number}",
        "colleague": f"person{colleague}",
        "town": f"town{draws.integers(N_TOWNS)}",
        "device": f"device{draws.integers(N_DEVICES)}",
    }
    sentence = SENTENCES[int(draws.integers(len(SENTENCES)))]
    text = sentence.format(**{slot: labels[entity] for slot, entity in slots.items()})
    links = {}
    for slot, entity in slots.items():
        if f"{{{slot}}}" in sentence:
            start = text.index(labels[entity])
            mention = Mention(start, start + len(labels[entity]))
            links[slot] = Link(mention, (), entity, 1.0)
    ordered = tuple(sorted(links.values(), key=lambda link: link.mention))
    linked = LinkedText(text, ordered, slots["person"])
    return TaskExample(linked, (role,), (links["person"].mention,))
