"""Texts that lie beside the triples of a benchmark folder, in the forms that are in the wild.

KG-BERT's `entity2text.txt`, `entity2textlong.txt` and `relation2text.txt` (identifier, text);
CascadER's `entity_text.tsv` and `relation_text.tsv` of CoDEx (a header with qid, name and
description). All may be packed (`.gz`). Texts of names that no triple has are left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from kg_loaders.errors import SourceError
from kg_loaders.reading.lines import read_whole
from kg_loaders.records import Text, TextKind

SYNSET = re.compile(r"\d{8}")
"""WordNet's offsets: their text is "lemma, gloss"."""
PLAIN = {
    "entity2text.txt": TextKind.LABEL, "entity2textlong.txt": TextKind.DESCRIPTION,
    "relation2text.txt": TextKind.LABEL,
}  # fmt: skip
HEADED = ("entity_text.tsv", "relation_text.tsv")


def texts_beside(
    folder: Path, *, entities: Iterable[str], relations: Iterable[str]
) -> Iterator[Text]:
    """Labels and descriptions of these names, of every file in `folder` of a known form.

    Raises `SourceError` for a line that is not of its form, with its place.
    """
    names = {False: frozenset(entities), True: frozenset(relations)}
    read = [_plain(folder, name, kind) for name, kind in PLAIN.items()]
    read += [_headed(folder, name) for name in HEADED]
    for text in chain.from_iterable(read):
        if text.node in names[text.is_relation]:
            yield text


def _content(folder: Path, name: str) -> tuple[Path, str] | None:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path, read_whole(path).decode()
    return None


def _plain(folder: Path, name: str, kind: TextKind) -> Iterator[Text]:
    found, is_relation = _content(folder, name), name.startswith("relation")
    if found is None:
        return
    for number, line in enumerate(found[1].split("\n"), 1):
        node, tab, text = line.rstrip("\r").partition("\t")
        if not line.strip():
            continue
        if not tab:
            raise SourceError(f"{found[0]}, line {number}: {line!r} is not identifier, tab, text")
        label, comma, gloss = text.partition(", ")
        if kind == TextKind.LABEL and not is_relation and comma and SYNSET.fullmatch(node):
            yield Text(node, TextKind.LABEL, label, "en")
            yield Text(node, TextKind.DESCRIPTION, gloss, "en")
        elif text.strip():
            yield Text(node, kind, text.strip(), "en", is_relation=is_relation)


def _headed(folder: Path, name: str) -> Iterator[Text]:
    found, is_relation = _content(folder, name), name.startswith("relation")
    if found is None:
        return
    rows = csv.DictReader(io.StringIO(found[1]), delimiter="\t")
    missing = {"qid", "name"} - {*(rows.fieldnames or ())}
    if missing:
        raise SourceError(f"{found[0]} has no column {', '.join(sorted(missing))} in its header")
    for row in rows:
        for kind, column in ((TextKind.LABEL, "name"), (TextKind.DESCRIPTION, "description")):
            text = (row.get(column) or "").strip()
            if text:
                yield Text(row["qid"], kind, text, "en", is_relation=is_relation)
