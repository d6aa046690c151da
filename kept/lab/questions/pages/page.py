"""A comparison on questions as cells, Markdown, JSON values and an offline page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from kept.csv_text import csv_text
from kept.lab.comparison.compared import Compared, ComparedRow
from kept.lab.comparison.pages import tables as engine
from kept.lab.comparison.pages.dot_rows import picture_of
from kept.lab.comparison.pages.headline import headline
from kept.lab.comparison.pages.tables import is_copy, markdown
from kept.lab.comparison.strata import KNOWLEDGE
from kept.lab.questions.answering import MEASURES
from kept.lab.questions.pages.compared import QuestionTables
from kept.lab.questions.plan import ABSENT, ASKED
from kept.lab.questions.rows import row_of
from kept.lab.questions.showing import CONDITIONS
from kept.lab.report.page import Section, page, prose, table, verdict
from kg_loaders.disk.writing import refuse_file, write_text

ANSWERS = ("row", *CONDITIONS, "edited, the new value", "pieces and nodes", "CPU ms a question")
PAIRS = ("measure", *engine.PAIRS[:-1])
VERDICTS = engine.VERDICTS[:-1]
REFUSALS = ("row", "refused, though there", "refused, fact taken out", "still chosen rightly there")
ROWS = ("row", "what the decoder sees", "trained on")
SETTINGS = {
    "asked": (
        "A control is asked, not trained: rows that are trained learn from true facts of other "
        "entities, and are then shown false ones, which says whether an answer follows what is "
        "shown. It does not say what training with false facts would give (controls: trained)."
    ),
    "trained": (
        "A control is trained: a row learns from facts that are false, or none, as it is asked."
    ),
}
REMEMBERED = (
    "A row that remembers facts is always trained with those of its kind of knowledge; it reads no "
    "graph, so an edit after training cannot reach it, and no fact can be taken out."
)


def conditions(found: QuestionTables) -> list[str]:
    """What the numbers mean, in a few paragraphs."""
    compared = found.primary
    n = compared.rows[0].n if compared.rows else 0
    measures = "; ".join(f"*{name}*: {meaning}" for name, meaning in MEASURES.items())
    return [
        (
            f"{n} questions, {found.chance:.3f} by chance where a value is chosen; at most "
            f"{found.n_new} pieces are written. {measures[0].upper()}{measures[1:]}."
        ),
        (
            "none: the decoder alone. off: nothing is shown. shuffled: the values of each relation "
            "dealt out anew among its facts. random-entity: another entity's facts, who has facts "
            "of the same relations; right is the true answer. edited: every value was changed "
            "after training, right is the new one."
        ),
        f"{SETTINGS[compared.experiment.model_dump(mode='json')['controls']]} {REMEMBERED}",
        (
            "Intervals of 95 % and p are over seeds of training and over entities that are asked "
            "about, both drawn. A row that trains nothing has one run: all seeds give the same. "
            "What is shuffled, edited and drawn is the same for all seeds. Where all or none are "
            "right an interval has no width: of n questions 3 / n is still possible. Verdicts are "
            "at 5 %, p with Holm's correction over the pairs of both measures; *not visible*: "
            "found in fewer than four of five such comparisons."
        ),
    ]


def row_cells(found: QuestionTables) -> list[list[str]]:
    """What each row is."""
    plan = found.primary.experiment
    cells = []
    for name, own in plan.model_dump(mode="json")["methods"].items():
        row = row_of(own.get("method", name))
        options = ", ".join(_said(k, v) for k, v in own.items() if k != "method")
        about = f"{row.about} ({options})" if options else row.about
        trains = {"questions": "questions about other entities", "facts": "the facts themselves"}
        cells.append([name, about, trains.get(row.trains, "nothing")])
    return cells


def answer_cells(found: QuestionTables, measure: str) -> list[list[str]]:
    """A line a row: its share of right answers under every condition, edits, costs."""
    compared = found.measures[measure]
    by_arm = {(row.method, row.knowledge): row for row in compared.rows}
    edited = {row.method: row for row in _rows(found.edited.get(measure))}
    cells = []
    for name in dict.fromkeys(row.method for row in compared.rows):
        own = [by_arm.get((name, kind)) for kind in CONDITIONS]
        shown = ["as none" if row and is_copy(row) else _share(row) for row in own]
        first = next(row for row in own if row is not None)
        costs = [fmean(r.costs[key] for r in first.records) for key in ("nodes", "cpu_ms")]
        cells.append([name, *shown, _share(edited.get(name)), *(f"{cost:.0f}" for cost in costs)])
    return cells


def refusal_cells(found: QuestionTables) -> list[list[str]]:
    """A line for each row that reads the graph: refusals with the fact in it and without."""
    there = {(r.method, r.knowledge): r for r in _rows(found.refused[ASKED])}
    gone = {row.method: row for row in _rows(found.refused.get(ABSENT))}
    guessed = {row.method: row for row in _rows(found.guessed)}
    return [
        [name, _share(there.get((name, "true"))), _share(row), _share(guessed.get(name))]
        for name, row in gone.items()
    ]


def pair_cells(found: QuestionTables) -> list[list[str]]:
    """True knowledge minus the other, by both measures."""
    return [
        [measure, *cells[:-1]]
        for measure, compared in found.measures.items()
        for cells in engine.pair_cells(compared)
    ]


def verdict_cells(found: QuestionTables) -> list[list[str]]:
    """One line per row by the file's metric."""
    return [cells[:-1] for cells in engine.verdict_cells(found.primary)]


