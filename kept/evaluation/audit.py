"""The whole audit: every leak check over a graph, training text, and test sets.

Axis legend: triple.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kept.csv_text import csv_text
from kept.errors import ConfigError
from kept.evaluation.fact_lookup import Fact
from kept.evaluation.leakage import (
    CODES,
    LeakCheck,
    Text,
    answers_in_subjects,
    audit_table,
    facts_in_graph,
    forms_of,
    repeated_pairs,
    repeated_texts,
    sentences_in_training,
    shared_triples,
)
from kept.suggestions import no_such
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

TRAIN = "train"
Kind = Literal["triples", "task", "cloze"]


@dataclass(frozen=True)
class AuditPart:
    """One set of a data set: "train" is given to the model, others are evaluated on.

    `facts` by identifiers, "" where there is none, a relation also by its label; in a task many
    sentences may share one. `names` are those of head and tail of each fact, for graphs without
    these identifiers. Of `texts` an item without one is "". `questions` are pairs of subject and
    answer.
    """

    name: str
    kind: Kind
    facts: Sequence[Fact] = ()
    names: Sequence[tuple[str, str]] = ()
    texts: Sequence[Text] = ()
    questions: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if self.names and len(self.names) != len(self.facts):
            raise ConfigError(f"{len(self.names)} pairs of names for {len(self.facts)} facts")

    @property
    def is_tested(self) -> bool:
        return self.name != TRAIN

    @property
    def all_names(self) -> list[tuple[str, str]]:
        """One pair for each fact."""
        return list(self.names) or [("", "")] * len(self.facts)

    @property
    def whole_texts(self) -> list[str]:
        """The texts that are present, each in its first form."""
        return [forms[0] for text in self.texts if (forms := forms_of(text))]


def audit(
    parts: Sequence[AuditPart],
    *,
    graph: KnowledgeGraph | None = None,
    training_texts: Iterable[str] = (),
    against: Mapping[str, KnowledgeGraph] | None = None,
) -> list[LeakCheck]:
    """Return the results of every check that the arguments allow, in a fixed order.

    Parts of triples, or of a task, that have the same name are one set. `graph` is what the model
    reads or learns from; without one, training triples take its place. Texts of the set "train" are
    training text as well as `training_texts`. `against` are training triples of other data sets, by
    name: whoever learned from them has seen what they hold. Items that a check could not decide
    have a row of their own (`leakage.UNCHECKED`) after it. Raises `ConfigError` when there is
    nothing to check.
    """
    parts = _sets(parts)
    graph_known = _graph_of(parts) if graph is None else graph
    tested = [part for part in parts if part.is_tested]
    checks: list[LeakCheck] = []
    if graph_known is not None:
        for part in tested:
            if part.facts:
                checks += _in_graph(part, graph_known, same_ids=graph is None)
    for name, other in (against or {}).items():
        for part in tested:
            for check in _in_graph(part, other, same_ids=False) if part.facts else ():
                checks.append(dataclasses.replace(check, part=f"{part.name} against {name}"))
    trained = [part.whole_texts for part in parts if not part.is_tested]
    texts = list(chain(chain.from_iterable(trained), training_texts))
    for part in tested:
        if part.texts and texts:
            checks += _of_texts(part, texts)
        if part.questions:
            checks += _of_questions(part)
    checks += _across(parts)
    if not checks:
        raise ConfigError(
            "there is nothing to check: give a test set (--test, or --triples test=FILE), and "
            "what it is compared with: a graph (--kg), training text (--text) or a training set "
            "(--train)"
        )
    return checks


def _sets(parts: Sequence[AuditPart]) -> list[AuditPart]:
    """Join parts of one name and kind, except files of cloze questions."""
    sets: dict[tuple[object, ...], AuditPart] = {}
    for number, part in enumerate(parts):
        key = (part.kind, part.name, number if part.kind == "cloze" else None)
        one = sets.get(key)
        sets[key] = part if one is None else _merge_parts(one, part)
    return list(sets.values())


def _merge_parts(one: AuditPart, other: AuditPart) -> AuditPart:
    return dataclasses.replace(
        one,
        facts=[*one.facts, *other.facts],
        names=[*one.all_names, *other.all_names],
        texts=[*one.texts, *other.texts],
        questions=[*one.questions, *other.questions],
    )


def _graph_of(parts: Sequence[AuditPart]) -> KnowledgeGraph | None:
    rows = [p.facts for p in parts if p.kind == "triples" and not p.is_tested]
    if not rows:
        return None
    return graph_from_records([Triple(*fact) for fact in chain.from_iterable(rows)])


def _in_graph(part: AuditPart, graph: KnowledgeGraph, *, same_ids: bool) -> Iterator[LeakCheck]:
    same_ids &= part.kind == "triples"
    for check in facts_in_graph(part.facts, part.names, graph, same_ids=same_ids):
        yield dataclasses.replace(check, part=part.name)


def _of_texts(part: AuditPart, training: Sequence[str]) -> Iterator[LeakCheck]:
    check = sentences_in_training(part.texts, training)
    yield dataclasses.replace(check, part=part.name)
    yield from _unchecked(part, "text-not-checked", len(part.texts), check)


def _of_questions(part: AuditPart) -> Iterator[LeakCheck]:
    check = answers_in_subjects(part.questions)
    yield dataclasses.replace(check, part=part.name)
    yield from _unchecked(part, "question-not-checked", len(part.questions), check)


def _unchecked(part: AuditPart, code: str, n_items: int, check: LeakCheck) -> Iterator[LeakCheck]:
    """Return the items of a set that a check did not see."""
    if n_left := n_items - check.n_checked:
        yield LeakCheck(CODES[code], n_items, n_left, part=part.name)


def fact_ids(facts: Sequence[Fact], graph: KnowledgeGraph) -> NDArray[np.int32]:
    """`[triple 3]`, -1 where the graph does not know a name; relations also by their labels."""
    if not facts:
        return np.zeros((0, 3), np.int32)
    heads, relations, tails = zip(*facts, strict=True)
    by_label: dict[str, int] = {}
    for relation in range(graph.n_relations):
        by_label.setdefault(graph.relation_label(relation).casefold(), relation)
    names = {name: by_label.get(name.casefold(), -1) for name in dict.fromkeys(relations)}
    ids = graph.relations.ids(list(relations))
    labelled = np.array([names[name] for name in relations], np.int32)
    columns = (graph.entities.ids(list(heads)), np.where(ids < 0, labelled, ids))
    return np.stack([*columns, graph.entities.ids(list(tails))], axis=1).astype(np.int32)


def _across(parts: Sequence[AuditPart]) -> Iterator[LeakCheck]:
    """Return the checks across several sets of one kind, the training set first."""
    ordered = sorted(parts, key=lambda part: part.is_tested)
    triples = {p.name: p.facts for p in ordered if p.kind == "triples"}
    if len(triples) > 1:
        whole = graph_from_records([Triple(*fact) for part in triples.values() for fact in part])
        yield shared_triples({n: fact_ids(part, whole) for n, part in triples.items()}, whole)
    tasks = [part for part in ordered if part.kind == "task"]
    if len(tasks) > 1:
        yield repeated_texts({part.name: part.whole_texts for part in tasks})
        pairs = {part.name: [(h, t) for h, _, t in part.facts if h and t] for part in tasks}
        if any(pairs.values()):
            yield repeated_pairs(pairs)


def require_codes(limits: Mapping[str, float]) -> None:
    """Raise `ConfigError` for a limit of no check, or one that is not a share."""
    for code, share in limits.items():
        if code not in CODES:
            raise no_such("check", code, CODES)
        if not 0 <= share <= 1:
            raise ConfigError(f"{code}={share}: a share is from 0 to 1")


# ---- the table ----------------------------------------------------------------------------------
def _rows(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> list[dict[str, object]]:
    return [
        {
            "check": check.check,
            "code": check.code,
            "set": check.part,
            "n_checked": check.n_checked,
            "n_found": check.n_found,
            "share": check.share,
            "allowed": check.allowed(limits),
            "examples": list(check.examples),
            "note": check.note,
        }
        for check in checks
    ]


def as_markdown(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> str:
    """`audit_table` with every column."""
    return audit_table(checks, allowed=limits) + "\n"


def as_json(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> str:
    """A list, one object per check."""
    return json.dumps(_rows(checks, limits), indent=2, ensure_ascii=False) + "\n"


def as_csv(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> str:
    """One line per check; examples separated by " ; "."""
    rows = _rows(checks, limits)
    lines = [
        (row | {"examples": " ; ".join(check.examples)}).values()
        for row, check in zip(rows, checks, strict=True)
    ]
    return csv_text(list(rows[0]), lines)


WRITERS: dict[str, Callable[[Sequence[LeakCheck], Mapping[str, float]], str]] = {
    ".md": as_markdown, ".json": as_json, ".csv": as_csv,
}  # fmt: skip
"""By the ending of the file."""
