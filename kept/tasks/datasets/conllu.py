"""CoNLL-U treebanks (universaldependencies.org/format.html) as sentences with character offsets.

Strict: a sentence that does not add up is rejected as a whole, by file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines

N_COLUMNS = 10
_BLANK = re.compile(r"\s")
_DIGITS = re.compile(r"[0-9]{1,6}")
_NUMBER = re.compile(r"[0-9]{1,6}(?:[-.][0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class Word:
    """A syntactic word: `text[start:end]`, its head (a number from 1, 0 = root) and relation."""

    form: str
    start: int
    end: int
    head: int
    relation: str
    tag: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A tree over the words of `text`, in order."""

    text: str
    words: tuple[Word, ...]
    id: str = ""


class _FaultError(Exception):
    """What is wrong with a sentence, and at which of its lines (counted from 0)."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.at = at


@dataclass
class _Block:
    """The lines of one sentence; `starts` are their numbers in the file and byte offsets."""

    lines: list[str] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)


def read_conllu(path: str | Path, report: DamageReport | None = None) -> Iterator[Sentence]:
    """Every sentence of a plain or compressed file.

    Words of a multiword token lie side by side in it where their forms spell it, and all cover the
    whole of it elsewhere ("du" = "de" + "le"). Empty nodes are left out. The text is put together
    from forms and `SpaceAfter=No`, and must be the one in `# text`, where there is one, up to the
    kind of a blank.
    Without `report` the first fault raises `DamageError`; otherwise its policy decides, and a
    faulty sentence is left out.
    """
    report = DamageReport() if report is None else report
    block = _Block()
    for line_no, offset, raw in read_lines(path, report):
        line = raw.decode()
        if line:
            block.lines.append(line)
            block.starts.append((line_no, offset))
            continue
        yield from _finished(block, str(path), report)
        block = _Block()
    yield from _finished(block, str(path), report)


def _finished(block: _Block, file: str, report: DamageReport) -> Iterator[Sentence]:
    if not block.lines:
        return
    try:
        yield _sentence(block.lines)
    except _FaultError as fault:
        line_no, offset = block.starts[fault.at]
        report.reject(file, line_no, offset, str(fault), block.lines[fault.at].encode())


def _sentence(lines: list[str]) -> Sentence:
    comments = dict(_comments(lines))
    rows = [(at, _columns(line, at)) for at, line in enumerate(lines) if not line.startswith("#")]
    text, spans = _spell([(at, r) for at, r in rows if "." not in r[0]])
    words = [(at, row) for at, row in rows if _DIGITS.fullmatch(row[0])]
    if not words:
        raise _FaultError("a sentence without words", 0)
    if [row[0] for _, row in words] != [str(i) for i in range(1, len(words) + 1)]:
        at = next(at for i, (at, row) in enumerate(words, 1) if row[0] != str(i))
        raise _FaultError("word numbers do not run from 1", at)
    written = comments.get("text", text).rstrip()
    if _BLANK.sub(" ", written) != text:
        raise _FaultError(f"the words spell {text!r}", lines.index(f"# text = {comments['text']}"))
    tree = [
        Word(row[1], *spans[row[0]], _head(row, at, len(words)), row[7], row[3])
        for at, row in words
    ]
    _check_tree(tree, words[0][0])
    return Sentence(written, tuple(tree), comments.get("sent_id", ""))


def _comments(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, equals, value = line.partition(" = ")
        if equals and line.startswith("# "):
            yield name[2:], value


def _columns(line: str, at: int) -> list[str]:
    row = line.split("\t")
    if len(row) != N_COLUMNS:
        raise _FaultError(f"{len(row)} columns instead of {N_COLUMNS}", at)
    if not _NUMBER.fullmatch(row[0]):
        raise _FaultError(f"{row[0]!r} is not a word number", at)
    return row


def _spell(rows: list[tuple[int, list[str]]]) -> tuple[str, dict[str, tuple[int, int]]]:
    """The text, and the characters of every word by its number."""
    text, inside = "", 0
    spans: dict[str, tuple[int, int]] = {}
    by_number = {row[0]: row for _, row in rows}
    for at, row in rows:
        number, form = row[0], row[1]
        if _DIGITS.fullmatch(number) and int(number) <= inside:
            continue
        start, end = len(text), len(text) + len(form)
        first, is_range, last = number.partition("-")
        if is_range and int(first) != inside + 1:
            raise _FaultError(f"token {number} is not just before its first word", at)
        end_number = min(int(last or first), int(first) + len(rows))  # no more are there
        numbers = [str(i) for i in range(int(first), end_number + 1)]
        if any(name not in by_number for name in numbers) or not numbers:
            raise _FaultError(f"token {number} has words that are not there", at)
        spans |= _split(numbers, [by_number[name][1] for name in numbers], start, end, form)
        inside = int(numbers[-1])
        text += form if "SpaceAfter=No" in row[9].split("|") else f"{form} "
    return text.rstrip(), spans


def _split(
    numbers: list[str], forms: list[str], start: int, end: int, surface: str
) -> dict[str, tuple[int, int]]:
    if "".join(forms) != surface:
        return dict.fromkeys(numbers, (start, end))
    spans = {}
    for number, form in zip(numbers, forms, strict=True):
        spans[number] = (start, start + len(form))
        start += len(form)
    return spans


def _head(row: list[str], at: int, n_words: int) -> int:
    if not _DIGITS.fullmatch(row[6]) or int(row[6]) > n_words:
        raise _FaultError(f"head {row[6]!r} is not a number from 0 to {n_words}", at)
    return int(row[6])


def _check_tree(words: list[Word], first_line: int) -> None:
    """Raise unless one word is the root and every other hangs below it."""
    roots = [i for i, word in enumerate(words, 1) if word.head == 0]
    if len(roots) != 1:
        raise _FaultError(f"{len(roots)} roots instead of one", first_line)
    rooted = {0}
    for number in range(1, len(words) + 1):
        passed: set[int] = set()
        at = number
        while at not in rooted:
            if at in passed:
                raise _FaultError(f"word {number} hangs in a circle", first_line)
            passed.add(at)
            at = words[at - 1].head
        rooted |= passed
