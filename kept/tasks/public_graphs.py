"""Graphs and linked texts made from public files, by name; all below one folder of data.

Experiments say `kg: wikidata` instead of a folder. What a graph is made of is in its sources.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from entity_linking.mentions import LinkedText
from entity_linking.relations import read_trex
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport

TYPE = "P31"
"""Instance of: joins an entity and each of its types."""


def public_graph(name: str, root: Path, around: Collection[str] | None = None) -> KnowledgeGraph:
    """The graph called `name` from the files below `root`.

    With `around`, identifiers of entities: only triples that touch one of them, and of the others
    only the names, so that the graph is as large as a task needs. ConfigError: an unknown name.
    """
    if name not in GRAPHS:
        raise ConfigError(f"there is no public graph {name!r}; there are {sorted(GRAPHS)}")
    triples, sources, licence = GRAPHS[name](root)
    if around is not None:
        inside = frozenset(around)
        triples = [t for t in triples if t.head in inside or t.tail in inside]
    entities = dict.fromkeys([*(around or ()), *(e for t in triples for e in (t.head, t.tail))])
    relations = dict.fromkeys(t.relation for t in triples)
    texts = [
        text for text in _texts(root) if text.node in (relations if text.is_relation else entities)
    ]
    return graph_from_records([*triples, *texts], sources=sources, licence=licence)


def public_texts(name: str, root: Path) -> list[LinkedText]:
    """Linked texts called `name`, each once, in the order of the files."""
    if name not in TEXTS:
        raise ConfigError(f"there are no public texts {name!r}; there are {sorted(TEXTS)}")
    return TEXTS[name](root)


# ---- triples ---------------------------------------------------------------------------------
def _wikidata(root: Path) -> tuple[list[Triple], Sequence[str], str]:
    """Everything here that joins Wikidata's entities: CoDEx, T-REx, LPAQA, types."""
    parts = (_codex(root, ("s", "m")), _facts(root), _lpaqa(root), _types(root))
    triples = list(dict.fromkeys(triple for part in parts for triple in part))
    sources = ("CoDEx-S and CoDEx-M", "LAMA T-REx facts", "LPAQA training facts", "CoDEx types")
    return triples, sources, "CC BY-NC 4.0 (T-REx part); CoDEx is MIT, Wikidata CC0"


def _codex_s(root: Path) -> tuple[list[Triple], Sequence[str], str]:
    """CoDEx-S, its training triples alone."""
    triples = list(_codex(root, ("s",), ("train",)))
    return triples, ("CoDEx-S train",), "MIT; Wikidata CC0"


def _codex(
    root: Path, sizes: Sequence[str], splits: Sequence[str] = ("train", "valid", "test")
) -> Iterator[Triple]:
    for size in sizes:
        for split in splits:
            for line in _lines(root / f"codex/codex-{size}/{split}.txt"):
                yield Triple(*line.split("\t"))


def _facts(root: Path) -> Iterator[Triple]:
    for path in sorted((root / "lama/TREx").glob("P*.jsonl.gz")):
        for line in _lines(path.with_suffix("")):
            row = json.loads(line)
            yield Triple(row["sub_uri"], row["predicate_id"], row["obj_uri"])


def _lpaqa(root: Path) -> Iterator[Triple]:
    with tarfile.open(root / "lama/lpaqa_TREx_train.tar.gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member)
            if file is None or not member.name.endswith(".jsonl"):
                continue
            for line in io.TextIOWrapper(file, encoding="utf-8", newline="\n"):
                row = json.loads(line)
                yield Triple(row["sub_uri"], Path(member.name).stem, row["obj_uri"])


def _types(root: Path) -> Iterator[Triple]:
    rows = json.loads(gzip.decompress((root / "codex/entity2types.json.gz").read_bytes()))
    for entity, types in rows.items():
        for each in types:
            yield Triple(entity, TYPE, each)


GRAPHS: dict[str, Callable[[Path], tuple[list[Triple], Sequence[str], str]]] = {
    "wikidata": _wikidata,
    "codex-s": _codex_s,
}


# ---- labels, aliases, descriptions -----------------------------------------------------------
def _texts(root: Path) -> Iterator[Text]:
    labels = {row["qid"]: row["label"] for row in _rows(root / "wikidata_labels/qid_labels.tsv")}
    types = json.loads(gzip.decompress((root / "codex/types_en.json.gz").read_bytes()))
    for qid, row in types.items():
        labels.setdefault(qid, row["label"])
    for qid, label in labels.items():
        if label:
            yield Text(qid, TextKind.LABEL, label, "en")
    for row in _rows(root / "wikidata_labels/qid_aliases.tsv"):
        yield Text(row["qid"], TextKind.ALIAS, row["alias"], "en")
    for qid, description in _descriptions(root).items():
        yield Text(qid, TextKind.DESCRIPTION, description, "en")
    relations = json.loads((root / "codex/relations_en.json").read_text(encoding="utf-8"))
    names = {name: row["label"] for name, row in relations.items()}
    for line in _lines(root / "lama/relations.jsonl"):
        row = json.loads(line)
        names.setdefault(row["relation"], row["label"])
    for name, label in ({TYPE: "instance of"} | names).items():
        yield Text(name, TextKind.LABEL, label, "en", is_relation=True)


def _descriptions(root: Path) -> dict[str, str]:
    freebase = root / "wikidata_labels/fb_entity2wikidata.json.gz"
    found = {
        row["wikidata_id"]: row["description"]
        for row in json.loads(gzip.decompress(freebase.read_bytes())).values()
        if row["description"]
    }
    path = root / "codex/codex-s/entity_text.tsv"
    for row in _rows(path, is_quoted=True):
        text = f"{row['description']}. {row['extract']}".strip(". ")
        if text:
            found[row["qid"]] = text
    return found


def _trex_texts(root: Path) -> list[LinkedText]:
    """Evidence sentences of T-REx; one that states several facts has the links of the first."""
    found: dict[str, LinkedText] = {}
    for path in sorted((root / "lama/TREx").glob("P*.jsonl.gz")):
        for example in read_trex(path, DamageReport(), distinct=True):
            found.setdefault(example.linked.text, example.linked)
    return list(found.values())


TEXTS: dict[str, Callable[[Path], list[LinkedText]]] = {"trex": _trex_texts}


class _Unquoted(csv.excel_tab):
    quoting = csv.QUOTE_NONE


# ---- files, gzipped or not -------------------------------------------------------------------
def _bytes(path: Path) -> bytes:
    packed = path.with_name(path.name + ".gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()


def _lines(path: Path) -> Iterator[str]:
    yield from (line for line in _bytes(path).decode().split("\n") if line)


def _rows(path: Path, *, is_quoted: bool = False) -> Iterator[dict[str, str]]:
    lines = io.StringIO(_bytes(path).decode(), newline="")
    dialect = csv.excel_tab if is_quoted else _Unquoted
    yield from csv.DictReader(lines, dialect=dialect)
