"""The leak audit: can answers be read off the model's input?

Each check is a function that returns one `LeakCheck`; `audit_table` prints them, `exit_code` turns
them into a process status. Items that could not be checked are a `LeakCheck` of their own
(`UNCHECKED`), so that they do not pass as clean.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kept.evaluation.fact_lookup import (
    AMBIGUOUS,
    OTHER_RELATION,
    Fact,
    Lookup,
    look_up,
    reasons,
)
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
    "fact-not-checked": "tested fact not checked in the graph",
    "text-not-checked": "tested sentence not there, not checked",
    "question-not-checked": "question without subject or answer, not checked",
}
"""Code of a check in limits, and how its name begins."""
UNCHECKED = frozenset(code for code in CODES if code.endswith("-not-checked"))
"""Their `n_checked` are all items, their `n_found` those that a check could not decide."""
CLEAN, LEAK, NOT_CHECKED = 0, 1, 3
"""Exit codes; 2 is an invalid command line."""
Text = str | tuple[str, ...]
"""A text, or several forms of it, any of which may match; "" where there is none."""


@dataclass(frozen=True, slots=True)
class LeakCheck:
    """One row of the audit: of `n_checked` items `n_found` leak; the first ones are shown.

    `part` names the test set; `note` is for the reader.
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
    return _triples_check("tested triple in the graph", rows, stated_pairs(rows, graph), graph)


def inverses_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Test triples whose ends the graph joins in reverse, by any relation.

    (France, capital, Paris) is easy beside (Paris, capital of, France).
    """
    rows = _rows(tested)
    return _triples_check(
        "tested pair reversed in the graph", rows, are_reversed(rows, graph), graph
    )


def pairs_in_graph(tested: NDArray[np.integer], graph: KnowledgeGraph) -> LeakCheck:
    """Tested triples whose ends the graph joins in the same order by another relation.

    Whether the graph also holds the tested triple itself makes no difference.
    """
    rows = _rows(tested)
    hits = are_otherwise_joined(rows, graph)
    return _triples_check("tested pair under another relation", rows, hits, graph)


def stated_pairs(rows: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.bool_]:
    """Which of `[triple 3]` the graph holds."""
    return graph.contains(rows)


def are_reversed(rows: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.bool_]:
    """Which of `[triple 3]` have ends that the graph joins the other way round."""
    pairs = _pairs(rows[:, [2, 0]], graph)
    return np.isin(pairs, _pairs(graph.triples[:, [0, 2]], graph)) & _are_known(rows)


def are_otherwise_joined(rows: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.bool_]:
    """Which of `[triple 3]` have ends that the graph joins by another relation."""
    pairs = _pairs(rows[:, [0, 2]], graph)
    joined = np.sort(_pairs(graph.triples[:, [0, 2]], graph))
    n_joining = np.searchsorted(joined, pairs, "right") - np.searchsorted(joined, pairs, "left")
    return np.asarray((n_joining > graph.contains(rows)) & _are_known(rows))


IN_GRAPH = {
    "triple-in-graph": stated_pairs,
    "inverse-in-graph": are_reversed,
    "pair-in-graph": are_otherwise_joined,
}


def facts_in_graph(
    facts: Sequence[Fact],
    names: Sequence[tuple[str, str]],
    graph: KnowledgeGraph,
    *,
    same_ids: bool = False,
) -> Iterator[LeakCheck]:
    """The checks `IN_GRAPH` of `facts`, looked up as `look_up` does, and what they left open."""
    looked = look_up(facts, names, graph, same_ids=same_ids)
    joined = are_otherwise_joined(looked.rows, graph)
    n_per_fact = np.bincount(looked.owners[joined], minlength=looked.n_facts)
    unsure = looked.may_be_unknown & (n_per_fact > 0)
    undecided = np.zeros(looked.n_facts, np.bool_)
    note = _note_of(looked)
    for code, leaks in IN_GRAPH.items():
        decided, hits = looked.decide(leaks(looked.rows, graph))
        undecided |= ~decided
        if code == "triple-in-graph":
            decided, hits = decided & ~unsure, hits & ~unsure
        examples = tuple(_show(row, graph) for row in looked.first_rows(hits)[:N_EXAMPLES])
        counts = int(decided.sum()), int(hits.sum())
        yield LeakCheck(CODES[code], *counts, examples, note=note)
    ambiguous = int(undecided.sum()) - len(looked.faults)
    why = Counter(looked.faults.values()) + Counter({AMBIGUOUS: ambiguous})
    why += Counter({OTHER_RELATION: int((unsure & ~undecided).sum())})
    if open_rows := np.flatnonzero(undecided | unsure).tolist():
        first = open_rows[:N_EXAMPLES]
        examples = tuple(_in_words(facts[i], names[i] if names else ("", "")) for i in first)
        yield LeakCheck(
            CODES["fact-not-checked"], len(facts), len(open_rows), examples, note=reasons(why)
        )


def _in_words(fact: Fact, names: tuple[str, str]) -> str:
    head, relation, tail = fact
    return " / ".join(part or "?" for part in (names[0] or head, relation, names[1] or tail))


def _note_of(looked: Lookup) -> str:
    rows = looked.first_rows(np.ones(looked.n_facts, np.bool_))
    counts = {
        "looked up by name": looked.n_by_name,
        "with an end outside the graph": int((rows[:, [0, 2]] < 0).any(axis=1).sum()),
        "of a relation that it does not know": int((rows[:, 1] < 0).sum()),
    }
    return "; ".join(f"{n} {what}" for what, n in counts.items() if n)


def shared_triples(splits: Mapping[str, NDArray[np.integer]], graph: KnowledgeGraph) -> LeakCheck:
    """Triples that stand in more than one split, or twice in one; counted beyond the first."""
    rows = np.concatenate([_rows(part) for part in splits.values()])
    _, first = np.unique(rows, axis=0, return_index=True)
    repeated = np.ones(len(rows), np.bool_)
    repeated[first] = False
    name = f"triple repeated across {', '.join(splits)}"
    return _triples_check(name, rows, repeated, graph)


def sentences_in_training(tested: Sequence[Text], training: Iterable[str]) -> LeakCheck:
    """Tested sentences in the training text, equal up to case, white space and punctuation.

    Letters and digits alone are compared, since tokenisations differ. Empty sentences are not
    checked.
    """
    forms = [form_lists for text in tested if (form_lists := forms_of(text))]
    tested_forms = {_normal(form) for text in forms for form in text}
    seen_forms = {normal for normal in map(_normal, training) if normal in tested_forms}
    hits = [next((form for form in text if _normal(form) in seen_forms), "") for text in forms]
    return _check("tested sentence in the training text", len(forms), list(filter(None, hits)))


def forms_of(text: Text) -> tuple[str, ...]:
    """The forms of a text that are not blank."""
    return tuple(form for form in ((text,) if isinstance(text, str) else text) if form.strip())


def answers_in_subjects(questions: Iterable[tuple[str, str]]) -> LeakCheck:
    """Questions `(subject, answer)` whose answer is part of the subject string, whatever the case.

    The first filter of LAMA-UHN (Poerner et al., Findings of EMNLP 2020, section 2.1). Questions
    without a subject or an answer are not checked.
    """
    pairs = [pair for pair in questions if all(map(str.strip, pair))]
    leaks = [pair for pair in pairs if answer_in_subject(*pair)]
    examples = [f"{answer} in {subject}" for subject, answer in leaks]
    return _check("answer inside the subject string", len(pairs), examples)


def answer_in_subject(subject: str, answer: str) -> bool:
    """Whether the answer is part of the subject string, whatever the case."""
    folded = answer.strip().casefold()
    return bool(folded) and folded in subject.casefold()


def repeated_texts(sets: Mapping[str, Sequence[str]]) -> LeakCheck:
    """Texts of a set that stand in an earlier one, compared as `sentences_in_training` does.

    A text may occur more than once in its own set: several questions about one sentence.
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
    """`sets`: by name, each item's key and how it is shown."""
    earlier: set[str] = set()
    n_checked, repeated = 0, []
    for part in sets.values():
        if earlier:
            n_checked += len(part)
            repeated += [texts for key, texts in part if key in earlier]
        earlier.update(key for key, _ in part)
    return _check(f"{what} repeated across {', '.join(sets)}", n_checked, repeated)


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
        cell = f"{check.n_checked} | {check.n_found} | {check.share:.2%}"
        if allowed is None:
            lines.append(f"| {check.check} | {cell} | {examples} |")
            continue
        lines.append(
            f"| {check.check} | {check.code} | {check.part} | {cell} "
            f"| {check.allowed(allowed):.2%} | {examples} | {check.note} |"
        )
    return "\n".join(lines)


