"""Questions that people wrote about facts of Wikidata: SimpleQuestions, mapped to Wikidata.

The graph has the facts of all questions, and those of CoDEx-M, LAMA's T-REx and LPAQA
(`experiments.popular_questions`). A question is kept if it contains its subject's label; `R50` in
the data is P50 read backwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kept.decoders.answering.relations import RelationChoice
from kept.randomness import generator
from kept.tasks.datasets.public_files import (
    every_fact,
    json_of,
    lines,
    types_of,
    wikidata_labels,
)
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
    labels = wikidata_labels(data)
    relations = {name: row[0] for name, row in json_of(data / "re/fewrel/pid2name.json").items()}
    names = json_of(data / "codex/relations_en.json")
    relations |= {name: row["label"] for name, row in names.items()}
    facts = [fact for split in SPLITS for fact, _ in _rows(data, split)]
    known = [
        fact for fact in dict.fromkeys([*facts, *every_fact(data)])
        if fact.head in labels and fact.tail in labels and fact.relation in relations
    ]  # fmt: skip
    entities = dict.fromkeys(end for fact in known for end in (fact.head, fact.tail))
    texts = [Text(entity, TextKind.LABEL, labels[entity]) for entity in entities]
    texts += [Text(entity, TextKind.TYPE, kind) for entity, kind in types_of(data, entities)]
    used = sorted({fact.relation for fact in known})
    named = [Text(name, TextKind.LABEL, relations[name], is_relation=True) for name in used]
    return graph_from_records([*known, *texts, *named])


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


def _rows(data: Path, split: str) -> Iterator[tuple[Triple, tuple[str, bool]]]:
    """Each fact with its question, and whether this asks for the head."""
    name = f"qa/simplequestions_wikidata/annotated_wd_data_{split}_answerable.txt"
    for line in lines(data / name):
        subject, relation, value, text = line.split("\t")
        is_inverse = relation.startswith("R")
        head, tail = (value, subject) if is_inverse else (subject, value)
        yield Triple(head, f"P{relation[1:]}" if is_inverse else relation, tail), (
            text.strip(), is_inverse
        )  # fmt: skip
