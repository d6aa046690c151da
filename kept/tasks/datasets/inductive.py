"""Public data for inductive completion: GraIL's splits with names and glosses, and CoDEx-S.

Folders are below the one that KEPT_DATA names; texts are those of KG-BERT's release (WN18RR,
FB15k-237) and of CascadER's (CoDEx-S).
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kept.kge.inductive import InductiveSplit, split_unseen, two_graphs
from kept.kge.splits import SPLITS, Splits
from kept.tasks.datasets.public_files import content, table
from kg_loaders import (
    KnowledgeGraph,
    Record,
    SourceError,
    Text,
    TextKind,
    Triple,
    graph_from_records,
)

GRAIL = Path("kgc/grail_inductive/grail_wn18rr_fb237.tar.gz")
VERSIONS = tuple(f"{name}_v{number}" for name in ("WN18RR", "fb237") for number in (1, 2, 3, 4))


def read_grail(root: Path, name: str) -> InductiveSplit:
    """One of GraIL's eight splits (Teru et al. 2020), with texts; raises `SourceError`."""
    if name not in VERSIONS:
        raise SourceError(f"split {name!r} is none of {', '.join(VERSIONS)}")
    parts: dict[str, list[Triple]] = {}
    with tarfile.open(root / GRAIL) as archive:
        for folder in (name, f"{name}_ind"):
            for split in SPLITS:
                member = archive.extractfile(f"{folder}/{split}.txt")
                if member is None:
                    raise SourceError(f"{root / GRAIL}: {folder}/{split}.txt is not a file")
                source = f"{GRAIL.name}/{folder}/{split}.txt"
                parts[f"{folder}/{split}"] = list(_triples(member.read().decode(), source))
    texts = _wordnet_texts(root) if name.startswith("WN") else _freebase_texts(root)
    triples = [triple for rows in parts.values() for triple in rows]
    graph = _graph(triples, texts, source=f"GraIL {name}")
    return two_graphs(
        _splits(graph, [parts[f"{name}/{split}"] for split in SPLITS]),
        _splits(graph, [parts[f"{name}_ind/{split}"] for split in SPLITS]),
        graph,
    )


def read_codex_unseen(
    root: Path, *, valid_share: float, test_share: float, context_share: float, seed: int
) -> InductiveSplit:
    """CoDEx-S by unseen entities (`split_unseen`), with names and short descriptions."""
    folder = root / "codex" / "codex-s"
    parts = []
    for file in ("train.txt", "valid.txt", "test.txt"):
        parts.append(list(_triples(content(folder / file), str(folder / file))))
    triples = [triple for rows in parts for triple in rows]
    graph = _graph(triples, _codex_texts(folder), source="CoDEx-S")
    return split_unseen(
        _splits(graph, parts),
        valid_share=valid_share,
        test_share=test_share,
        context_share=context_share,
        seed=seed,
    )


def training_graph(split: InductiveSplit) -> KnowledgeGraph:
    """A graph of the training triples alone: no name and no text of an unseen entity is in it."""
    whole, ids = split.graph, split.train.entities
    names = [whole.entities.name(int(i)) for i in ids]
    records: list[Record] = [
        Triple(names[h], whole.relations.name(r), names[t])
        for h, r, t in split.train.context.tolist()
    ]
    for row, name in zip(ids.tolist(), names, strict=True):
        records.append(Text(name, TextKind.LABEL, whole.label(row), "en"))
        description = whole.description(row)
        if description is not None:
            records.append(Text(name, TextKind.DESCRIPTION, description, "en"))
    for relation in range(whole.n_relations):
        name, label = whole.relations.name(relation), whole.relation_label(relation)
        records.append(Text(name, TextKind.LABEL, label, "en", is_relation=True))
    return graph_from_records(records, sources=("training triples of an inductive split",))


def _triples(text: str, source: str) -> Iterator[Triple]:
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.rstrip("\r").split("\t")
        if len(fields) == 3 and all(fields):
            yield Triple(*fields)
        elif line.strip():
            raise SourceError(f"{source}, line {number}: {line!r} is not head, relation, tail")


def _splits(graph: KnowledgeGraph, parts: list[list[Triple]]) -> Splits:
    entities = {name: i for i, name in enumerate(graph.entities)}
    relations = {name: i for i, name in enumerate(graph.relations)}
    train, valid, test = (
        np.array(
            [(entities[t.head], relations[t.relation], entities[t.tail]) for t in rows], np.int32
        ).reshape(-1, 3)
        for rows in parts
    )
    return Splits(graph, train, valid, test)


def _graph(triples: list[Triple], texts: Iterator[Text], *, source: str) -> KnowledgeGraph:
    """Texts of names that no triple has are left out."""
    names = {name for triple in triples for name in triple}
    return graph_from_records(
        [*triples, *(text for text in texts if text.node in names)], sources=(source,)
    )


def _wordnet_texts(root: Path) -> Iterator[Text]:
    folder = root / "kgc" / "wn18rr"
    for name, text in _rows(folder / "entity2text.txt"):
        lemma, _, gloss = text.partition(", ")
        yield Text(name, TextKind.LABEL, lemma, "en")
        if gloss:
            yield Text(name, TextKind.DESCRIPTION, gloss, "en")
    yield from _relations(folder)


def _freebase_texts(root: Path) -> Iterator[Text]:
    folder = root / "kgc" / "fb15k237"
    for name, text in _rows(folder / "entity2text.txt"):
        yield Text(name, TextKind.LABEL, text, "en")
    yield from _relations(folder)


def _relations(folder: Path) -> Iterator[Text]:
    for name, text in _rows(folder / "relation2text.txt"):
        yield Text(name, TextKind.LABEL, text, "en", is_relation=True)


def _codex_texts(folder: Path) -> Iterator[Text]:
    for row in table(folder / "entity_text.tsv", is_quoted=True):
        yield Text(row["qid"], TextKind.LABEL, row["name"], "en")
        if row["description"]:
            yield Text(row["qid"], TextKind.DESCRIPTION, row["description"], "en")
    for row in table(folder / "relation_text.tsv", is_quoted=True):
        yield Text(row["qid"], TextKind.LABEL, row["name"], "en", is_relation=True)


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(content(path).split("\n"), start=1):
        name, tab, value = line.rstrip("\r").partition("\t")
        if tab and value.strip():
            yield name, value
        elif line.strip() and not tab:
            raise SourceError(f"{path}, line {number}: {line!r} has no text after a TAB")