def _cell(text: str) -> str:
    short = text if len(text) <= N_CHARACTERS else f"{text[:N_CHARACTERS]}…"
    return " ".join(short.split()).replace("|", "\\|")


def exit_code(checks: Sequence[LeakCheck], *, allowed: Mapping[str, float] | None = None) -> int:
    """Return `LEAK` where a check found more than its allowed share (by default none at all).

    Else `NOT_CHECKED` where more than the allowed share could not be checked, else `CLEAN`.
    """
    limits = allowed or {}
    over = [check.code in UNCHECKED for check in checks if check.share > check.allowed(limits)]
    if not over:
        return CLEAN
    return NOT_CHECKED if all(over) else LEAK


def _rows(triples: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.asarray(triples, np.int32).reshape(-1, 3)


def _are_known(rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Rows whose two ends the graph knows; the others have an id of -1, which is in no pair."""
    return np.asarray((rows[:, [0, 2]] >= 0).all(axis=1))


def _pairs(ends: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.int64]:
    wide = ends.astype(np.int64)
    return np.asarray(wide[:, 0] * graph.n_entities + wide[:, 1])


def _triples_check(
    name: str, rows: NDArray[np.int32], hits: NDArray[np.bool_], graph: KnowledgeGraph
) -> LeakCheck:
    examples = tuple(_show(row, graph) for row in rows[hits][:N_EXAMPLES])
    return LeakCheck(name, len(rows), int(hits.sum()), examples)


def _show(row: NDArray[np.int32], graph: KnowledgeGraph) -> str:
    head, relation, tail = (int(value) for value in row)
    between = "?" if relation < 0 else graph.relation_label(relation)
    return f"{graph.label(head)} / {between} / {graph.label(tail)}"


def _check(name: str, n_checked: int, hits: Sequence[str]) -> LeakCheck:
    return LeakCheck(name, n_checked, len(hits), tuple(hits[:N_EXAMPLES]))


def _normal(text: str) -> str:
    """Letters and digits, case folded; all characters but white space where there are none."""
    folded = text.casefold()
    return re.sub(r"[\W_]+", "", folded) or "".join(folded.split())
