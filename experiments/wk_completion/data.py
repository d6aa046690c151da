"""The world of this experiment: T-REx sentences, and a graph of T-REx and CoDEx triples.

Sources, all below the folder that KEPT_DATA names: `lama/TREx` (facts and evidence sentences),
`codex/codex-{s,m}` (training triples only), `wikidata_labels` (labels), descriptions of CoDEx-S and
of the Freebase entities that Wikidata knows. The inductive heads are those that have a description
(DKRL needs one) and that no fact has as its tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from entity_linking.annotations.relations import RelationExample, read_trex
from kept.tasks.datasets.public_files import (
    codex_descriptions,
    codex_triples,
    freebase_descriptions,
    relation_names,
    table,
)
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport


@dataclass(frozen=True)
class RelationData:
    """Examples, the graph that holds all their facts, and heads that may be held out."""

    examples: tuple[RelationExample, ...]
    graph: KnowledgeGraph
    inductive_heads: tuple[str, ...]
    report: DamageReport


def read_world(root: Path, codex: tuple[str, ...] = ("s", "m")) -> RelationData:
    """Read everything; a few seconds. `codex`: sizes of CoDEx whose triples join the facts."""
    report = DamageReport()
    examples = tuple(
        example
        for file in sorted((root / "lama" / "TREx").glob("P*.jsonl.gz"))
        for example in read_trex(file, report, distinct=True)
    )
    triples = list(dict.fromkeys([*_facts(examples), *codex_triples(root, codex)]))
    descriptions = freebase_descriptions(root) | codex_descriptions(root)
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
    return RelationData(examples, graph, inductive, report)


def _facts(examples: tuple[RelationExample, ...]) -> Iterator[Triple]:
    for example in examples:
        yield Triple(example.head, example.relation, example.tail)


def _texts(
    root: Path,
    entities: dict[str, None],
    relations: dict[str, None],
    descriptions: dict[str, str],
) -> Iterator[Record]:
    for row in table(root / "wikidata_labels/qid_labels.tsv"):
        if row["qid"] in entities:
            yield Text(row["qid"], TextKind.LABEL, row["label"], "en")
    for entity, text in descriptions.items():
        if entity in entities:
            yield Text(entity, TextKind.DESCRIPTION, text, "en")
    for name, label in sorted(relation_names(root).items()):
        if name in relations:
            yield Text(name, TextKind.LABEL, label, "en", is_relation=True)
