"""The graph of this experiment: every QID that the label table names, and what is known.

Sources, all below the folder that KEPT_DATA names: `wikidata_labels` (labels, aliases, Freebase
descriptions and alternatives), `codex` (training triples of S and M, types, texts of S),
`lama/TREx` and `lama/lpaqa_TREx_train.tar.gz` (facts), `re/wiki80` and `re/fewrel` (facts). The
graph is closed: it holds the labelled QIDs and nothing else, so a fact with an end outside is left
away. The label table was in part compiled from the very benchmarks that the experiment scores (it
names every gold entity, and every candidate that ten other linkers offered): that makes the task
easier than all of Wikidata is, and the tables say so.

"Labels" that come from FewRel are lower-cased mentions, so they enter as aliases. What annotated
text says about surfaces is not in the graph; it is counted apart (`texts.count_surfaces`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from entity_linking.annotations.relations import RelationExample, read_fewrel, read_wiki80
from kept.tasks.datasets.public_files import (
    codex_descriptions,
    codex_triples,
    freebase_descriptions,
    json_of,
    lpaqa_facts,
    relation_names,
    table,
    trex_facts,
)
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport

MENTIONS_NOT_LABELS = "fewrel-surface"
WIKI80 = ("dev.txt.gz", "train_0.1.txt.gz", "train_0.01.txt.gz")


def build_graph(root: Path) -> KnowledgeGraph:
    """The graph; ten seconds."""
    return graph_from_records(
        records(root, read_labels(root)),
        sources=(
            "Wikidata labels and aliases",
            "CoDEx-S and -M train",
            "LAMA T-REx and LPAQA facts",
            "Wiki80 and FewRel facts",
        ),
        licence="CC-BY-NC-4.0 (T-REx part); CoDEx and FewRel are MIT, Wikidata CC0",
    )


def records(root: Path, labels: Mapping[str, tuple[str, str]]) -> Iterator[Record]:
    """Every record of the graph; deterministic, without entities outside `labels`."""
    for triple in dict.fromkeys(facts(root)):
        if triple.head in labels and triple.tail in labels:
            yield triple
    for entity, (label, source) in labels.items():
        kind = TextKind.ALIAS if source == MENTIONS_NOT_LABELS else TextKind.LABEL
        yield Text(entity, kind, label, "en")
    for row in table(root / "wikidata_labels/qid_aliases.tsv"):
        if row["qid"] in labels:
            yield Text(row["qid"], TextKind.ALIAS, row["alias"], "en")
    for entity, text in descriptions(root).items():
        if entity in labels:
            yield Text(entity, TextKind.DESCRIPTION, text, "en")
    yield from _types(root, labels)
    yield from _relation_labels(root)


def read_labels(root: Path) -> dict[str, tuple[str, str]]:
    """Entity to its label and where that was taken from."""
    rows = table(root / "wikidata_labels/qid_labels.tsv")
    return {row["qid"]: (row["label"], row["source"]) for row in rows}


# ---- facts -----------------------------------------------------------------
def facts(root: Path) -> Iterator[Triple]:
    """Facts of all sources, with repetitions; no validation or test triple of CoDEx."""
    yield from codex_triples(root, ("s", "m"))
    yield from trex_facts(root)
    yield from lpaqa_facts(root)
    names = {row["name"]: name for name, row in _wiki80_relations(root).items()}
    for example in relation_examples(root):
        relation = names.get(example.relation, example.relation)
        yield Triple(example.head, relation, example.tail)


def relation_examples(root: Path) -> Iterator[RelationExample]:
    """Wiki80 and FewRel rows; their sentences are annotated text too."""
    for name in WIKI80:
        yield from read_wiki80(root / "re" / "wiki80" / name, DamageReport(), distinct=True)
    path = root / "re" / "fewrel" / "val_wiki.json.gz"
    yield from read_fewrel(path, DamageReport(), distinct=True)


def _wiki80_relations(root: Path) -> dict[str, dict[str, str]]:
    """FewRel names a relation by its PID, Wiki80 by its English name."""
    rows = json_of(root / "re/fewrel/pid2name.json")
    return {name: {"name": label, "about": about} for name, (label, about) in rows.items()}


# ---- texts -----------------------------------------------------------------
def descriptions(root: Path) -> dict[str, str]:
    """Short descriptions: of CoDEx-S entities, of Freebase entities, of CoDEx types.

    Where Wikipedia's lead is at hand (CoDEx-S) it follows the description.
    """
    texts = codex_descriptions(root)
    for entity, text in freebase_descriptions(root).items():
        texts.setdefault(entity, text)
    for entity, row in _type_rows(root).items():
        if row["description"]:
            texts.setdefault(entity, row["description"])
    return texts


def _types(root: Path, known: Mapping[str, Any]) -> Iterator[Text]:
    names = _type_rows(root)
    for entity, types in json_of(root / "codex/entity2types.json").items():
        if entity in known:
            for name in types:
                if name in names and names[name]["label"]:
                    yield Text(entity, TextKind.TYPE, names[name]["label"], "en")


def _type_rows(root: Path) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = json_of(root / "codex/types_en.json")
    return rows


def _relation_labels(root: Path) -> Iterator[Text]:
    labels = {name: row["name"] for name, row in _wiki80_relations(root).items()}
    labels |= relation_names(root)
    for name, label in sorted(labels.items()):
        yield Text(name, TextKind.LABEL, label, "en", is_relation=True)


# ---- what is in it ---------------------------------------------------------
def counts(graph: KnowledgeGraph) -> dict[str, int]:
    """What the graph holds, for the report."""
    nodes, kinds = graph.entity_texts.nodes(), graph.entity_texts.kinds
    numbers = {
        "entities": graph.n_entities,
        "triples": graph.n_triples,
        "relations in triples": len({int(relation) for relation in graph.triples[:, 1]}),
        "entities with a triple": len({int(e) for e in graph.triples[:, [0, 2]].reshape(-1)}),
    }
    for kind, name in (
        (TextKind.LABEL, "labels"),
        (TextKind.ALIAS, "aliases"),
        (TextKind.DESCRIPTION, "entities with a description"),
        (TextKind.TYPE, "entities with a type"),
    ):
        rows = kinds == kind
        alone = name.startswith("entities")
        numbers[name] = len({int(n) for n in nodes[rows]}) if alone else int(rows.sum())
    return numbers


def label_sources(root: Path, entities: list[str]) -> dict[str, int]:
    """Of how many of `entities` the label came from which source; "absent" where there is none."""
    labels = read_labels(root)
    sources = Counter(labels[e][1] if e in labels else "absent" for e in entities)
    return dict(sorted(sources.items(), key=lambda item: (-item[1], item[0])))
