"""How deep a document nests, found by one linear scan before a parser that recurses meets it.

Strings, comments and the like are distinguished from brackets as the format's grammar does; a
document that breaks the grammar gets some answer, and its parser the last word.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from kg_loaders.errors import SourceError
from kg_loaders.reading.budget import ReaderBudget

BLOCK = 1 << 18
Data = bytes | mmap.mmap

_SINGLE_BYTE = re.compile(rb"utf-?8|(us-)?ascii|iso-8859-\d+|latin-?1|windows-125\d", re.I)
_ENCODING = re.compile(rb"<\?xml[^<>]*?\sencoding\s*=\s*[\"']([^\"']*)[\"']")
_ENTITY = re.compile(rb"<!\s*ENTITY", re.I)
_XML = re.compile(
    rb"<!--[\s\S]*?(?:-->|\Z)|<!\[CDATA\[[\s\S]*?(?:\]\]>|\Z)|<\?[\s\S]*?(?:\?>|\Z)|<!"
    rb"|(</)|(<(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>)"
)
_N3 = re.compile(
    rb'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+(?:"""|\Z)|\'\'\'(?:[^\'\\]++|\\[\s\S]|\'(?!\'\'))*+'
    rb"(?:'''|\Z)|\"(?:[^\"\\\n]++|\\.)*+\"?|'(?:[^'\\\n]++|\\.)*+'?"
    rb"|<[^\s<>\"{}|^`\\]*>|#[^\n]*|([\[({])|([\])}])"
)


class JsonShape(NamedTuple):
    """`rows`: commas in the outer two levels, so about the number of values there."""

    depth: int
    rows: int


def check_json(place: str, data: Data, budget: ReaderBudget) -> None:
    """Raise `BudgetError` for a JSON document with too many levels or values."""
    budget.check(place, json_shape(data)._asdict())


def check_xml(place: str, data: Data, budget: ReaderBudget) -> None:
    """Raise `BudgetError` for XML with entities or too many levels, `SourceError` for its encoding.

    The scan reads the bytes as ASCII; an encoding that could hide a declaration from it is refused.
    """
    if fault := xml_encoding_fault(data):
        raise SourceError(f"{place}: {fault}; convert it to UTF-8 first")
    budget.check(place, {"entities": n_entities(data)})
    budget.check(place, {"depth": xml_depth(data)})


def check_n3(place: str, data: Data, budget: ReaderBudget) -> None:
    """Raise `BudgetError` for N3 with too many levels."""
    budget.check(place, {"depth": n3_depth(data)})


def json_shape(data: Data) -> JsonShape:
    """The depth and the size of the outer levels of a JSON document."""
    deepest, n_rows, depth, in_string, escaped = 0, 0, 0, False, False
    for start in range(0, len(data), BLOCK):
        block = data[start : start + BLOCK]
        if escaped:
            block = b" " + block[1:]
        block = block.replace(b"\\\\", b"  ")
        escaped = block.endswith(b"\\")
        signs = np.frombuffer(block.replace(b'\\"', b"  "), np.uint8)
        quotes = np.cumsum(signs == ord('"'), dtype=np.int32) + in_string
        outside = quotes % 2 == 0
        in_string = bool(quotes[-1] % 2)
        low = signs | 0x20  # "[" and "{" differ in this bit only, so do "]" and "}"
        steps = (low == ord("{")).astype(np.int32) - (low == ord("}"))
        depths = np.cumsum(steps * outside, dtype=np.int32) + depth
        deepest, depth = max(deepest, int(depths.max())), int(depths[-1])
        n_rows += int(((signs == ord(",")) & outside & (depths <= 2)).sum())
    return JsonShape(deepest, n_rows)


def xml_depth(data: Data) -> int:
    """The most elements that are open at once."""

    def steps() -> Iterator[int]:
        for token in _XML.finditer(data):
            if token[1]:
                yield -1
            elif token[2] and not token[2].endswith(b"/>"):
                yield 1

    return max(accumulate(steps()), default=0)


def n_entities(data: Data) -> int:
    """How many entities an XML document declares, wherever it does."""
    return sum(1 for _ in _ENTITY.finditer(data))


def xml_encoding_fault(data: Data) -> str:
    """Why this reader and the parser might read different characters, or ""."""
    for declared in _ENCODING.finditer(data):
        if not _SINGLE_BYTE.fullmatch(declared[1].strip()):
            return f"its encoding is {declared[1][:80].decode('latin-1')!r}"
    return "it holds NUL bytes" if data.find(b"\0") >= 0 else ""


def n3_depth(data: Data) -> int:
    """The most brackets (of lists, blank nodes and formulas) that are open at once."""
    steps = (1 if token[1] else -1 for token in _N3.finditer(data) if token[1] or token[2])
    return max(accumulate(steps), default=0)
