"""The atlas: a small real world shipped with the package, with true Wikidata identifiers.

Countries, cities, rivers, mountains, people and works; triples, labels, aliases, descriptions,
sentences with gold mentions, splits and cloze probes. See README.md beside this file.

>>> from kg_loaders import atlas
>>> atlas.graph().label(atlas.graph().entities.id("Q90"))
'Paris'
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from kg_loaders.build import graph_from_records
from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import KnowledgeGraph

SplitName = Literal["train", "valid", "test"]

__all__ = [
    "AtlasProbe",
    "AtlasSentence",
    "AtlasSplits",
    "SplitName",
    "graph",
    "probes",
    "records",
    "sentences",
    "splits",
]


@dataclass(frozen=True, slots=True)
class AtlasSentence:
    """A text with gold mentions `(start, end, entity)`, end exclusive, and the facts it states.

    Mentions are complete for names, languages, currencies, occupations and genres; the plain
    nouns of classes ("city", "river") are marked only where the sentence says what a thing is.
    """

    id: str
    text: str
    mentions: tuple[tuple[int, int, str], ...]
    facts: tuple[Triple, ...]
    split: SplitName


@dataclass(frozen=True, slots=True)
class AtlasSplits:
    """Every triple is in exactly one part.

    Both ends and the relation of a `valid` or `test` triple occur in `train`, and no triple of
    `train` joins the same two entities. `inductive` holds every triple of `inductive_entities`.
    """

    train: tuple[Triple, ...]
    valid: tuple[Triple, ...]
    test: tuple[Triple, ...]
    inductive: tuple[Triple, ...]
    inductive_entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtlasProbe:
    """A cloze row; `template` holds [X] for the subject and [Y] for the object."""

    subject: str
    relation: str
    object: str
    template: str


def records() -> Iterator[Record]:
    """All triples, then the texts of relations and entities."""
    yield from _triples()
    for line in _lines("relations.tsv")[1:]:
        relation, label = line.split("\t")
        yield Text(relation, TextKind.LABEL, label, "en", 0, True)
    for row in _rows("entities.jsonl"):
        yield Text(row["id"], TextKind.LABEL, row["label"], "en")
        for alias in row["aliases"]:
            yield Text(row["id"], TextKind.ALIAS, alias, "en")
        for type_ in row["types"]:
            yield Text(row["id"], TextKind.TYPE, type_)
        yield Text(row["id"], TextKind.DESCRIPTION, row["description"], "en")


def graph() -> KnowledgeGraph:
    """The whole atlas in memory; for training use `graph().with_triples` on `splits().train`."""
    return graph_from_records(records(), sources=("kept atlas",), licence="CC0-1.0 AND Apache-2.0")


def sentences(split: SplitName | None = None) -> list[AtlasSentence]:
    """All sentences in file order, or those of one split."""
    return [
        AtlasSentence(
            id=row["id"],
            text=row["text"],
            mentions=tuple((start, end, entity) for start, end, entity in row["mentions"]),
            facts=tuple(Triple(*fact) for fact in row["facts"]),
            split=row["split"],
        )
        for row in _rows("sentences.jsonl")
        if split is None or row["split"] == split
    ]


def splits() -> AtlasSplits:
    """The transductive split of the triples and the reserved, unseen entities."""
    held = json.loads(_read("splits.json"))
    parts = {
        name: tuple(Triple(*fact) for fact in held[name]) for name in ("valid", "test", "inductive")
    }
    away = dict.fromkeys(triple for part in parts.values() for triple in part)
    return AtlasSplits(
        train=tuple(triple for triple in _triples() if triple not in away),
        inductive_entities=tuple(held["inductive_entities"]),
        **parts,
    )


def probes() -> list[AtlasProbe]:
    """The cloze set."""
    return [AtlasProbe(**row) for row in _rows("probes.jsonl")]


def _triples() -> Iterator[Triple]:
    for line in _lines("triples.tsv")[1:]:
        yield Triple(*line.split("\t"))


def _rows(name: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in _lines(name))


def _lines(name: str) -> list[str]:
    return _read(name).removesuffix("\n").split("\n")


def _read(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