def to_markdown(found: QuestionTables, command: str) -> str:
    """The whole comparison as Markdown."""
    compared = found.primary
    parts = [f"# {compared.experiment.name}\n\n`{command}`\n"]
    parts += [f"{text}\n" for text in conditions(found)]
    if compared.missing:
        parts.append(f"**Not finished:** {_missing(compared)}.\n")
    parts.append(f"**{compared.experiment.metric}: {headline(compared)}**\n")
    for title, _, columns, rows in _tables(found):
        parts.append(f"## {title}\n\n{markdown(columns, rows)}")
    for note in compared.experiment.notes:
        parts.append(f"- {note.strip()}\n")
    return "\n".join(parts)


def _tables(
    found: QuestionTables,
) -> list[tuple[str, str, Sequence[str], list[list[str]]]]:
    """Every table: its title, a name for files, columns, rows; none that is empty."""
    compared = found.primary
    own = [
        (f"{name}: shares of right answers", name, ANSWERS, answer_cells(found, name))
        for name in found.measures
    ]
    gains = engine.gain_cells(compared, KNOWLEDGE)
    gains = gains if len({cells[2] for cells in gains}) > 1 else []  # all of one slice: as above
    left_out = [[name, why] for name, why in compared.left_out.items()]
    every = [
        (f"Verdicts, {compared.experiment.metric}", "verdicts", VERDICTS, verdict_cells(found)),
        *own,
        ("Differences, true knowledge minus the other", "pairs", PAIRS, pair_cells(found)),
        ("Refusals", "refusals", REFUSALS, refusal_cells(found)),
        ("By what is shown of the fact that answers", "gains", engine.GAINS, gains),
        ("Rows", "rows", ROWS, row_cells(found)),
        ("Left out", "left-out", ("row", "why"), left_out),
    ]
    return [each for each in every if each[3]]


def to_json(found: QuestionTables) -> dict[str, Any]:
    """All numbers."""
    compared = found.primary
    return {
        "experiment": compared.experiment.model_dump(mode="json"),
        "chance": found.chance,
        "measures": {name: _rows_json(each) for name, each in found.measures.items()},
        "pairs": {name: engine.to_json(each)["pairs"] for name, each in found.measures.items()},
        "edited": {name: _rows_json(each) for name, each in found.edited.items()},
        "refused": {name: _rows_json(each) for name, each in found.refused.items()},
        "verdicts": {
            row.method: compared.conclusion(row.method)
            for row in compared.rows
            if row.knowledge == "true"
        },
        "missing": list(compared.missing),
        "left_out": dict(compared.left_out),
    }


def _rows_json(compared: Compared) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in compared.rows:
        found.setdefault(row.method, {})[row.knowledge] = {
            "estimate": round(row.score.estimate, 4),
            "low": round(row.score.low, 4),
            "high": round(row.score.high, 4),
            "seeds": [round(score, 4) for score in row.seeds],
            "n": row.n,
            "nodes": round(fmean(r.costs["nodes"] for r in row.records), 1),
            "cpu_ms": round(fmean(r.costs["cpu_ms"] for r in row.records), 1),
        }
    return found


def write_page(found: QuestionTables, path: Path, *, force: bool = False) -> list[Path]:
    """The offline page, and each table as CSV beside it; all files written. Raises `WriteError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = _tables(found)
    csvs = [path.with_name(f"{path.stem}.{name}.csv") for _, name, _, _ in tables]
    for each in (path, *csvs):
        refuse_file(each, force=force)
    compared = found.primary
    notes = [verdict(f"{compared.experiment.metric}: {headline(compared)}")]
    if compared.missing:
        notes.append(verdict(f"Not finished: {_missing(compared)}"))
    first = Section("", (*notes, *picture_of(compared), *map(prose, conditions(found))))
    sections = [
        Section(title, (table(columns, rows, title),), folded=True)
        for title, _, columns, rows in tables
    ]
    write_text(path, page(compared.experiment.name, "", [first, *sections]), force=force)
    for (_, _, columns, rows), place in zip(tables, csvs, strict=True):
        write_text(place, csv_text(columns, rows), force=force)
    return [path, *csvs]


def _missing(compared: Compared) -> str:
    """How many runs of each row are not finished."""
    counts = Counter(run.partition(", knowledge ")[0] for run in compared.missing)
    return ", ".join(f"{name} ({n} runs)" for name, n in counts.items())


def _said(name: str, value: Any) -> str:
    """An option in words; of a mapping the number of steps alone."""
    return (
        f"{name} {value.get('n_steps', '')} steps" if isinstance(value, dict) else f"{name} {value}"
    )


def _rows(compared: Compared | None) -> Sequence[ComparedRow]:
    return () if compared is None else compared.rows


def _share(row: ComparedRow | None) -> str:
    if row is None:
        return ""
    low, high = max(row.score.low, 0.0), min(row.score.high, 1.0)
    return f"{row.score.estimate:.2f} [{low:.2f}, {high:.2f}]"
