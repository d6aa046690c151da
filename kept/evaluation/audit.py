"""The whole audit: every leak check over a graph, training text, and any sets that are tested.

Axis legend: triple.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kept.errors import ConfigError
from kept.evaluation.leakage import (
    CODES,
    LeakCheck,
    answers_in_subjects,
    audit_table,
    inverses_in_graph,
    pairs_in_graph,
    repeated_pairs,
    repeated_texts,
    sentences_in_training,
    shared_triples,
    triples_in_graph,
)
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

TRAIN = "train"
Kind = Literal["triples", "task", "cloze"]
Fact = tuple[str, str, str]
IN_GRAPH = (triples_in_graph, inverses_in_graph, pairs_in_graph)


@dataclass(frozen=True)
class AuditPart:
    """One set of a data set; the one called "train" is given to the model, others are asked.

    `facts` by identifiers, a relation also by its label; in a task many sentences may ask for one.
    `questions` are pairs of subject and answer.
    """

    name: str
    kind: Kind
    facts: Sequence[Fact] = ()
    texts: Sequence[str] = ()
    questions: Sequence[tuple[str, str]] = ()

    @property
    def is_tested(self) -> bool:
        return self.name != TRAIN


def audit(
    parts: Sequence[AuditPart],
    *,
    graph: KnowledgeGraph | None = None,
    training_texts: Iterable[str] = (),
) -> list[LeakCheck]:
    """Every check that the given things allow, in a fixed order.

    Parts of triples, or of a task, that have the same name are one set.
    `graph` is what the model reads or learns from; without one, training triples take its place.
    Texts of the set "train" are training text as well as `training_texts`. Raises `ConfigError`
    when there is nothing to check.
    """
    parts = _sets(parts)
    if graph is None:
        graph = _graph_of(parts)
    tested = [part for part in parts if part.is_tested]
    checks: list[LeakCheck] = []
    if graph is not None:
        checks += [check for part in tested if part.facts for check in _in_graph(part, graph)]
    trained = [part.texts for part in parts if not part.is_tested]
    texts = list(chain(chain.from_iterable(trained), training_texts))
    for part in tested:
        if part.texts and texts:
            checks.append(_named(sentences_in_training(part.texts, texts), part))
        if part.questions:
            checks.append(_named(answers_in_subjects(part.questions), part))
    checks += _across(parts)
    if not checks:
        raise ConfigError(
            "there is nothing to check: give a set that is tested, and beside it a graph, training "
            "text or a set 'train'"
        )
    return checks


def _sets(parts: Sequence[AuditPart]) -> list[AuditPart]:
    """Parts of one name and kind as one; files of cloze questions stay apart, as limits are."""
    found: dict[tuple[object, ...], AuditPart] = {}
    for number, part in enumerate(parts):
        key = (part.kind, part.name, number if part.kind == "cloze" else None)
        one = found.get(key)
        found[key] = part if one is None else _joined(one, part)
    return list(found.values())


def _joined(one: AuditPart, other: AuditPart) -> AuditPart:
    return dataclasses.replace(
        one,
        facts=[*one.facts, *other.facts],
        texts=[*one.texts, *other.texts],
        questions=[*one.questions, *other.questions],
    )


def _graph_of(parts: Sequence[AuditPart]) -> KnowledgeGraph | None:
    rows = [p.facts for p in parts if p.kind == "triples" and not p.is_tested]
    if not rows:
        return None
    return graph_from_records([Triple(*fact) for fact in chain.from_iterable(rows)])


def _in_graph(part: AuditPart, graph: KnowledgeGraph) -> Iterator[LeakCheck]:
    ids = fact_ids(part.facts, graph)
    n_outside = int((ids[:, [0, 2]] < 0).any(axis=1).sum())
    n_strange = int((ids[:, 1] < 0).sum())
    notes = [f"{n_outside} with an end outside the graph"] if n_outside else []
    notes += [f"{n_strange} of a relation that it does not know"] if n_strange else []
    for check in IN_GRAPH:
        yield _named(check(ids, graph), part, "; ".join(notes))


def fact_ids(facts: Sequence[Fact], graph: KnowledgeGraph) -> NDArray[np.int32]:
    """`[triple 3]`, -1 where the graph does not know a name; relations also by their labels."""
    if not facts:
        return np.zeros((0, 3), np.int32)
    heads, relations, tails = zip(*facts, strict=True)
    by_label: dict[str, int] = {}
    for relation in range(graph.n_relations):
        by_label.setdefault(graph.relation_label(relation).casefold(), relation)
    names = {name: by_label.get(name.casefold(), -1) for name in dict.fromkeys(relations)}
    found = graph.relations.ids(list(relations))
    labelled = np.array([names[name] for name in relations], np.int32)
    columns = (graph.entities.ids(list(heads)), np.where(found < 0, labelled, found))
    return np.stack([*columns, graph.entities.ids(list(tails))], axis=1).astype(np.int32)


def _across(parts: Sequence[AuditPart]) -> Iterator[LeakCheck]:
    """What stands in several sets of one kind; the training set first."""
    ordered = sorted(parts, key=lambda part: part.is_tested)
    triples = {p.name: p.facts for p in ordered if p.kind == "triples"}
    if len(triples) > 1:
        whole = graph_from_records([Triple(*fact) for part in triples.values() for fact in part])
        yield shared_triples({n: fact_ids(part, whole) for n, part in triples.items()}, whole)
    tasks = [part for part in ordered if part.kind == "task"]
    if len(tasks) > 1:
        yield repeated_texts({part.name: part.texts for part in tasks})
        pairs = {part.name: [(h, t) for h, _, t in part.facts] for part in tasks}
        if any(pairs.values()):
            yield repeated_pairs(pairs)


def _named(check: LeakCheck, part: AuditPart, note: str = "") -> LeakCheck:
    return dataclasses.replace(check, part=part.name, note=note)


def require_codes(limits: Mapping[str, float]) -> None:
    """Raise `ConfigError` for a limit of no check, or one that is no share."""
    for code, share in limits.items():
        if code not in CODES:
            raise ConfigError(f"there is no check {code!r}; there are {', '.join(CODES)}")
        if not 0 <= share <= 1:
            raise ConfigError(f"{code}={share}: a share is from 0 to 1")


# ---- the table ----------------------------------------------------------------------------------
def _rows(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> list[dict[str, object]]:
    return [
        {
            "check": check.check, "code": check.code, "set": check.part,
            "n_checked": check.n_checked, "n_found": check.n_found, "share": check.share,
            "allowed": check.allowed(limits), "examples": list(check.examples), "note": check.note,
        }
        for check in checks
    ]  # fmt: skip


def as_markdown(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> str:
    """`audit_table` with every column."""
    return audit_table(checks, allowed=limits) + "\n"


def as_json(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> str:
    """A list, an object a check."""
    return json.dumps(_rows(checks, limits), indent=2, ensure_ascii=False) + "\n"


def as_csv(checks: Sequence[LeakCheck], limits: Mapping[str, float]) -> str:
    """A line a check; examples apart by " ; "."""
    rows = _rows(checks, limits)
    written = io.StringIO()
    table = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    table.writeheader()
    for row, check in zip(rows, checks, strict=True):
        table.writerow(row | {"examples": " ; ".join(check.examples)})
    return written.getvalue()


WRITERS: dict[str, Callable[[Sequence[LeakCheck], Mapping[str, float]], str]] = {
    ".md": as_markdown, ".json": as_json, ".csv": as_csv,
}  # fmt: skip
"""By the ending of the file."""
