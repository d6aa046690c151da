"""Texts that a run is asked about, read lazily: CSV, TSV, JSON lines or plain lines of text.

Columns go by the names of `kept.tasks.datasets.columns.COLUMNS`; labels are neither needed nor
read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.graphs.words import join_texts
from kept.suggestions import require_there
from kept.tasks.datasets.columns import COLUMNS, Row, columns_of
from kept.tasks.datasets.example import TaskExample, word_places
from kept.tasks.datasets.questions.choices import choice_example
from kept.tasks.datasets.tables import (
    CLASSIFICATION,
    DELIMITERS,
    MENTION,
    RELATION,
    SEPARATOR,
    TAGGING,
    WRONG_KINDS,
    RowReader,
    table_rows,
)
from kept.tasks.kinds import TASKS
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.reading.lines import read_lines
from kg_loaders.reading.unpacking import data_name

SPAN, CHOICE, QUESTION = "span", "choice", "question"
QUESTIONS = "questions"
"""The task of a folder of `kept fit` on questions."""


def form_of(task: str) -> str:
    """Return what a line holds for a task of `TASKS`, or for questions."""
    return QUESTION if task == QUESTIONS else TASKS[task].form


NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    CLASSIFICATION: (("text",),),
    MENTION: (("text", "mention"), ("text", "start", "end"), ("text", "targets")),
    RELATION: (("text", "head", "tail"), ("text", "targets")),
    TAGGING: (("tokens",), ("text",)),
    SPAN: (("question", "context"), ("text", "context")),
    CHOICE: (("question", "choices"), ("text", "choices")),
    QUESTION: (("question",), ("text",)),
}
"""The columns that a line needs, by what it holds; any one of the groups will do."""
PLAIN = (CLASSIFICATION, TAGGING, QUESTION)
"""What a plain line of text can hold."""
TABULAR = (".csv", ".tsv", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class UnlabelledLine:
    """A line of a file: its number from 1, its example, and the fields that say what it asks."""

    number: int
    example: TaskExample
    fields: Mapping[str, Any]


def read_unlabelled(
    path: Path, task: str, report: DamageReport, names: Mapping[str, str] | None = None
) -> Iterator[UnlabelledLine]:
    """Yield each line of a file of texts, as it is read, for a run of `task`.

    `names` are columns given by name, by what they are for. A line that holds no example is
    rejected by `report`. Raises `ConfigError` where the file lacks a column that the task needs.
    """
    require_there(path)
    form = form_of(task)
    if is_plain(path):
        if form not in PLAIN:
            raise ConfigError(
                f"{path} holds plain lines, and {task} needs columns {alternatives(form)}; "
                "give a CSV, TSV or JSON lines file (docs/reference/formats-of-texts.md)"
            )
        yield from _plain_lines(path, form, report)
        return
    parser: RowParser | None = None
    for number, raw, row in table_rows(path, report):
        if parser is None:
            columns = columns_of(list(row), names or {}, str(path))
            _require_columns(columns, task, str(path))
            parser = RowParser(columns, form, str(path), report)
        try:
            line = parser.parse(number, row)
        except (ValueError, LinkingError) as fault:
            report.reject(str(path), number, 0, str(fault), raw)
            continue
        report.n_texts += 1
        yield line


def is_plain(path: Path) -> bool:
    """Whether a file holds plain lines of text: neither its name nor its first line says else."""
    suffix = Path(data_name(path)).suffix.lower()
    if suffix == ".json":
        raise ConfigError(f"{path} is not read as one array; write one object a line (.jsonl)")
    if suffix in TABULAR:
        return False
    first = next((raw for _, _, raw in read_lines(path, DamageReport(DamagePolicy.SKIP))), b"")
    if suffix not in DELIMITERS:
        return not first.lstrip().startswith(b"{") or suffix != ""
    cells = first.decode("utf-8", "replace").casefold().split(DELIMITERS[suffix])
    known = {name for use in ("text", "tokens", "question") for name in COLUMNS[use]}
    return not (len(cells) > 1 and known.intersection(cell.strip() for cell in cells))


class RowParser:
    """Turns a row, or an object of a request, into an example and the fields that it asks about."""

    def __init__(
        self, columns: Mapping[str, str], form: str, location: str, report: DamageReport
    ) -> None:
        self.form = form
        self._rows = RowReader(columns, form, location, report, is_labelled=False)

    def parse(self, number: int, row: Row) -> UnlabelledLine:
        """Return the line of a row; `ValueError` or `LinkingError` says what is wrong with it."""
        readers = {SPAN: self._span, CHOICE: self._choice, QUESTION: self._plain_question}
        if self.form in readers:
            try:
                line = readers[self.form](number, row)
            except WRONG_KINDS as error:
                raise ValueError(f"a cell of the wrong kind ({error})") from error
            line.example.linked.text.encode()  # half a pair of surrogates is no character
            return line
        example = self._rows.example(number, row)
        if self.form == CLASSIFICATION and (second := self._text(row, "second", is_needed=False)):
            pair = join_texts(example.linked, LinkedText(second, ()))
            pair = dataclasses.replace(pair, id=example.linked.id)
            first = example.linked.text
            example = dataclasses.replace(example, linked=pair)
            return UnlabelledLine(number, example, {"text": first, "text_b": second})
        return UnlabelledLine(number, example, _fields_of(example, self.form))

    def _span(self, number: int, row: Row) -> UnlabelledLine:
        question, context = self._question(row), self._text(row, "context")
        pair = join_texts(LinkedText(question, ()), LinkedText(context, ()))
        pair = dataclasses.replace(pair, id=self._name(number, row))
        return UnlabelledLine(number, TaskExample(pair, ()), {"question": question})

    def _choice(self, number: int, row: Row) -> UnlabelledLine:
        question, value = self._question(row), self._rows.cell(row, "choices")
        choices = value if isinstance(value, list) else str(value or "").split(SEPARATOR)
        choices = [str(choice).strip() for choice in choices]
        example = choice_example(question, choices, id=self._name(number, row))
        return UnlabelledLine(number, example, {"question": question, "choices": choices})

    def _plain_question(self, number: int, row: Row) -> UnlabelledLine:
        question = self._question(row)
        linked = LinkedText(question, (), self._name(number, row))
        return UnlabelledLine(number, TaskExample(linked, ()), {"question": question})

    def _question(self, row: Row) -> str:
        use = "question" if "question" in self._rows.columns else "text"
        return self._text(row, use)

    def _text(self, row: Row, use: str, *, is_needed: bool = True) -> str:
        value = self._rows.cell(row, use)
        if value not in (None, "") and not isinstance(value, str):
            raise ValueError(f"{use} is not text")
        if not value and is_needed:
            raise ValueError(f"no {use}")
        return value or ""

    def _name(self, number: int, row: Row) -> str:
        name = self._rows.cell(row, "id")
        return str(number) if name in (None, "") else str(name)


def _plain_lines(path: Path, form: str, report: DamageReport) -> Iterator[UnlabelledLine]:
    for number, _, raw in read_lines(path, report):
        text = raw.decode().strip()
        if not text:
            report.n_blank += 1
            continue
        report.n_texts += 1
        targets: tuple[Mention, ...] = ()
        if form == TAGGING:
            words = text.split()
            text, targets = " ".join(words), tuple(Mention(*p) for p in word_places(words))
        example = TaskExample(LinkedText(text, (), str(number)), (), targets)
        yield UnlabelledLine(number, example, _fields_of(example, form))


def _fields_of(example: TaskExample, form: str) -> dict[str, Any]:
    """What an example asks about, as its line of the output says it."""
    text = example.linked.text
    words = [text[target.start : target.end] for target in example.targets]
    if form == MENTION:
        (target,) = example.targets
        return {"text": text, "mention": words[0], "start": target.start, "end": target.end}
    if form == RELATION:
        places = [[target.start, target.end] for target in example.targets]
        return {"text": text, "head": words[0], "tail": words[1], "targets": places}
    if form == TAGGING:
        return {"text": text, "tokens": words}
    if form == QUESTION:
        return {"question": text}
    return {"text": text}


def _require_columns(columns: Mapping[str, str], task: str, location: str) -> None:
    if has_columns(columns, task):
        return
    known = sorted({use for group in NEEDS[form_of(task)] for use in group})
    names = "; ".join(f"{use}: {', '.join(COLUMNS[use])}" for use in known)
    there = ", ".join(columns.values()) or "none that is known"
    raise ConfigError(
        f"{location} lacks columns that a run of {task} needs: {alternatives(form_of(task))} "
        f"(names that are known: {names}; there: {there}); name them with --column USE=NAME, or "
        "write a header"
    )


def has_columns(columns: Iterable[str], task: str) -> bool:
    """Whether `columns`, by what they are for, are enough for a run of `task`."""
    return any(set(columns) >= set(group) for group in NEEDS[form_of(task)])


def alternatives(form: str) -> str:
    """Return the columns that a line of a form needs, in words.

    >>> alternatives(RELATION)
    'text, head and tail; or text and targets'
    """
    groups = []
    for group in NEEDS[form]:
        *first, last = group
        groups.append(f"{', '.join(first)} and {last}" if first else last)
    return "; or ".join(groups)
