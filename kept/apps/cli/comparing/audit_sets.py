"""Files as sets that `kept.evaluation.audit` reads: triples, tasks, cloze questions, plain text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from entity_linking.annotations import read_jsonl, read_rows
from kept.evaluation.audit import AuditPart
from kept.evaluation.fact_lookup import Fact
from kept.evaluation.leakage import Text
from kept.kge.splits import read_splits
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.suggestions import no_such
from kept.tasks.datasets.formats import FORMATS, TaskExample, read_examples
from kg_loaders import KnowledgeGraph, SourceError
from kg_loaders.damage import DamageReport
from kg_loaders.formats import tsv
from kg_loaders.reading.lines import read_lines
from kg_loaders.records import Triple

MASK = "[MASK]"
DATA_SETS = ("codex", "kgc")
"""Folders below KEPT_DATA that hold data sets of triples."""


class _Evidence(msgspec.Struct):
    masked_sentence: str | None = None
    obj_surface: str | None = None
    snippet: str | None = None
    considered_sentences: list[str] | None = None


class _Question(msgspec.Struct):
    """`sub_uri` and `obj_uri` of T-REx, `sub_w` (Wikidata) and `sub` (Freebase) of Google-RE."""

    sub_label: str
    obj_label: str
    sub_uri: str | None = None
    obj_uri: str | None = None
    sub_w: str | None = None
    obj_w: str | None = None
    sub: str | None = None
    obj: str | None = None
    predicate_id: str | None = None
    pred: str | None = None
    evidences: list[_Evidence] | None = None
    masked_sentences: list[str] | None = None

    @property
    def fact(self) -> Fact:
        head, tail = self.sub_uri or self.sub_w or self.sub, self.obj_uri or self.obj_w or self.obj
        return head or "", self.predicate_id or self.pred or "", tail or ""


def triples_part(name: str, path: Path) -> AuditPart:
    """A file of triples, one per line."""
    rows = tsv.read(path, DamageReport())
    facts = [(row.head, row.relation, row.tail) for row in rows if isinstance(row, Triple)]
    return AuditPart(name, "triples", facts=facts, names=[(head, tail) for head, _, tail in facts])


def other_data_set(name: str) -> tuple[str, KnowledgeGraph]:
    """The last part of the name, and the training triples of that data set as a graph.

    `name` is a folder with train, valid and test, or the name of one below KEPT_DATA (as codex-m).
    SourceError: it is neither.
    """
    folder, root = Path(name), os.environ.get("KEPT_DATA")
    if not folder.is_dir() and root is not None:
        folders = [Path(root) / above / name for above in DATA_SETS]
        folder = next((one for one in folders if one.is_dir()), folder)
    if not folder.is_dir():
        where = f"{' or '.join(DATA_SETS)} below {root}" if root else "KEPT_DATA, which is not set"
        raise SourceError(
            f"{name} does not exist: it is neither a folder nor a data set of {where}"
        )
    splits = read_splits(folder, holdout=0.05, seed=0)
    return folder.name, splits.graph.with_triples(splits.train, note="training triples alone")


def task_part(name: str, path: Path, format: str) -> AuditPart:
    """A set of a task; raises `ConfigError` where `format` is not one of its formats."""
    if format not in FORMATS:
        raise no_such("format", format, FORMATS)
    return of_examples(name, read_examples(path, format))


def of_examples(name: str, examples: Iterable[TaskExample]) -> AuditPart:
    """Texts, and a fact for each label of an example; one without labels states none.

    Head and tail are the pair of entities, their names the two targets; a task without pairs has
    none.
    """
    rows = list(examples)
    stated = [(example, label) for example in rows for label in _fact_labels(example)]
    return AuditPart(
        name,
        "task",
        facts=[(e.pair[0], label, e.pair[1]) if e.pair else ("", label, "") for e, label in stated],
        names=[_target_names(example) for example, _ in stated],
        texts=[e.linked.text for e in rows],
    )


def _fact_labels(example: TaskExample) -> Sequence[str]:
    """The labels, or a single one for all where they are not a relation of two entities."""
    return example.labels if example.pair or len(example.targets) == 2 else example.labels[:1]


def _target_names(example: TaskExample) -> tuple[str, str]:
    if len(example.targets) != 2:
        return "", ""
    head, tail = (example.linked.text[t.start : t.end] for t in example.targets)
    return head, tail


def cloze_part(name: str, path: Path) -> AuditPart:
    """JSON lines in LAMA's form: `sub_label`, `obj_label`, perhaps their identifiers, sentences.

    `evidences` with a `masked_sentence` are sentences of their own, with the answer as it stood
    there. `masked_sentences` are the parts of one; an evidence's `snippet` (Google-RE) is the
    passage around it, so that these are forms of one text.
    """
    rows = list(read_rows(path, DamageReport(), _Question, _only))
    return AuditPart(
        name,
        "cloze",
        facts=[row.fact for row in rows],
        names=[(row.sub_label, row.obj_label) for row in rows],
        texts=[text for row in rows for text in _sentences(row)],
        questions=[(row.sub_label, row.obj_label) for row in rows],
    )


def of_items(name: str, items: Iterable[ClozeItem]) -> AuditPart:
    """The questions of a probe, their sentences with the answer in the hole."""
    rows = list(items)
    facts = dict.fromkeys(
        (item.fact or ("", item.relation, ""), (item.subject, item.answer)) for item in rows
    )
    return AuditPart(
        name,
        "cloze",
        facts=[fact for fact, _ in facts],
        names=[names for _, names in facts],
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


def _sentences(row: _Question) -> Iterator[Text]:
    """Every sentence of a question, "" for an evidence, or a question, that has none."""
    forms, n_sentences = [" ".join(row.masked_sentences or ()).replace(MASK, row.obj_label)], 0
    for evidence in row.evidences or ():
        passage = [evidence.snippet or "", *(evidence.considered_sentences or ())]
        if evidence.masked_sentence or not any(passage):
            answer = evidence.obj_surface or row.obj_label
            yield (evidence.masked_sentence or "").replace(MASK, answer)
            n_sentences += 1
        forms += passage
    if any(forms) or not n_sentences:
        yield tuple(filter(None, forms)) or ""
