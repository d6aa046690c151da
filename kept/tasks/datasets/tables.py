"""Labelled texts in kept's own form: CSV, TSV or JSON lines whose columns are known by their names.

    text,label                        a class of a text
    text,mention,label                a class of a mention (or start,end in characters)
    text,mention,labels               its types, several joined by |
    text,head,tail,label              the relation between two mentions
    tokens,tags                       a tag for each word, both separated by blanks
    question,answer                   a question and its answers, joined by |; for `kept fit`

A file may have further columns: `id`, `split` (train, dev or test), `pair_start`. JSON lines may
hold `mentions`, the links that `kept link` writes; `write_examples` writes such lines.
docs/reference/formats-of-texts.md has examples.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, cast

from entity_linking.annotations import to_json
from entity_linking.annotations.linked_texts import MOST_CANDIDATES, linked_of
from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError
from kept.suggestions import require_there
from kept.tasks.datasets.columns import (
    COLUMNS,
    N_SAMPLE,
    SPLITS,
    Row,
    columns_by_cells,
    columns_of,
    notes_of,
    suggestion,
)
from kept.tasks.datasets.conll import holds_tagged_words, tagged_sentences
from kept.tasks.datasets.example import TaskExample, word_places
from kg_loaders.counting import counted
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.disk.writing import write_lines
from kg_loaders.formats.tables.start import csv_start
from kg_loaders.reading.lines import MAX_LINE_BYTES, read_lines
from kg_loaders.reading.unpacking import COMPRESSED

SEVERAL = ("labels", "types")
"""Names of a column of labels whose cell may hold several."""
SEPARATOR = "|"
N_FAULTS = 5
"""Faulty lines that an error names."""
CLASSIFICATION, MENTION, TYPING = "classification", "mention", "typing"
RELATION, TAGGING = "relation", "tagging"
KINDS = (CLASSIFICATION, MENTION, TYPING, RELATION, TAGGING)
"""Tasks of `kept finetune` that a table can hold."""
QUESTION = "question"
"""Questions with answers, which a decoder or the graph itself answers: not a task of those."""
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
WRONG_KINDS = (TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
"""What a value of JSON raises that is not what its column holds."""


@dataclass(frozen=True)
class Table:
    """The examples of a file, the task that its columns are for, and the split of each example.

    `splits` are "train", "dev", "test" or "" where the file does not say; `notes` say what was
    decided for single lines.
    """

    kind: str
    columns: dict[str, str]
    examples: list[TaskExample]
    splits: list[str]
    notes: list[str]


def read_table(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """The examples of a file, whose columns go by their names."""
    table = read_labelled(path)
    if table.kind == QUESTION:
        raise ConfigError(
            f"{path} holds questions with answers, which are not classes; use `kept fit`, or "
            f"give columns text and label"
        )
    report.n_texts += len(table.examples)
    yield from table.examples


def read_labelled(path: Path, names: Mapping[str, str] | None = None) -> Table:
    """Return the table of a file; `names` are columns given by name, by what they are for.

    Raises `ConfigError` where a needed column is missing, with the columns that there are, and
    for lines that hold no example, with their numbers and what is wrong with them.
    """
    require_there(path)
    report = DamageReport(policy=DamagePolicy.SKIP)
    rows = table_rows(path, report)
    first = list(islice(rows, N_SAMPLE))
    if not first:
        _refuse_faults(report)
        raise ConfigError(f"{path} holds no row; give a header and one example a line")
    sample = [row for _, _, row in first]
    header = list(dict.fromkeys(name for row in sample for name in row))
    columns = columns_of(header, names or {}, str(path))
    columns = columns_by_cells(columns, names or {}, sample)
    kind = _kind(columns, str(path), header, sample)
    reader = RowReader(columns, kind, str(path), report)
    for line, raw, row in chain(first, rows):
        reader.read(line, raw, row)
    _refuse_faults(report)
    examples, notes = _several_labels(reader.examples, kind)
    if kind == MENTION and any(len(e.labels) != 1 for e in examples):
        kind = TYPING
    notes = [*notes_of(columns, header, sample), *reader.notes(), *notes]
    return Table(kind, columns, examples, reader.splits, notes)


def _several_labels(examples: list[TaskExample], kind: str) -> tuple[list[TaskExample], list[str]]:
    """The examples of labels that are joined by `SEPARATOR`, as several; and what to say of it."""
    n = sum(any(SEPARATOR in label for label in each.labels) for each in examples)
    if not n or kind in (QUESTION, TAGGING):
        return examples, []
    if kind != MENTION:
        note = (
            f"{counted(n, 'labels')} contained {SEPARATOR!r}; each is one class, since a {kind} "
            "has one label"
        )
        return examples, [note]
    several = [
        replace(each, labels=tuple(filter(None, _parts(SEPARATOR.join(each.labels)))))
        for each in examples
    ]
    return several, [
        f"{counted(n, 'labels')} contained {SEPARATOR!r}, which separates labels of a mention"
    ]


def _parts(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(SEPARATOR)]


def _refuse_faults(report: DamageReport) -> None:
    if not report.n_rejected:
        return
    lines = [
        f"{each.file}:{each.line}: {each.reason}: {each.excerpt}"
        for each in report.rejections[:N_FAULTS]
    ]
    more = report.n_rejected - len(lines)
    rest = f"\n  and {more} more" if more else ""
    if any(each.reason.startswith("not UTF-8") for each in report.rejections):
        rest += "\nsave the file as UTF-8, in a terminal with: iconv -f cp1252 -t utf-8 FILE"
    raise ConfigError(
        f"{counted(report.n_rejected, 'lines')} held no example; mend or remove:\n  "
        + "\n  ".join(lines)
        + rest
    )


def _kind(
    columns: Mapping[str, str], location: str, header: Sequence[str], rows: Sequence[Row]
) -> str:
    if "question" in columns and "answer" in columns and "label" not in columns:
        return QUESTION
    if "tags" in columns and ("tokens" in columns or "targets" in columns):
        return TAGGING
    missing = [use for use in ("text", "label") if use not in columns]
    if missing:
        known = "; ".join(f"{use}: {', '.join(COLUMNS[use])}" for use in missing)
        raise ConfigError(
            f"{location} has no column for {' and '.join(missing)}: its columns are "
            f"{', '.join(header)} (names that are known: {known}); "
            f"{_remedy(missing, columns, header, rows)}"
        )
    if "head" in columns and "tail" in columns:
        return RELATION
    if "mention" in columns or ("start" in columns and "end" in columns):
        return MENTION
    return CLASSIFICATION if "targets" not in columns else MENTION


def _remedy(
    missing: Sequence[str], columns: Mapping[str, str], header: Sequence[str], rows: Sequence[Row]
) -> str:
    """What to do where a table lacks columns."""
    nested = [name for name in header if any(_is_nested(row.get(name)) for row in rows)]
    if nested:
        return (
            f"{nested[0]!r} holds several mentions in a line: write one line per mention, with "
            "text, start, end and label"
        )
    free = [name for name in header if name not in columns.values()]
    guess = suggestion(missing, free, rows)
    options = guess or " ".join(f"--column {use}=NAME" for use in missing)
    return f"name the columns with {options}, or write a header"


def _is_nested(value: Any) -> bool:
    """Whether a cell of JSON lines holds objects or lists of lists, as exports of spans do."""
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(each, dict | list) for each in value)
    )


class RowReader:
    """Rows to examples, with what was decided on the way; their labels too, if `is_labelled`."""

    def __init__(
        self,
        columns: Mapping[str, str],
        kind: str,
        location: str,
        report: DamageReport,
        *,
        is_labelled: bool = True,
    ) -> None:
        self.columns, self.kind, self.location, self.report = columns, kind, location, report
        self.is_labelled = is_labelled
        self.examples: list[TaskExample] = []
        self.splits: list[str] = []
        self.repeated, self.inside = 0, 0

    def read(self, line: int, raw: bytes, row: Row) -> None:
        try:
            example = self.example(line, row)
            split = self._split(row)
        except ValueError as fault:
            self.report.reject(self.location, line, 0, str(fault), raw)
            return
        self.report.n_texts += 1
        self.examples.append(example)
        self.splits.append(split)

    def example(self, line: int, row: Row) -> TaskExample:
        """Return the example of a row; `ValueError` says what is wrong with it."""
        readers = {TAGGING: self._tagged, QUESTION: self._question}
        try:
            example = readers.get(self.kind, self._example)(line, row)
        except WRONG_KINDS as error:
            raise ValueError(f"a cell of the wrong kind ({error})") from error
        example.linked.text.encode()  # half a pair of surrogates is no character
        return example

    def notes(self) -> list[str]:
        notes = []
        if self.inside:
            notes.append(
                f"{counted(self.inside, 'mentions')} began or ended inside a word; start counts "
                "characters from 0, and end is the character after the mention"
            )
        if self.repeated:
            notes.append(
                f"{counted(self.repeated, 'mentions')} occurred more than once in the text, and "
                "the first place was taken; columns start and end say which one is meant"
            )
        return notes

    def cell(self, row: Row, use: str) -> Any:
        value = row.get(self.columns[use]) if use in self.columns else None
        return value.strip() if isinstance(value, str) else value

    def _split(self, row: Row) -> str:
        name = self.cell(row, "split")
        if name in (None, ""):
            return ""
        if str(name).casefold() not in SPLITS:
            raise ValueError(
                f"split {name!r} is none of {', '.join(SPLITS)}; mend it, or rename the column"
            )
        return SPLITS[str(name).casefold()]

    def _linked(self, text: str, row: Row, line: int) -> LinkedText:
        name = self.cell(row, "id")
        start = self.cell(row, "pair_start")
        return linked_of(
            text,
            self.cell(row, "mentions") or [],
            str(line) if name in (None, "") else str(name),
            int(start) if start not in (None, "") else None,
        )

    def _example(self, line: int, row: Row) -> TaskExample:
        value = row.get(self.columns["text"])
        if not isinstance(value, str) or not value.strip():
            raise ValueError("no text")
        labels = self._labels(row) if self.is_labelled else ()
        targets = self._targets(value, row)
        pair = self.cell(row, "pair")
        ends = None if pair in (None, "") else (str(pair[0]), str(pair[1]))
        return TaskExample(self._linked(value, row, line), labels, targets, ends)

    def _labels(self, row: Row) -> tuple[str, ...]:
        value, column = self.cell(row, "label"), self.columns["label"]
        if _is_nested(value):
            raise ValueError(
                "the label holds objects or lists; write one line per mention, with text, start, "
                "end and label"
            )
        if isinstance(value, list):
            labels = [str(each).strip() for each in value]
        elif value is None:
            labels = []
        elif column.casefold() in SEVERAL:
            labels = _parts(str(value))
        else:
            labels = [str(value)]
        labels = [label for label in labels if label]
        if not labels and column.casefold() not in SEVERAL:
            raise ValueError("no label")
        if len(labels) > 1 and self.kind in (CLASSIFICATION, RELATION):
            raise ValueError(f"{len(labels)} labels; a {self.kind} has one")
        return tuple(labels)

    def _targets(self, text: str, row: Row) -> tuple[Mention, ...]:
        cell = self.cell(row, "targets")
        if cell not in (None, ""):
            targets = tuple(_within(text, start, end) for start, end in cell)
        elif self.kind == RELATION:
            targets = tuple(self._mention(text, self.cell(row, use)) for use in ("head", "tail"))
        elif self.kind == MENTION and self.cell(row, "start") not in (None, ""):
            targets = (_within(text, self.cell(row, "start"), self.cell(row, "end")),)
            self.inside += _is_inside_word(text, targets[0])
        elif self.kind == MENTION:
            targets = (self._mention(text, self.cell(row, "mention")),)
        else:
            targets = ()
        n_expected = {RELATION: 2, MENTION: 1}.get(self.kind, 0)
        if len(targets) != n_expected:
            raise ValueError(f"{len(targets)} targets; a {self.kind} has {n_expected}")
        return targets

    def _mention(self, text: str, words: Any) -> Mention:
        if words in (None, ""):
            raise ValueError("an empty mention")
        words = str(words)
        starts = [m.start() for m in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", text)]
        starts = starts or [m.start() for m in re.finditer(re.escape(words), text)]
        starts = starts or [
            m.start() for m in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE)
        ]
        if not starts:
            raise ValueError(f"{words!r} does not occur in the text")
        self.repeated += len(starts) > 1
        return Mention(starts[0], starts[0] + len(words))

    def _question(self, line: int, row: Row) -> TaskExample:
        """A question with its answers; `entity` is the id of whom it is about, named or not."""
        text, value = row.get(self.columns["question"]), self.cell(row, "answer")
        if not isinstance(text, str) or not text.strip():
            raise ValueError("no question")
        answers = value if isinstance(value, list) else str(value or "").split(SEPARATOR)
        answers = [str(answer).strip() for answer in answers if str(answer).strip()]
        if not answers:
            raise ValueError("no answer")
        entity = self.cell(row, "entity")
        about = None if entity in (None, "") else str(entity)
        return TaskExample(self._linked(text, row, line), tuple(answers), source=about)

    def _tagged(self, line: int, row: Row) -> TaskExample:
        tags = listed(self.cell(row, "tags")) if self.is_labelled else []
        if "tokens" not in self.columns:
            text = str(row.get(self.columns["text"], ""))
            places = [_within(text, start, end) for start, end in self._word_places(text, row)]
        else:
            words = listed(self.cell(row, "tokens"))
            text = " ".join(words)
            places = [Mention(*span) for span in word_places(words)]
        if not places:
            raise ValueError("no word")
        if self.is_labelled and len(places) != len(tags):
            raise ValueError(f"{len(places)} words with {len(tags)} tags")
        return TaskExample(self._linked(text, row, line), tuple(tags), tuple(places))

    def _word_places(self, text: str, row: Row) -> Sequence[tuple[int, int]]:
        """The characters of each word: those of the file, else what blanks separate."""
        value = self.cell(row, "targets")
        if value in (None, "") and not self.is_labelled:
            return [word.span() for word in re.finditer(r"\S+", text)]
        return cast(Sequence[tuple[int, int]], value)


def _within(text: str, start: Any, end: Any) -> Mention:
    try:
        first, stop = int(start), int(end)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"start {start!r} and end {end!r} are not numbers") from None
    if not 0 <= first < stop <= len(text):
        raise ValueError(
            f"characters {first} to {stop} are not in a text of {len(text)}; end is exclusive"
        )
    return Mention(first, stop)


def _is_inside_word(text: str, mention: Mention) -> bool:
    """Whether a mention begins or ends within a word of spaced letters, or at a blank."""
    start, end = mention.start, mention.end
    ends = (text[start - 1 : start + 1] if start else "", text[end - 1 : end + 1])
    is_cut = any(len(pair) == 2 and pair.isalnum() and pair.isascii() for pair in ends)
    return is_cut or text[start].isspace() or text[end - 1].isspace()


def listed(value: Any) -> list[str]:
    """Words or tags: a list, JSON of one, or separated by blanks."""
    if isinstance(value, str) and value.startswith("["):
        value = json.loads(value)
    parts = value if isinstance(value, list) else str(value or "").split()
    return [str(part) for part in parts]


def text_rows(path: Path, report: DamageReport) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Each row's line, text and other columns; ConfigError where no column is one of texts.

    A row without a text is rejected.
    """
    column: str | None = None
    for line, raw, row in table_rows(path, report):
        if column is None:
            column = columns_of(list(row), {}, str(path)).get("text")
            if column is None:
                raise ConfigError(
                    f"{path} has no column of texts ({', '.join(COLUMNS['text'])}); it has "
                    f"{', '.join(row)}"
                )
        if not str(row[column]).strip():
            report.reject(str(path), line, 0, "no text", raw)
            continue
        yield line, row[column], {name: row[name] for name in row if name != column}


