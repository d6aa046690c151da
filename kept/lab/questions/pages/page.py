"""A comparison on questions as cells, Markdown, JSON values and an offline page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from kept.lab.questions.answering import MEASURES
from kept.lab.questions.pages.compared import QuestionTables
from kept.lab.questions.plan import ABSENT, TEST
from kept.lab.questions.rows import row_of
from kept.lab.questions.showing import CONDITIONS
from kept.lab.report.page import Section, prose, verdict
from kept.lab.study import comparison_tables
from kept.lab.study.comparison_tables import gain_table, is_copy
from kept.lab.study.pages import refuse_pages, write_pages
from kept.lab.study.pictures import picture_of
from kept.lab.study.slices import KNOWLEDGE
from kept.lab.study.tables import Table
from kept.lab.study.verdicts import Compared, ComparedRow, headline
from kg_loaders.counting import counted

SETTINGS = {
    "asked": (
        "A control is evaluated, not trained. Rows that are trained learn from true facts of "
        "other entities and are then shown false ones. That says whether an answer follows what "
        "is shown. It does not say what training with false facts would give (controls: trained)."
    ),
    "trained": (
        "A control is trained: a row learns from facts that are false, or none, as in its "
        "evaluation."
    ),
}
REMEMBERED = (
    "A row that stores facts in weights is always trained with those of its kind of knowledge. It"
    " reads no graph, so an edit after training cannot reach it, and no fact can be taken out."
)


def conditions(results: QuestionTables) -> list[str]:
    """What the numbers mean, in a few paragraphs."""
    compared = results.primary
    n = compared.rows[0].n if compared.rows else 0
    measures = "; ".join(f"*{name}*: {meaning}" for name, meaning in MEASURES.items())
    return [
        (
            f"{counted(n, 'questions')}, {results.chance:.3f} by chance where a value is "
            "chosen; at most "
            f"{results.n_new} pieces are written. {measures[0].upper()}{measures[1:]}."
        ),
        (
            "*None*: the decoder alone. *Off*: nothing is shown. *Shuffled*: the values of each "
            "relation are permuted among its facts. *Random-entity*: the facts of another entity "
            "with the same relations; the true answer is right. *Edited*: every value was changed"
            " after training; the new one is right."
        ),
        f"{SETTINGS[compared.experiment.model_dump(mode='json')['controls']]} {REMEMBERED}",
        (
            "Intervals of 95 % and p are over seeds of training and over entities that questions "
            "are about, both treated as samples. A row that trains nothing has one run: all seeds"
            " give the same. "
            "What is shuffled, edited and sampled is the same for all seeds. Where all or none are "
            "right an interval has no width: of n questions 3 / n is still possible. Verdicts are "
            "at 5 %, p with Holm's correction over the pairs of both measures; *not visible*: "
            "found in fewer than four of five such comparisons."
        ),
    ]


def row_table(results: QuestionTables) -> Table:
    """Return what each row is."""
    plan = results.primary.experiment
    trains = {"questions": "questions about other entities", "facts": "the facts themselves"}
    rows = []
    for name, row_options in plan.model_dump(mode="json")["methods"].items():
        row = row_of(row_options.get("method", name))
        options = ", ".join(_value_text(k, v) for k, v in row_options.items() if k != "method")
        about = f"{row.about} ({options})" if options else row.about
        rows.append([name, about, trains.get(row.trains, "nothing")])
    return Table(("row", "what the decoder sees", "trained on"), rows, "Rows", "rows")


def answer_table(results: QuestionTables, measure: str) -> Table:
    """Return a line a row: its share of right answers under every condition, edits, costs."""
    compared = results.measures[measure]
    by_arm = {(row.method, row.knowledge): row for row in compared.rows}
    edited = {row.method: row for row in _rows(results.edited.get(measure))}
    rows = []
    for name in dict.fromkeys(row.method for row in compared.rows):
        records = [by_arm.get((name, kind)) for kind in CONDITIONS]
        shares = ["as none" if row and is_copy(row) else _share(row) for row in records]
        first = next(row for row in records if row is not None)
        costs = [fmean(r.costs[key] for r in first.records) for key in ("nodes", "cpu_ms")]
        costs_in_words = [f"{cost:.0f}" for cost in costs]
        rows.append([name, *shares, _share(edited.get(name)), *costs_in_words])
    columns = ("row", *CONDITIONS, "edited, the new value", "pieces and nodes", "CPU ms a question")
    return Table(columns, rows, f"{measure}: shares of right answers", measure)


def refusal_table(results: QuestionTables) -> Table:
    """Return a line for each row that reads the graph: refusals with its fact and without."""
    there = {(r.method, r.knowledge): r for r in _rows(results.refused[TEST])}
    gone = {row.method: row for row in _rows(results.refused.get(ABSENT))}
    guessed = {row.method: row for row in _rows(results.guessed)}
    rows = [
        [name, _share(there.get((name, "true"))), _share(row), _share(guessed.get(name))]
        for name, row in gone.items()
    ]
    columns = (
        "row", "refused, though there", "refused, fact taken out", "still chosen rightly there",
    )  # fmt: skip
    return Table(columns, rows, "Refusals", "refusals")


def pair_table(results: QuestionTables) -> Table:
    """Return true knowledge minus the other, by both measures."""
    rows, columns = list[Sequence[object]](), tuple[str, ...]()
    for measure, compared in results.measures.items():
        table = comparison_tables.pair_table(compared).without_last_column()
        columns = tuple(table.columns)
        rows += [[measure, *cells] for cells in table.rows]
    title = "Differences, true knowledge minus the other"
    return Table(("measure", *columns), rows, title, "pairs")


def verdict_table(results: QuestionTables) -> Table:
    """Return one line per row by the file's metric."""
    table = comparison_tables.verdict_table(results.primary).without_last_column()
    return replace(table, title=f"Verdicts, {results.primary.experiment.metric}")


