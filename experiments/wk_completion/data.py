"""The world of this experiment: T-REx sentences, and a graph of T-REx and CoDEx triples.

Sources, all below the folder that KEPT_DATA names: `lama/TREx` (facts and evidence sentences),
`codex/codex-{s,m}` (training triples only), `wikidata_labels` (labels), descriptions of CoDEx-S and
of the Freebase entities that Wikidata knows. The inductive heads are those that have a description
(DKRL needs one) and that no fact has as its tail.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from entity_linking.relations import RelationExample, read_trex
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport


@dataclass(frozen=True)
class World:
    """Examples, the graph that holds all their facts, and heads that may be held out."""

    examples: tuple[RelationExample, ...]
    graph: KnowledgeGraph
    inductive_heads: tuple[str, ...]
    report: DamageReport


def read_world(root: Path, codex: tuple[str, ...] = ("s", "m")) -> World:
    """Read everything; a few seconds. `codex`: sizes of CoDEx whose triples join the facts."""
    report = DamageReport()
    examples = tuple(
        example
        for file in sorted((root / "lama" / "TREx").glob("P*.jsonl.gz"))
        for example in read_trex(file, report, distinct=True)
    )
    triples = list(dict.fromkeys([*_facts(examples), *_codex(root, codex)]))
    descriptions = dict(_descriptions(root))
    entities = {name: None for h, _, t in triples for name in (h, t)}
    relations = {triple.relation: None for triple in triples}
    graph = graph_from_records(
        [*triples, *_texts(root, entities, relations, descriptions)],
        sources=("LAMA T-REx facts", *(f"CoDEx-{size.upper()} train" for size in codex)),
        licence="CC-BY-NC-4.0 (T-REx part); CoDEx is MIT, Wikidata CC0",
    )
    tails = {triple.tail for triple in triples}
    heads = dict.fromkeys(e.head for e in examples)
    inductive = tuple(head for head in heads if head in descriptions and head not in tails)
    return World(examples, graph, inductive, report)


def _facts(examples: tuple[RelationExample, ...]) -> Iterator[Triple]:
    for example in examples:
        yield Triple(example.head, example.relation, example.tail)


def _codex(root: Path, sizes: tuple[str, ...]) -> Iterator[Triple]:
    for size in sizes:
        with gzip.open(root / f"codex/codex-{size}/train.txt.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                yield Triple(*line.rstrip("\n").split("\t"))


def _descriptions(root: Path) -> Iterator[tuple[str, str]]:
    freebase = root / "wikidata_labels" / "fb_entity2wikidata.json.gz"
    for row in json.loads(gzip.decompress(freebase.read_bytes())).values():
        if row["description"]:
            yield row["wikidata_id"], row["description"]
    for row in _rows(root / "codex/codex-s/entity_text.tsv.gz"):
        text = f"{row['description']}. {row['extract']}".strip(". ")
        if text:
            yield row["qid"], text


def _texts(
    root: Path,
    entities: dict[str, None],
    relations: dict[str, None],
    descriptions: dict[str, str],
) -> Iterator[Record]:
    for row in _rows(root / "wikidata_labels" / "qid_labels.tsv.gz"):
        if row["qid"] in entities:
            yield Text(row["qid"], TextKind.LABEL, row["label"], "en")
    for entity, text in descriptions.items():
        if entity in entities:
            yield Text(entity, TextKind.DESCRIPTION, text, "en")
    rows = json.loads((root / "codex" / "relations_en.json").read_text(encoding="utf-8"))
    labels = {name: row["label"] for name, row in rows.items()}
    for line in (root / "lama" / "relations.jsonl").read_text(encoding="utf-8").split("\n"):
        if line:
            row = json.loads(line)
            labels.setdefault(row["relation"], row["label"])
    for name, label in sorted(labels.items()):
        if name in relations:
            yield Text(name, TextKind.LABEL, label, "en", is_relation=True)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        quoting = csv.QUOTE_MINIMAL if path.name == "entity_text.tsv.gz" else csv.QUOTE_NONE
        yield from csv.DictReader(lines, delimiter="\t", quoting=quoting)
