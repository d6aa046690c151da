"""The leak audit: can the answer be read off what the model was given?

Each check is a function that returns one `LeakCheck`; `audit_table` prints them, `exit_code`
turns them into a process status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kg_loaders import KnowledgeGraph

N_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class LeakCheck:
    """One row of the audit: of `n_checked` items `n_found` leak; the first ones are shown."""

    check: str
    n_checked: int
    n_found: int
    examples: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Leaking share, 0 where nothing was checked."""
        return self.n_found / self.n_checked if self.n_checked else 0.0


def triples_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Tested triples `[triple 3]` that stand in the graph given to the model."""
    rows = _rows(tested)
    return _triples_check("tested triple in the graph", rows, graph.contains(rows), graph)


def inverses_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Tested triples whose ends the graph joins the other way round, by any relation.

    (France, capital, Paris) is easy beside (Paris, capital of, France).
    """
    rows = _rows(tested)
    found = np.isin(_pairs(rows[:, [2, 0]], graph), _pairs(graph.triples[:, [0, 2]], graph))
    return _triples_check("tested pair reversed in the graph", rows, found, graph)


def pairs_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Tested triples whose ends the graph joins in the same order by another relation."""
    rows = _rows(tested)
    pairs = _pairs(rows[:, [0, 2]], graph)
    found = np.isin(pairs, _pairs(graph.triples[:, [0, 2]], graph)) & ~graph.contains(rows)
    return _triples_check("tested pair under another relation", rows, found, graph)


def shared_triples(splits: Mapping[str, NDArray[np.integer]], graph: KnowledgeGraph) -> LeakCheck:
    """Triples that stand in more than one split, or twice in one; counted beyond the first."""
    rows = np.concatenate([_rows(part) for part in splits.values()])
    _, first = np.unique(rows, axis=0, return_index=True)
    repeated = np.ones(len(rows), np.bool_)
    repeated[first] = False
    name = f"triple repeated across {', '.join(splits)}"
    return _triples_check(name, rows, repeated, graph)


def sentences_in_training(tested: Sequence[str], training: Iterable[str]) -> LeakCheck:
    """Tested sentences in the training text, equal up to case and white space."""
    wanted = {_normal(text) for text in tested}
    met = {normal for normal in map(_normal, training) if normal in wanted}
    found = [text for text in tested if _normal(text) in met]
    return _check("tested sentence in the training text", len(tested), found)


def answers_in_subjects(questions: Iterable[tuple[str, str]]) -> LeakCheck:
    """Questions `(subject, answer)` whose answer is part of the subject string, whatever the case.

    The first filter of LAMA-UHN (Poerner et al., Findings of EMNLP 2020, section 2.1).
    """
    pairs = list(questions)
    met = [pair for pair in pairs if answer_in_subject(*pair)]
    found = [f"{answer} in {subject}" for subject, answer in met]
    return _check("answer inside the subject string", len(pairs), found)


def answer_in_subject(subject: str, answer: str) -> bool:
    """Whether the answer is part of the subject string, whatever the case."""
    wanted = answer.strip().casefold()
    return bool(wanted) and wanted in subject.casefold()


def audit_table(checks: Sequence[LeakCheck]) -> str:
    """The rows as a Markdown table."""
    lines = ["| check | checked | found | share | examples |", "|---|---:|---:|---:|---|"]
    for check in checks:
        examples = "; ".join(text.replace("|", "\\|") for text in check.examples)
        lines.append(
            f"| {check.check} | {check.n_checked} | {check.n_found} | {check.share:.2%} "
            f"| {examples} |"
        )
    return "\n".join(lines)


def exit_code(checks: Sequence[LeakCheck], *, allowed: Mapping[str, float] | None = None) -> int:
    """0 when no check found more than its allowed share (default none at all), else 1."""
    limits = allowed or {}
    return int(any(check.share > limits.get(check.check, 0.0) for check in checks))


def _rows(triples: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.asarray(triples, np.int32).reshape(-1, 3)


def _pairs(ends: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.int64]:
    wide = ends.astype(np.int64)
    return np.asarray(wide[:, 0] * graph.n_entities + wide[:, 1])


def _triples_check(
    name: str, rows: NDArray[np.int32], found: NDArray[np.bool_], graph: KnowledgeGraph
) -> LeakCheck:
    shown = tuple(_show(row, graph) for row in rows[found][:N_EXAMPLES])
    return LeakCheck(name, len(rows), int(found.sum()), shown)


def _show(row: NDArray[np.int32], graph: KnowledgeGraph) -> str:
    head, relation, tail = (int(value) for value in row)
    return f"{graph.label(head)} / {graph.relation_label(relation)} / {graph.label(tail)}"


def _check(name: str, n_checked: int, found: Sequence[str]) -> LeakCheck:
    return LeakCheck(name, n_checked, len(found), tuple(found[:N_EXAMPLES]))


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())
