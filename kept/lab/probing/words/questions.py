"""Analogy questions: "a is to b as c is to d", in the two forms that are around."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from entity_linking.annotations import whole_file
from kg_loaders.errors import DamageError

MSR_FIELDS = ("type", "word1", "word2", "word3", "target")


@dataclass(frozen=True, slots=True)
class Analogy:
    """A question of a section (a relation); `d` is the answer."""

    section: str
    a: str
    b: str
    c: str
    d: str


def read_analogies(path: Path) -> list[Analogy]:
    """Return the questions of a file, words in lower case, each question once.

    Either word2vec's form (`: section`, then four words a line; Mikolov et al. 2013) or, named
    `.csv`, MSR's (columns type, word1, word2, word3, target). It may be packed (`.gz`). Raises
    `DamageError` naming file, line and remedy.
    """
    try:
        lines = whole_file(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DamageError(f"{path} is not text in UTF-8: {error}; save it as such") from error
    is_csv = path.name.removesuffix(".gz").endswith(".csv")
    analogies = _of_csv(path, lines) if is_csv else _of_word2vec(path, lines)
    questions = list(dict.fromkeys(analogies))
    if not questions:
        raise DamageError(f"{path} has no question; give one a line: four words")
    return questions


def _of_word2vec(path: Path, lines: Sequence[str]) -> Iterator[Analogy]:
    section = ""
    for number, line in enumerate(lines, start=1):
        words = line.lower().split()
        if words[:1] == [":"]:
            section = " ".join(words[1:])
        elif len(words) == 4:
            yield Analogy(section, *(word.replace("_", " ") for word in words))
        elif words:
            raise DamageError(
                f"{path}, line {number}: {line[:60]!r} has {len(words)} words; a question has "
                "four, a section's name begins with ': '"
            )


def _of_csv(path: Path, lines: Sequence[str]) -> Iterator[Analogy]:
    rows = csv.DictReader(lines)
    if not {*MSR_FIELDS} <= {*(rows.fieldnames or ())}:
        raise DamageError(f"{path}, line 1: columns {rows.fieldnames}; MSR's are {MSR_FIELDS}")
    for row in rows:
        kind, *words = (row[name] for name in MSR_FIELDS)
        if not all(words) or not kind:
            raise DamageError(f"{path}, line {rows.line_num}: a cell is empty; give all five")
        yield Analogy(kind, *(word.lower() for word in words))


def pairs_of(questions: Sequence[Analogy]) -> dict[str, list[tuple[str, str]]]:
    """By section, the pairs that its questions are made of, each once.

    >>> pairs_of([Analogy("capital", "oslo", "norway", "cairo", "egypt")])
    {'capital': [('oslo', 'norway'), ('cairo', 'egypt')]}
    """
    pairs: dict[str, dict[tuple[str, str], None]] = {}
    for each in questions:
        section = pairs.setdefault(each.section, {})
        section |= dict.fromkeys(((each.a, each.b), (each.c, each.d)))
    return {name: list(word_pairs) for name, word_pairs in pairs.items()}
