"""`python -m tests.docs.prose [PAGE …]`: the glossary's words and the long sentences of the pages.

Only prose is read: paragraphs, headings, list items, and cells of tables that hold sentences. Code,
targets of links, comments and tables of numbers are left out. Code within a sentence counts as one
word. `glossary.tsv` has one line per word to avoid: a regular expression, what to write instead,
and the phrases in which the word is right.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
GLOSSARY = Path(__file__).with_name("glossary.tsv")
PLACES = (
    "README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "benchmarks/**/*.md",
    "experiments/**/*.md", "tests/**/README.md", "kg_loaders/**/README.md",
)  # fmt: skip
MOST_WORDS = 30
FEWEST_WORDS_OF_CELLS = 8
CODE = "‹code›"
WORD = re.compile(r"[^\W_]|‹")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|et al|vs|cf|Fig|Sec|Eq|approx)\.$")
BOUNDARY = re.compile(r"[.!?][\"”’)*]*\s+(?=[\"“‘(*]*(?:[A-Z0-9‹]|kept\b))")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a page, with the line on which it begins."""

    path: Path
    line: int
    text: str

    @property
    def n_words(self) -> int:
        """The number of its words; code counts as one."""
        return sum(bool(WORD.search(part)) for part in self.text.split())

    @property
    def is_long(self) -> bool:
        """Whether it has too many words; a list that is mostly code is not a sentence."""
        return self.n_words > MOST_WORDS and 2 * self.text.count(CODE) <= self.n_words


@dataclass(frozen=True)
class Term:
    """A word to avoid: its pattern, what to write instead, the phrases in which it is right."""

    written: re.Pattern[str]
    term: str
    allowed: re.Pattern[str] | None

    def hits(self, text: str) -> list[str]:
        """Return the places in a text at which the word is used and should not be."""
        allowed = [] if self.allowed is None else [m.span() for m in self.allowed.finditer(text)]
        return [
            hit.group()
            for hit in self.written.finditer(text)
            if not any(start <= hit.start() and hit.end() <= end for start, end in allowed)
        ]


def glossary() -> list[Term]:
    """Return the lines of the glossary."""
    with GLOSSARY.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Term(
            _pattern(row["written"]),
            row["term"],
            _pattern(row["allowed"]) if row["allowed"] else None,
        )
        for row in rows
    ]


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def pages() -> list[Path]:
    """Return the pages that people read, sorted; those that programs write are among them."""
    return sorted({path for pattern in PLACES for path in ROOT.glob(pattern)})


def sentences(text: str, path: Path) -> list[Sentence]:
    """Return the sentences of a page in Markdown, in order."""
    return [
        Sentence(path, line + block.count("\n", 0, start), " ".join(block[start:end].split()))
        for line, block, is_cell in _blocks(text)
        for start, end in _spans(block)
        if not is_cell or len(block.split()) >= FEWEST_WORDS_OF_CELLS
    ]


def _blocks(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the first line, the words and whether it is a table's cell, for each block."""
    line, is_cell = 1, False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = token.map[0] + 1 if token.map else line
        if token.type in ("td_open", "th_open", "td_close", "th_close"):
            is_cell = token.nesting == 1
        elif token.type == "inline":
            yield line, _words(token.children or ()), is_cell


def _words(tokens: Iterable[Token]) -> str:
    parts = {"softbreak": "\n", "hardbreak": "\n", "code_inline": CODE}
    return "".join(
        parts.get(token.type, token.content if token.type == "text" else "") for token in tokens
    )


def _spans(block: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence of a block begins and ends."""
    start = 0
    for boundary in BOUNDARY.finditer(block):
        if ABBREVIATION.search(block, start, boundary.start() + 1):
            continue
        yield start, boundary.end()
        start = boundary.end()
    if block[start:].strip():
        yield start, len(block)


def share_of_long(each: Sequence[Sentence]) -> float:
    """Return the share of sentences that are long."""
    return sum(sentence.is_long for sentence in each) / max(1, len(each))


def report(paths: Sequence[Path]) -> Iterator[str]:
    """Yield one line per hit, one per long sentence, and the totals."""
    terms, everything, n_hits = glossary(), [], 0
    for path in paths:
        of_page = sentences(path.read_text(encoding="utf-8"), path)
        everything += of_page
        for sentence in of_page:
            location = f"{path.relative_to(ROOT)}:{sentence.line}"
            for term in terms:
                for hit in term.hits(sentence.text):
                    n_hits += 1
                    yield f"{location}: “{hit}”: write {term.term}"
            if sentence.is_long:
                yield f"{location}: {sentence.n_words} words: {sentence.text[:70]}…"
        name, share = path.relative_to(ROOT), share_of_long(of_page)
        yield f"{name}: {share:.1%} of {len(of_page)} sentences are long"
    share, n = share_of_long(everything), len(everything)
    yield f"{n_hits} words of the glossary"
    yield f"{share:.1%} of {n} sentences have more than {MOST_WORDS} words"


def main() -> None:
    """Print the report on the pages that are named, or on all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    named = [path.resolve() for path in parser.parse_args().pages]
    sys.stdout.writelines(f"{line}\n" for line in report(named or pages()))


if __name__ == "__main__":
    main()
