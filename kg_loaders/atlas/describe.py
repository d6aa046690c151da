"""One description sentence per entity.

A description may name the tail of a training triple, never one of a held-out triple, and no
description of a training entity names a reserved entity. A city whose country is held out is
placed on its continent instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from kg_loaders.atlas.tables import AtlasTables, Item
from kg_loaders.records import Triple

ON = re.compile(
    r"coast|peninsula|archipelago|island|atoll|bank|isthmus|side|shore|plateau|edge|delta|Riviera|tip"
)
WORKS = {"literary work": "about", "film": "about", "painting": "of", "opera": "about"}
UNCOUNTED = re.compile(r"(fiction|realism|art|life|fantasy|satire|tragedy|drama|tragicomedy)$")


def describe(
    item: Item, world: AtlasTables, known: Mapping[str, Mapping[str, Sequence[str]]]
) -> str:
    """The description of `item`; `known[head][relation]` are the tails it may name."""
    name = _with_article(item)
    gloss = item.attributes.get("gloss", "")
    facts = known.get(item.id, {})
    if item.kind == "country":
        region = item.attributes["region"]
        verb = "are" if _is_plural(item) else "is"
        return f"{name} {verb} a country {'on' if ON.search(region) else 'in'} {region}."
    if item.kind == "city":
        return _city(item, world, facts)
    if item.kind == "river":
        return f"{name} is a river of about {item.attributes['length']} kilometres."
    if item.kind == "mountain":
        return f"{name} is a peak of about {item.attributes['height']} metres."
    if item.kind == "person":
        return _person(item, gloss)
    if item.kind in WORKS:
        kind = f"{_indefinite(item.kind)} {WORKS[item.kind]}"
        return f"{name} ({item.attributes['year']}) is {kind} {gloss}."
    if item.kind == "currency":
        return f"{name}, {gloss}, is a sort of money."
    if item.kind == "school":
        students = facts.get("<P69", ())
        among = f", among them {world.items[students[0]].label}" if students else ""
        return f"{name} is a place of learning with well known students{among}."
    if item.kind in ("class", "occupation", "genre"):
        name = item.label if UNCOUNTED.search(item.label) else _indefinite(item.label)
        return f"{name[0].upper()}{name[1:]} is {gloss}."
    return f"{name} {'are' if _is_plural(item) else 'is'} {gloss}."


def nameable(
    world: AtlasTables, train: Sequence[Triple], reserved: Sequence[str]
) -> dict[str, dict[str, list[str]]]:
    """What descriptions may say: training triples, and of a reserved entity all of its own."""
    unseen = frozenset(reserved)
    known: dict[str, dict[str, list[str]]] = {}
    linking_triples = [t for t in world.triples if t.head in unseen and t.tail not in unseen]
    for head, relation, tail in [*train, *linking_triples]:
        known.setdefault(head, {}).setdefault(relation, []).append(tail)
        if relation == "P69" and head not in unseen:
            known.setdefault(tail, {}).setdefault("<P69", []).append(head)
    return known


def _with_article(item: Item) -> str:
    first = item.names[0]
    return f"{first.article.capitalize()}{first.text}"


def _indefinite(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def _is_plural(item: Item) -> bool:
    return item.kind == "range" and item.label.endswith("s")


def _city(item: Item, world: AtlasTables, facts: Mapping[str, Sequence[str]]) -> str:
    kind = "city" if item.facts["P31"] == ("city",) else "place"
    countries = [world.items[tail] for tail in facts.get("P17", ())]
    if countries:
        where = f"{countries[0].names[0].article}{countries[0].label}"
    else:
        where = _by_key(world)[item.facts["P17"][0]].facts["P30"][0]
    waters = [world.items[tail] for tail in facts.get("P206", ())]
    location = f" on {waters[0].names[0].article}{waters[0].label}" if waters else ""
    return f"{item.label} is a {kind} in {where}{location}."


@cache
def _by_key(world: AtlasTables) -> dict[str, Item]:
    return {item.key: item for item in world.items.values()}


def _person(item: Item, gloss: str) -> str:
    born, died = item.attributes.get("born"), item.attributes.get("died")
    years = f" ({born}–{died})" if born and died else f" (born {born})" if born else ""
    return f"{item.label}{years} {gloss}."