# ---- rows ----------------------------------------------------------------------------------------
_Numbered = tuple[int, bytes, Row]


def table_rows(path: Path, report: DamageReport) -> Iterator[_Numbered]:
    """Each row of a CSV, TSV or JSON lines file: its line, its bytes, its cells by column."""
    if path.is_dir():
        is_graph = (path / "manifest.json").is_file()
        what = "the folder of a graph, which belongs to --kg" if is_graph else "a folder"
        raise ConfigError(f"{path} is {what}; give a file of labelled texts")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if any(suffix in JSON_LINES for suffix in suffixes):
        return _json_rows(path, report)
    if ".csv" not in suffixes and holds_tagged_words(path):
        return _tagged_rows(path, report)
    delimiter = next((DELIMITERS[s] for s in reversed(suffixes) if s in DELIMITERS), None)
    if delimiter is None and {*suffixes} <= COMPRESSED:
        first = next((raw for _, _, raw in read_lines(path, report)), b"")
        if first.startswith(b"{"):
            return _json_rows(path, report)
        delimiter = "\t" if b"\t" in first else ","
    if delimiter is None:
        raise ConfigError(
            f"{path} is not named .csv, .tsv or .jsonl, and does not hold a word and its tag in "
            "each line (CoNLL); save it as one of these"
        )
    return _cells(path, delimiter, report)