def to_markdown(results: QuestionTables, command: str) -> str:
    """The whole comparison as Markdown."""
    compared = results.primary
    parts = [f"# {compared.experiment.name}\n\n`{command}`\n"]
    parts += [f"{text}\n" for text in conditions(results)]
    if compared.missing:
        parts.append(f"**Not finished:** {_missing(compared)}.\n")
    parts.append(f"**{compared.experiment.metric}: {headline(compared)}**\n")
    for table in tables_of(results):
        parts.append(f"## {table.title}\n\n{table.markdown()}")
    for note in compared.experiment.notes:
        parts.append(f"- {note.strip()}\n")
    return "\n".join(parts)


def tables_of(results: QuestionTables) -> list[Table]:
    """Return every table that has rows."""
    compared = results.primary
    gains = replace(
        gain_table(compared, KNOWLEDGE), title="By what is shown of the fact that answers"
    )
    if len({cells[2] for cells in gains.rows}) < 2:  # all of one slice: as above
        gains = replace(gains, rows=())
    left_out = Table(("row", "why"), list(compared.left_out.items()), "Left out", "left-out")
    tables = [
        verdict_table(results), *(answer_table(results, name) for name in results.measures),
        pair_table(results), refusal_table(results), gains, row_table(results), left_out,
    ]  # fmt: skip
    return [table for table in tables if table]


def to_json(results: QuestionTables) -> dict[str, Any]:
    """All numbers."""
    compared = results.primary
    return {
        "experiment": compared.experiment.model_dump(mode="json"),
        "chance": results.chance,
        "measures": {name: _rows_json(each) for name, each in results.measures.items()},
        "pairs": {
            name: comparison_tables.to_json(each)["pairs"]
            for name, each in results.measures.items()
        },
        "edited": {name: _rows_json(each) for name, each in results.edited.items()},
        "refused": {name: _rows_json(each) for name, each in results.refused.items()},
        "verdicts": {
            row.method: compared.conclusion(row.method)
            for row in compared.rows
            if row.knowledge == "true"
        },
        "missing": list(compared.missing),
        "left_out": dict(compared.left_out),
    }


def _rows_json(compared: Compared) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    for row in compared.rows:
        results.setdefault(row.method, {})[row.knowledge] = {
            "estimate": round(row.score.estimate, 4),
            "low": round(row.score.low, 4),
            "high": round(row.score.high, 4),
            "seeds": [round(score, 4) for score in row.seeds],
            "n": row.n,
            "nodes": round(fmean(r.costs["nodes"] for r in row.records), 1),
            "cpu_ms": round(fmean(r.costs["cpu_ms"] for r in row.records), 1),
        }
    return results


def write_page(results: QuestionTables, path: Path, *, force: bool = False) -> list[Path]:
    """Write the page and its tables as CSV; return all files written. Raises `WriteError`."""
    tables, compared = tables_of(results), results.primary
    refuse_pages(path, tables, force=force)
    notes = [verdict(f"{compared.experiment.metric}: {headline(compared)}")]
    if compared.missing:
        notes.append(verdict(f"Not finished: {_missing(compared)}"))
    first = Section("", (*notes, *picture_of(compared), *map(prose, conditions(results))))
    sections = [Section(table.title, (table.html(),), folded=True) for table in tables]
    return write_pages(path, compared.experiment.name, [first, *sections], tables, force=force)


def _missing(compared: Compared) -> str:
    """How many runs of each row are not finished."""
    counts = Counter(run.partition(", knowledge ")[0] for run in compared.missing)
    return ", ".join(f"{name} ({counted(n, 'runs')})" for name, n in counts.items())


def _value_text(name: str, value: Any) -> str:
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
