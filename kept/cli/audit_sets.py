"""Files as sets that `kept.evaluation.audit` reads: triples, tasks, cloze questions, plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from entity_linking.annotations import read_jsonl, read_rows
from kept.datasets.formats import FORMATS, TaskExample, read_examples
from kept.errors import ConfigError
from kept.evaluation.audit import AuditPart, Fact
from kept.probing.items import HOLE, ClozeItem
from kg_loaders import tsv
from kg_loaders.damage import DamageReport
from kg_loaders.lines import read_lines

MASK = "[MASK]"


class _Evidence(msgspec.Struct):
    masked_sentence: str = ""
    obj_surface: str = ""


class _Question(msgspec.Struct):
    sub_label: str
    obj_label: str
    sub_uri: str = ""
    obj_uri: str = ""
    predicate_id: str = ""
    evidences: list[_Evidence] = []
    masked_sentences: list[str] = []


def triples_part(name: str, path: Path) -> AuditPart:
    """A file of triples, one a line."""
    facts = [(row.head, row.relation, row.tail) for row in tsv.read(path, DamageReport())]
    return AuditPart(name, "triples", facts=facts)


def task_part(name: str, path: Path, format: str) -> AuditPart:
    """A set of a task in one of its formats; raises `ConfigError` for one that is none."""
    if format not in FORMATS:
        raise ConfigError(f"there is no format {format!r}; there are {', '.join(FORMATS)}")
    return of_examples(name, read_examples(path, format))


def of_examples(name: str, examples: Iterable[TaskExample]) -> AuditPart:
    """Texts, and a fact for each example with a pair of entities and one label."""
    rows = list(examples)
    facts = [(e.pair[0], e.labels[0], e.pair[1]) for e in rows if e.pair and len(e.labels) == 1]
    return AuditPart(name, "task", facts=facts, texts=[e.linked.text for e in rows])


def cloze_part(name: str, path: Path) -> AuditPart:
    """JSON lines in LAMA's form: `sub_label`, `obj_label`, perhaps their identifiers, sentences.

    `evidences` are sentences of their own, with the answer as it stood there; `masked_sentences`
    are the parts of one.
    """
    rows = list(read_rows(path, DamageReport(), _Question, _only))
    facts = [
        (row.sub_uri, row.predicate_id, row.obj_uri)
        for row in rows
        if row.sub_uri and row.predicate_id and row.obj_uri
    ]
    return AuditPart(
        name,
        "cloze",
        facts=facts,
        texts=[text for row in rows for text in _sentences(row)],
        questions=[(row.sub_label, row.obj_label) for row in rows],
    )


def of_items(name: str, items: Iterable[ClozeItem]) -> AuditPart:
    """The questions of a probe, their sentences with the answer in the hole."""
    rows = list(items)
    facts: list[Fact] = list(dict.fromkeys(item.fact for item in rows if item.fact))
    return AuditPart(
        name,
        "cloze",
        facts=facts,
        texts=[item.linked.text.replace(HOLE, item.answer) for item in rows],
        questions=[(item.subject, item.answer) for item in rows],
    )


def read_training_text(path: Path) -> Iterator[str]:
    """Texts of JSON lines as `kept link -o` writes them, of any other file its lines."""
    if ".jsonl" in path.suffixes:
        yield from (linked.text for linked in read_jsonl(path, DamageReport()))
        return
    for _, _, line in read_lines(path, DamageReport()):
        if line.strip():
            yield line.decode()


def _only(row: _Question) -> _Question:
    return row


def _sentences(row: _Question) -> Iterator[str]:
    for evidence in row.evidences:
        yield evidence.masked_sentence.replace(MASK, evidence.obj_surface or row.obj_label)
    if row.masked_sentences:
        yield " ".join(row.masked_sentences).replace(MASK, row.obj_label)
