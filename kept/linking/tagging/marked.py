"""Texts whose names are all marked, from the files that hold them.

- `.conll`, `.txt`: a word a line with its tag in the last column (B-kind, I-kind or O; IO too),
  sentences apart by blank lines, documents by -DOCSTART- lines; without these a sentence is one.
- `.json`: DocRED (Yao et al. 2019): `sents`, and in `vertexSet` the mentions of entities.
- `.jsonl`: as `kept link -o` writes them, every mention a name, of the kind NAME.

Each may be compressed (`.gz`). Kinds of several data sets meet under CoNLL's names (`KINDS`); dates
and numbers are not names. Words are joined by blanks.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_linking.errors import LinkingError

KINDS = {
    "PER": "PER", "LOC": "LOC", "ORG": "ORG", "MISC": "MISC", "NAME": "NAME",
    "PERSON": "PER", "LOCATION": "LOC", "CORPORATION": "ORG", "GROUP": "ORG",
    "CREATIVE-WORK": "MISC", "PRODUCT": "MISC", "ORGANIZATION": "ORG",
    "GPE": "LOC", "FAC": "LOC", "NORP": "MISC", "EVENT": "MISC", "WORK_OF_ART": "MISC",
}  # fmt: skip
NO_NAMES = frozenset({"TIME", "NUM", "DATE", "CARDINAL", "ORDINAL", "QUANTITY", "MONEY", "PERCENT"})
DOCUMENT = "-DOCSTART-"
FORMATS = (".conll", ".txt", ".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text and all its names: start, end and kind, sorted."""

    text: str
    spans: tuple[tuple[int, int, str], ...]


def read_marked(path: str | Path) -> list[MarkedText]:
    """The texts of a file; `LinkingError` says what is wrong with it, and in which line or text."""
    path = Path(path)
    name = path.name.removesuffix(".gz")
    ending = Path(name).suffix
    if ending not in FORMATS:
        raise LinkingError(f"{path} is called none of {', '.join(FORMATS)}; rename it")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    if ending == ".jsonl":
        return [_of_json_line(line, i, path) for i, line in enumerate(text.splitlines(), 1) if line]
    if ending == ".json":
        return [_of_docred(row, i, path) for i, row in enumerate(_rows(text, path), 1)]
    return list(_of_conll(text.split("\n"), path))


def kind_of(name: str, where: str) -> str | None:
    """The kind under CoNLL's names, None for dates and numbers."""
    kind = KINDS.get(name.upper())
    if kind is None and name.upper() not in NO_NAMES:
        raise LinkingError(
            f"{where}: kind {name!r} is none of {', '.join(sorted({*KINDS, *NO_NAMES}))}; "
            "write it so"
        )
    return kind


def _rows(text: str, path: Path) -> list[Any]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise LinkingError(f"{path} is not JSON: {error}") from error
    if not isinstance(rows, list):
        raise LinkingError(f"{path} holds no list of documents")
    return rows


def _of_json_line(line: str, number: int, path: Path) -> MarkedText:
    try:
        row = json.loads(line)
        spans = [(m["start"], m["end"], "NAME") for m in row["mentions"]]
        return MarkedText(row["text"], tuple(sorted(spans)))
    except (ValueError, LookupError, TypeError) as error:
        raise LinkingError(
            f"{path}:{number}: {error!r}; give text and mentions, as `kept link -o` does"
        ) from error


def _of_docred(row: Any, number: int, path: Path) -> MarkedText:
    text, word_spans = "", list[list[tuple[int, int]]]()
    try:
        for sentence in row["sents"]:
            sentence_words = []
            for word in sentence:
                sentence_words.append((len(text), len(text) + len(word)))
                text += word + " "
            word_spans.append(sentence_words)
        mentions = [mention for entity in row["vertexSet"] for mention in entity]
        spans = set()
        for mention in mentions:
            words = word_spans[mention["sent_id"]][slice(*mention["pos"])]
            kind = kind_of(mention["type"], f"{path}, document {number}")
            if kind is not None:
                spans.add((words[0][0], words[-1][1], kind))
    except (LookupError, TypeError) as error:
        raise LinkingError(
            f"{path}, document {number}: {error!r}; DocRED has sents and vertexSet"
        ) from error
    return MarkedText(text, tuple(sorted(spans)))


def _of_conll(lines: Iterable[str], path: Path) -> Iterator[MarkedText]:
    rows = [line.split() for line in lines]
    has_marks = any(row[:1] == [DOCUMENT] for row in rows)
    text, spans, before = "", list[tuple[int, int, str]](), "O"
    for number, row in enumerate([*rows, [DOCUMENT]], 1):
        if row[:1] == [DOCUMENT] or (not row and not has_marks):
            if text.strip():
                yield MarkedText(text, tuple(spans))
            text, spans, before = "", [], "O"
            continue
        if not row:
            text, before = text and text[:-1] + "\n", "O"  # for the blank after the last word
            continue
        if len(row) < 2:
            raise LinkingError(f"{path}:{number}: {row[0]!r} has no tag; give a word and its tag")
        word, tag = row[0], row[-1]
        mark, _, name = tag.partition("-")
        kind = None if tag == "O" else kind_of(name, f"{path}:{number}")
        span = len(text), len(text) + len(word)
        if kind is not None and mark == "I" and before == kind:
            spans[-1] = (spans[-1][0], span[1], kind)
        elif kind is not None:
            spans.append((*span, kind))
        text, before = text + word + " ", kind or "O"
