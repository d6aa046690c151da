"""The leak audit: can the answer be read off what the model was given?

Each check is a function that returns one `LeakCheck`; `audit_table` prints them, `exit_code`
turns them into a process status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kg_loaders import KnowledgeGraph

N_EXAMPLES, N_CHARACTERS = 3, 100
CODES = {
    "triple-in-graph": "tested triple in the graph",
    "inverse-in-graph": "tested pair reversed in the graph",
    "pair-in-graph": "tested pair under another relation",
    "text-in-training": "tested sentence in the training text",
    "answer-in-subject": "answer inside the subject string",
    "repeated-triple": "triple repeated across",
    "repeated-text": "text repeated across",
    "repeated-pair": "pair of entities repeated across",
}
"""What a check is called where it is allowed, and how its name begins."""


@dataclass(frozen=True, slots=True)
class LeakCheck:
    """One row of the audit: of `n_checked` items `n_found` leak; the first ones are shown.

    `part` names the set that was tested, `note` says what else a reader must know.
    """

    check: str
    n_checked: int
    n_found: int
    examples: tuple[str, ...] = ()
    part: str = ""
    note: str = ""

    @property
    def share(self) -> float:
        """Leaking share, 0 where nothing was checked."""
        return self.n_found / self.n_checked if self.n_checked else 0.0

    @property
    def code(self) -> str:
        """Of `CODES`; the name itself where it is none of them."""
        return next(
            (code for code, name in CODES.items() if self.check.startswith(name)), self.check
        )

    def allowed(self, limits: Mapping[str, float]) -> float:
        """The share that `limits` (by code or by name) grant, by default none."""
        return limits.get(self.code, limits.get(self.check, 0.0))


def triples_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Tested triples `[triple 3]` that stand in the graph given to the model."""
    rows = _rows(tested)
    return _triples_check("tested triple in the graph", rows, graph.contains(rows), graph)


def inverses_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Tested triples whose ends the graph joins the other way round, by any relation.

    (France, capital, Paris) is easy beside (Paris, capital of, France).
    """
    rows = _rows(tested)
    pairs = _pairs(rows[:, [2, 0]], graph)
    found = np.isin(pairs, _pairs(graph.triples[:, [0, 2]], graph)) & _are_known(rows)
    return _triples_check("tested pair reversed in the graph", rows, found, graph)


def pairs_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Tested triples whose ends the graph joins in the same order by another relation.

    Whether the graph also holds the tested triple itself makes no difference.
    """
    rows = _rows(tested)
    pairs = _pairs(rows[:, [0, 2]], graph)
    joined = np.sort(_pairs(graph.triples[:, [0, 2]], graph))
    n_joining = np.searchsorted(joined, pairs, "right") - np.searchsorted(joined, pairs, "left")
    found = (n_joining > graph.contains(rows)) & _are_known(rows)
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
    """Tested sentences in the training text, equal up to case, white space and punctuation.

    Whether punctuation stands apart depends on who cut the words; letters and digits do not.
    """
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


def repeated_texts(sets: Mapping[str, Sequence[str]]) -> LeakCheck:
    """Texts of a set that stand in an earlier one, compared as `sentences_in_training` does.

    A text may stand more than once in its own set: several questions about one sentence.
    """
    return _repeated("text", {name: [(_normal(t), t) for t in part] for name, part in sets.items()})


def repeated_pairs(sets: Mapping[str, Sequence[tuple[str, str]]]) -> LeakCheck:
    """Pairs of entities, in either order, of a set that stand in an earlier one."""
    keyed = {
        name: [("\t".join(sorted(pair)), " / ".join(pair)) for pair in part]
        for name, part in sets.items()
    }
    return _repeated("pair of entities", keyed)


def _repeated(what: str, sets: Mapping[str, Sequence[tuple[str, str]]]) -> LeakCheck:
    """`sets`: by name, what items are compared by and how they are shown."""
    earlier: set[str] = set()
    n_checked, found = 0, []
    for part in sets.values():
        if earlier:
            n_checked += len(part)
            found += [shown for key, shown in part if key in earlier]
        earlier.update(key for key, _ in part)
    return _check(f"{what} repeated across {', '.join(sets)}", n_checked, found)


def audit_table(checks: Sequence[LeakCheck], *, allowed: Mapping[str, float] | None = None) -> str:
    """The rows as a Markdown table; with `allowed`, also codes, sets, shares allowed and notes."""
    if allowed is None:
        lines = ["| check | checked | found | share | examples |", "|---|---:|---:|---:|---|"]
    else:
        lines = [
            "| check | code | set | checked | found | share | allowed | examples | note |",
            "|---|---|---|---:|---:|---:|---:|---|---|",
        ]
    for check in checks:
        examples = "; ".join(_cell(text) for text in check.examples)
        found = f"{check.n_checked} | {check.n_found} | {check.share:.2%}"
        if allowed is None:
            lines.append(f"| {check.check} | {found} | {examples} |")
            continue
        lines.append(
            f"| {check.check} | {check.code} | {check.part} | {found} "
            f"| {check.allowed(allowed):.2%} | {examples} | {check.note} |"
        )
    return "\n".join(lines)


def _cell(text: str) -> str:
    short = text if len(text) <= N_CHARACTERS else f"{text[:N_CHARACTERS]}…"
    return " ".join(short.split()).replace("|", "\\|")


def exit_code(checks: Sequence[LeakCheck], *, allowed: Mapping[str, float] | None = None) -> int:
    """0 when no check found more than its allowed share (default none at all), else 1."""
    limits = allowed or {}
    return int(any(check.share > check.allowed(limits) for check in checks))


def _rows(triples: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.asarray(triples, np.int32).reshape(-1, 3)


def _are_known(rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Rows whose two ends the graph knows; the others have an id of -1, which is in no pair."""
    return np.asarray((rows[:, [0, 2]] >= 0).all(axis=1))


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
    between = "?" if relation < 0 else graph.relation_label(relation)
    return f"{graph.label(head)} / {between} / {graph.label(tail)}"


def _check(name: str, n_checked: int, found: Sequence[str]) -> LeakCheck:
    return LeakCheck(name, n_checked, len(found), tuple(found[:N_EXAMPLES]))


def _normal(text: str) -> str:
    """Letters and digits, case folded; all characters but white space where there are none."""
    folded = text.casefold()
    return re.sub(r"[\W_]+", "", folded) or "".join(folded.split())
