"""Readers of the public files below the folder that KEPT_DATA names, each form once.

Paths are given without `.gz`: a packed file is read where there is one.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kg_loaders import Triple
from kg_loaders.errors import DamageError
from kg_loaders.reading.lines import read_whole


class _Unquoted(csv.excel_tab):
    quoting = csv.QUOTE_NONE


def content(path: Path) -> str:
    """The text of a file, packed or not."""
    packed = path.with_name(path.name + ".gz")
    return read_whole(packed if packed.exists() else path).decode()


def lines(path: Path) -> Iterator[str]:
    """Its lines, without those that are empty."""
    yield from (line for line in content(path).split("\n") if line)


def json_of(path: Path) -> Any:
    """What a JSON file holds."""
    return json.loads(content(path))


def table(path: Path, *, is_quoted: bool = False) -> Iterator[dict[str, str]]:
    """Rows of a file with tabs and a header."""
    dialect = csv.excel_tab if is_quoted else _Unquoted
    yield from csv.DictReader(io.StringIO(content(path), newline=""), dialect=dialect)


# ---- facts -----------------------------------------------------------------------------------
def codex_triples(
    root: Path, sizes: Sequence[str], splits: Sequence[str] = ("train",)
) -> Iterator[Triple]:
    """CoDEx by size ("s", "m") and split."""
    for size in sizes:
        for split in splits:
            path = root / f"codex/codex-{size}/{split}.txt"
            for number, line in enumerate(content(path).split("\n"), 1):
                if not line:
                    continue
                fields = line.split("\t")
                if len(fields) != 3:
                    raise DamageError(
                        f"{path}:{number}: {line!r} is not head, relation and tail separated "
                        f"by tabs; "
                        "fetch the file again"
                    )
                yield Triple(*fields)


def trex_facts(root: Path) -> Iterator[Triple]:
    """Facts of LAMA's T-REx part."""
    for path in sorted((root / "lama/TREx").glob("P*.jsonl.gz")):
        for line in lines(path.with_suffix("")):
            row = json.loads(line)
            yield Triple(row["sub_uri"], row["predicate_id"], row["obj_uri"])


def lpaqa_facts(root: Path) -> Iterator[Triple]:
    """LPAQA's training facts."""
    with tarfile.open(root / "lama/lpaqa_TREx_train.tar.gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member) if member.name.endswith(".jsonl") else None
            for line in file or ():
                row = json.loads(line)
                yield Triple(row["sub_uri"], Path(member.name).stem, row["obj_uri"])


def every_fact(root: Path) -> Iterator[Triple]:
    """All splits of CoDEx-M, T-REx and LPAQA, with repetitions."""
    yield from codex_triples(root, ("m",), ("train", "valid", "test"))
    yield from trex_facts(root)
    yield from lpaqa_facts(root)


# ---- texts -----------------------------------------------------------------------------------
def wikidata_labels(root: Path) -> dict[str, str]:
    """Of Wikidata's entities, without FewRel's mentions in lower case, which are no labels."""
    rows = table(root / "wikidata_labels/qid_labels.tsv")
    return {row["qid"]: row["label"] for row in rows if row["source"] != "fewrel-surface"}


def types_of(root: Path, entities: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each entity with the name of each of its types in CoDEx."""
    types = json_of(root / "codex/entity2types.json")
    kinds = json_of(root / "codex/types_en.json")
    for entity in entities:
        for kind in types.get(entity, ()):
            if kind in kinds:
                yield entity, kinds[kind]["label"]


def codex_descriptions(root: Path) -> dict[str, str]:
    """Of CoDEx-S entities, with the first sentences of Wikipedia after them."""
    descriptions = {}
    for row in table(root / "codex/codex-s/entity_text.tsv", is_quoted=True):
        text = f"{row['description']}. {row['extract']}".strip(". ")
        if text:
            descriptions[row["qid"]] = text
    return descriptions


def freebase_descriptions(root: Path) -> dict[str, str]:
    """Of the Freebase entities that Wikidata knows."""
    rows = json_of(root / "wikidata_labels/fb_entity2wikidata.json").values()
    return {row["wikidata_id"]: row["description"] for row in rows if row["description"]}


def relation_names(root: Path) -> dict[str, str]:
    """Of CoDEx's relations, then of those that only LAMA has."""
    rows = json_of(root / "codex/relations_en.json")
    names = {name: row["label"] for name, row in rows.items()}
    for line in lines(root / "lama/relations.jsonl"):
        row = json.loads(line)
        names.setdefault(row["relation"], row["label"])
    return names