def _tagged_rows(path: Path, report: DamageReport) -> Iterator[_Numbered]:
    """A row of words and tags for each sentence of a CoNLL file."""
    for line, words, tags in tagged_sentences(path, report):
        yield line, " ".join(words).encode(), {"tokens": words, "tags": tags}


def _json_rows(path: Path, report: DamageReport) -> Iterator[_Numbered]:
    for line, offset, raw in read_lines(path, report):
        if not raw.strip():
            report.n_blank += 1
            continue
        try:
            row = json.loads(raw)
        except (ValueError, RecursionError) as error:
            report.reject(str(path), line, offset, f"no JSON: {error}", raw)
            continue
        if not isinstance(row, dict):
            report.reject(str(path), line, offset, "no JSON object", raw)
            continue
        yield line, raw, row


def _cells(path: Path, delimiter: str, report: DamageReport) -> Iterator[_Numbered]:
    """Rows of a CSV or TSV; a quoted cell may go on over lines."""
    numbers: list[int] = [0]
    raw_lines = read_lines(path, report)
    first = list(islice(raw_lines, 1))

    def lines() -> Iterator[str]:
        for number, _, raw in chain(first, raw_lines):
            numbers[0] = number
            yield raw.decode() + "\n"

    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    delimiter, n_before = _delimiter(path, delimiter, first[0][2] if first else b"")
    reader = csv.reader(lines(), delimiter=delimiter, quoting=quoting, strict=True)
    header: list[str] | None = None
    while True:
        start = numbers[0] + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ConfigError(f"{path}:{start}: {error}; a cell with quotes is quoted") from error
        if start <= n_before or not any(cell.strip() for cell in cells):
            report.n_blank += 1
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            _require_different(header, path)
            report.n_comment += 1
            continue
        raw = delimiter.join(cells).encode()
        if len(cells) != len(header):
            reason = f"{len(cells)} cells under a header of {len(header)}"
            report.reject(str(path), start, 0, reason, raw)
            continue
        yield start, raw, dict(zip(header, cells, strict=True))


