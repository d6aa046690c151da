"""Texts that lie beside the triples of a benchmark folder, in the forms that are in the wild.

KG-BERT's `entity2text.txt`, `entity2textlong.txt` and `relation2text.txt` (identifier, text);
CascadER's `entity_text.tsv` and `relation_text.tsv` of CoDEx (a header with qid, name and
description); Wikidata5M's `wikidata5m_entity.txt` and `wikidata5m_relation.txt` (identifier, then
aliases, the first of which is the label) and `wikidata5m_text.txt`; `entities.json` and
`relations.json` of CoDEx (an object by identifier) and of SimKGC (a list; names by identifier). All
may be packed (`.gz`). Without any, NELL's identifiers (`concept:city:milan`) say name and type.
Texts of names that no triple has are left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.lines import JSON_FAULTS, read_lines, read_whole
from kg_loaders.records import Text, TextKind

SYNSET = re.compile(r"\d{8}")
"""WordNet's offsets: their text is "lemma, gloss"."""
PLAIN = {
    "entity2text.txt": TextKind.LABEL, "entity2textlong.txt": TextKind.DESCRIPTION,
    "relation2text.txt": TextKind.LABEL,
}  # fmt: skip
HEADED = ("entity_text.tsv", "relation_text.tsv")
ALIASES = ("wikidata5m_entity.txt", "wikidata5m_relation.txt", "wikidata5m_text.txt")
OBJECTS = ("entities.json", "relations.json")
NELL = re.compile(r"concept[:_]([a-z0-9]+)[:_](.+)")


def texts_of_folder(
    folder: Path, *, entities: Iterable[str], relations: Iterable[str]
) -> Iterator[Text]:
    """Labels and descriptions of these names, of every file in `folder` of a known form.

    Raises `SourceError` for a line that is not of its form, with its place.
    """
    names = {False: frozenset(entities), True: frozenset(relations)}
    read = [_plain(folder, name, kind) for name, kind in PLAIN.items()]
    read += [_headed(folder, name) for name in HEADED]
    read += [_aliases(folder, name) for name in ALIASES]
    read += [_objects(folder, name) for name in OBJECTS]
    n_read = 0
    for text in chain.from_iterable(read):
        if text.node in names[text.is_relation]:
            n_read += 1
            yield text
    if not n_read:
        yield from _nell(sorted(names[False]))


def _content(folder: Path, name: str) -> tuple[Path, str] | None:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path, read_whole(path).decode()
    return None


def _plain(folder: Path, name: str, kind: TextKind) -> Iterator[Text]:
    content, is_relation = _content(folder, name), name.startswith("relation")
    if content is None:
        return
    for number, line in enumerate(content[1].split("\n"), 1):
        node, tab, text = line.rstrip("\r").partition("\t")
        if not line.strip():
            continue
        if not tab:
            raise SourceError(f"{content[0]}, line {number}: {line!r} is not identifier, tab, text")
        label, comma, gloss = text.partition(", ")
        if kind == TextKind.LABEL and not is_relation and comma and SYNSET.fullmatch(node):
            yield Text(node, TextKind.LABEL, label, "en")
            yield Text(node, TextKind.DESCRIPTION, gloss, "en")
        elif text.strip():
            yield Text(node, kind, text.strip(), "en", is_relation=is_relation)


def _headed(folder: Path, name: str) -> Iterator[Text]:
    content, is_relation = _content(folder, name), name.startswith("relation")
    if content is None:
        return
    rows = csv.DictReader(io.StringIO(content[1]), delimiter="\t")
    missing = {"qid", "name"} - {*(rows.fieldnames or ())}
    if missing:
        raise SourceError(f"{content[0]} has no column {', '.join(sorted(missing))} in its header")
    for row in rows:
        for kind, column in ((TextKind.LABEL, "name"), (TextKind.DESCRIPTION, "description")):
            text = (row.get(column) or "").strip()
            if text:
                yield Text(row["qid"], kind, text, "en", is_relation=is_relation)


def _aliases(folder: Path, name: str) -> Iterator[Text]:
    path = next((one for one in (folder / name, folder / f"{name}.gz") if one.is_file()), None)
    if path is None:
        return
    is_relation, is_corpus = "relation" in name, name.endswith("_text.txt")
    for number, _, line in read_lines(path, DamageReport()):
        node, *values = line.decode().split("\t")
        if not line.strip():
            continue
        if not values or not values[0].strip():
            raise SourceError(f"{path}, line {number}: {node!r} has no text behind a tab")
        if is_corpus:
            yield Text(node, TextKind.DESCRIPTION, values[0].strip(), "en")
            continue
        for position, value in enumerate(values):
            kind = TextKind.ALIAS if position else TextKind.LABEL
            if value.strip():
                yield Text(node, kind, value.strip(), "en", is_relation=is_relation)


def _objects(folder: Path, name: str) -> Iterator[Text]:
    content, is_relation = _content(folder, name), name.startswith("relations")
    if content is None:
        return
    try:
        document = msgspec.json.decode(content[1])
        rows = list(_rows(document))
    except (*JSON_FAULTS, AttributeError, KeyError, TypeError) as error:
        raise SourceError(
            f"{content[0]} is neither CoDEx's form (label and description by identifier) nor "
            f"SimKGC's (entity_id, entity, entity_desc): {error!r}"
        ) from error
    for node, label, description in rows:
        for kind, text in ((TextKind.LABEL, label), (TextKind.DESCRIPTION, description)):
            if text and text.strip():
                yield Text(node, kind, text.strip(), "en", is_relation=is_relation)


def _rows(document: Any) -> Iterator[tuple[str, str | None, str | None]]:
    """Identifier, label and description of an object by identifier, or of a list of objects."""
    if isinstance(document, list):
        for one in document:
            yield one["entity_id"], one["entity"], one.get("entity_desc")
        return
    for node, one in document.items():
        if isinstance(one, str):
            yield node, one, None
        else:
            yield node, one.get("label"), one.get("description")


def _nell(names: Iterable[str]) -> Iterator[Text]:
    for name in names:
        match = NELL.fullmatch(name)
        if match is not None:
            yield Text(name, TextKind.LABEL, match[2].replace("_", " "), "en")
            yield Text(name, TextKind.TYPE, match[1], "en")
