"""One description sentence an entity.

A description may name the tail of a training triple, never one of a held-out triple, and no
description of a training entity names a reserved entity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kg_loaders.atlas.tables import Item, World
from kg_loaders.records import Triple

ON = re.compile(
    r"coast|peninsula|archipelago|island|atoll|bank|isthmus|side|shore|plateau|edge|delta|Riviera|tip"
)
WORKS = ("literary work", "film", "painting", "opera")


def describe(item: Item, world: World, train: Sequence[Triple], reserved: Sequence[str]) -> str:
    """The description of `item`."""
    name = _with_article(item)
    gloss = item.attributes.get("gloss", "")
    if item.kind == "country":
        region = item.attributes["region"]
        return f"{name} is a country {'on' if ON.search(region) else 'in'} {region}."
    if item.kind == "city":
        return _city(item, world, train, reserved)
    if item.kind == "river":
        return f"{name} is a river of about {item.attributes['length']} kilometres."
    if item.kind == "mountain":
        return f"{name} is a peak of about {item.attributes['height']} metres."
    if item.kind == "person":
        return _person(item, gloss)
    if item.kind in WORKS:
        return (
            f"{name} ({item.attributes['year']}) is a work of the kind {item.kind} about {gloss}."
        )
    if item.kind == "currency":
        return f"{name}, {gloss}, is a sort of money."
    if item.kind == "school":
        return _school(item, world, train)
    return f"{name[0].upper()}{name[1:]} is {gloss}."


def _with_article(item: Item) -> str:
    first = item.names[0]
    return f"{first.article.capitalize()}{first.text}"


def _city(item: Item, world: World, train: Sequence[Triple], reserved: Sequence[str]) -> str:
    facts = {t.relation: world.items[t.tail] for t in train if t.head == item.id}
    if item.id in reserved:
        facts = {t.relation: world.items[t.tail] for t in world.triples if t.head == item.id}
    where = "".join(
        f" {word} {tail.names[0].article}{tail.label}"
        for word, tail in (("in", facts.get("P17")), ("on", facts.get("P206")))
        if tail
    )
    return f"{item.label} is a city{where or ' with streets, squares and a long memory'}."


def _person(item: Item, gloss: str) -> str:
    born, died = item.attributes.get("born"), item.attributes.get("died")
    years = f" ({born}–{died})" if born and died else f" (born {born})" if born else ""
    return f"{item.label}{years} {gloss}."


def _school(item: Item, world: World, train: Sequence[Triple]) -> str:
    students = [world.items[t.head].label for t in train if t[1:] == ("P69", item.id)]
    tail = f", among them {students[0]}" if students else ""
    return f"{_with_article(item)} is a seat of learning with many well known students{tail}."