def _delimiter(path: Path, usual: str, first: bytes) -> tuple[str, int]:
    """The delimiter of a table whose first line is `first`, and the number of lines before its
    header.

    It is the usual one of its name, unless that line has none of it: other programs write `;`.
    """
    if usual.encode() in first:
        return usual, 0
    start = csv_start(path, DamageReport(DamagePolicy.SKIP), None, MAX_LINE_BYTES)
    return start.delimiter, start.separator_line


def _require_different(header: Sequence[str], path: Path) -> None:
    """Raise `ConfigError` for two columns of one name, of which one would be lost."""
    again = [name for name, n in Counter(header).items() if n > 1 and name]
    if again:
        raise ConfigError(f"{path} has several columns called {again[0]!r}; rename all but one")


# ---- writing -------------------------------------------------------------------------------------
def write_examples(
    examples: Iterable[TaskExample],
    path: Path,
    *,
    kind: str,
    force: bool = False,
    candidates: int | None = MOST_CANDIDATES,
) -> int:
    """Write examples as JSON lines that `read_table` reads; return their number.

    A link is written as `kept link` does, with at most so many `candidates` (None: all), so such a
    file is one of linked texts, too.
    """
    lines = (_line(example, kind, candidates) for example in examples)
    return write_lines(path, lines, force=force)


def _line(example: TaskExample, kind: str, candidates: int | None) -> bytes:
    fields = json.loads(to_json(example.linked, candidates))
    if example.targets:
        fields["targets"] = [[target.start, target.end] for target in example.targets]
    if kind == TAGGING:
        fields["tags"] = list(example.labels)
    elif kind == TYPING:
        fields["labels"] = list(example.labels)
    elif kind == QUESTION:
        fields = {"question": fields.pop("text"), "answer": list(example.labels), **fields}
        fields |= {} if example.source is None else {"entity": example.source}
    else:
        fields["label"] = example.labels[0]
    if kind == RELATION:
        ends = [example.linked.text[t.start : t.end] for t in example.targets]
        fields |= {"head": ends[0], "tail": ends[1]}
    if example.pair is not None:
        fields["pair"] = list(example.pair)
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
