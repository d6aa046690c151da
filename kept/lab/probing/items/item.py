"""`ClozeItem`: one question of a cloze probe, from any collection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from entity_linking.mentions import LinkedText, Mention

HOLE = "[Y]"
"""Stands for the answer in the text of an item, as in LAMA's templates."""


@dataclass(frozen=True, slots=True)
class ClozeItem:
    """A sentence with one hole.

    `linked` holds the text with `HOLE` once, and the links of its other mentions (that of the
    subject, where its entity is known). `answer` is the gold string, `also_right` further strings
    that are right and never compete against it. `fact` is head, relation and tail as identifiers of
    a graph where all are known, for audits and held-out facts. `group`: items of one group have the
    same fact (paraphrases), and are not independent. `draw_key` seeds the item's sampled facts, by
    default its `id`: items that share it get the same facts.
    """

    id: str
    relation: str
    linked: LinkedText
    hole: Mention
    subject: str
    answer: str
    also_right: tuple[str, ...] = ()
    fact: tuple[str, str, str] | None = None
    group: str = ""
    draw_key: str = ""


def objects_of(items: Iterable[ClozeItem]) -> dict[str, list[str]]:
    """The right answers of each relation's items, sorted."""
    objects: dict[str, dict[str, None]] = {}
    for item in items:
        objects.setdefault(item.relation, {}).update(dict.fromkeys((item.answer, *item.also_right)))
    return {relation: sorted(names) for relation, names in objects.items()}
