"""Questions that people wrote about facts of Wikidata: SimpleQuestions, mapped to Wikidata.

The graph has the facts of all questions, and those of CoDEx-M, LAMA's T-REx and LPAQA
(`experiments.popular_questions`). A question is kept if it contains its subject's label; `R50` in
the data is P50 read backwards.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.popular_questions.questions import facts_of_sources
from kept.decoders.answering.relations import RelationChoice
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class RealQuestion:
    """A question, its entity with the words that name it, and the relation that it asks about."""

    text: str
    surface: str
    entity: int
    choice: RelationChoice


def simple_graph(data: Path) -> KnowledgeGraph:
    """Return the graph of the facts whose ends have labels, with types."""
    labels = _labels(data)
    names = json.loads((data / "codex/relations_en.json").read_text(encoding="utf-8"))
    relations = {name: row["label"] for name, row in names.items()}
    others = json.loads((data / "re/fewrel/pid2name.json").read_text(encoding="utf-8"))
    relations = {name: row[0] for name, row in others.items()} | relations
    facts = [fact for split in SPLITS for fact, _ in _rows(data, split)]
    facts += facts_of_sources(data)
    known = [
        (head, relation, tail) for head, relation, tail in dict.fromkeys(facts)
        if head in labels and tail in labels and relation in relations
    ]  # fmt: skip
    entities = dict.fromkeys(end for head, _, tail in known for end in (head, tail))
    types = json.loads(gzip.decompress((data / "codex/entity2types.json.gz").read_bytes()))
    kinds = json.loads(gzip.decompress((data / "codex/types_en.json.gz").read_bytes()))
    texts = [Text(entity, TextKind.LABEL, labels[entity]) for entity in entities]
    texts += [
        Text(entity, TextKind.TYPE, kinds[kind]["label"])
        for entity in entities for kind in types.get(entity, ()) if kind in kinds
    ]  # fmt: skip
    used = sorted({relation for _, relation, _ in known})
    named = [Text(name, TextKind.LABEL, relations[name], is_relation=True) for name in used]
    return graph_from_records([*(Triple(*fact) for fact in known), *texts, *named])


def simple_questions(
    graph: KnowledgeGraph, data: Path, split: str, most: int
) -> list[RealQuestion]:
    """Return questions of a split in a drawn order, at most `most` about each property."""
    rows = list(_rows(data, split))
    counts, questions = Counter[tuple[str, bool]](), list[RealQuestion]()
    for i in generator(0, "simple questions").permutation(len(rows)).tolist():
        (head, relation, tail), (text, is_inverse) = rows[i]
        number = graph.relations.find(relation)
        entity = graph.entities.find(tail if is_inverse else head)
        if number is None or entity is None or counts[relation, is_inverse] >= most:
            continue
        label = graph.label(entity)
        start = text.lower().find(label.lower())
        if start >= 0:
            counts[relation, is_inverse] += 1
            surface = text[start : start + len(label)]
            questions.append(
                RealQuestion(text, surface, entity, RelationChoice(number, is_inverse))
            )
    return questions


def _rows(data: Path, split: str) -> Iterator[tuple[tuple[str, str, str], tuple[str, bool]]]:
    """Each fact with its question, and whether this asks for the head."""
    name = f"qa/simplequestions_wikidata/annotated_wd_data_{split}_answerable.txt.gz"
    with gzip.open(data / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            subject, relation, value, text = line.rstrip("\n").split("\t")
            is_inverse = relation.startswith("R")
            fact = (value, f"P{relation[1:]}", subject) if is_inverse else (
                subject, relation, value
            )  # fmt: skip
            yield fact, (text.strip(), is_inverse)


def _labels(data: Path) -> dict[str, str]:
    path = data / "wikidata_labels/qid_labels.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row[0]: row[1] for row in rows if row[2] != "fewrel-surface"}
