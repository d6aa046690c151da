"""Words with tags, a word per line and a blank line after a sentence, as in CoNLL's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.reading.lines import read_lines

N_SAMPLE = 200
"""Lines by which a file is recognised."""
_TAG = re.compile(rb"O|[BILMESU]-\S+")


class TaggedWords(NamedTuple):
    """The words of a sentence, a tag for each, and the line that it begins in."""

    line: int
    words: list[str]
    tags: list[str]


def tagged_sentences(path: Path, report: DamageReport) -> Iterator[TaggedWords]:
    """The sentences of a file: first and last column of each line; other lines are rejected."""
    sentence = TaggedWords(1, [], [])
    for line, offset, raw in read_lines(path, report):
        cells = raw.decode().split()
        if not cells or cells[0] == "-DOCSTART-":
            report.n_blank += 1
            if sentence.words:
                yield sentence
            sentence = TaggedWords(line + 1, [], [])
        elif len(cells) < 2:
            report.reject(str(path), line, offset, "a word without a tag", raw)
        else:
            sentence.words.append(cells[0])
            sentence.tags.append(cells[-1])
    if sentence.words:
        yield sentence


def holds_tagged_words(path: Path) -> bool:
    """Whether the first lines of a file are words with tags such as O and B-PER."""
    report = DamageReport(policy=DamagePolicy.SKIP)
    lines = (raw.split() for _, _, raw in islice(read_lines(path, report), N_SAMPLE))
    cells = [each for each in lines if each and each[0] != b"-DOCSTART-"]
    return bool(cells) and all(len(each) > 1 and _TAG.fullmatch(each[-1]) for each in cells)
