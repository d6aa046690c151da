"""How deep a document nests, found by one linear scan before a parser that recurses meets it.

Strings, comments and the like are distinguished from brackets as the format's grammar does; a
document that breaks the grammar gets some answer, and its parser the last word.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from kg_loaders.budget import FREE_BYTES, ReaderBudget
from kg_loaders.errors import SourceError

BLOCK = 1 << 18
Data = bytes | mmap.mmap

_SINGLE_BYTE = re.compile(rb"utf-?8|(us-)?ascii|iso-8859-\d+|latin-?1|windows-125\d", re.I)
_ENCODING = re.compile(rb"<\?xml[^<>]*?\sencoding\s*=\s*[\"']([^\"']*)[\"']")
_ENTITY = re.compile(rb"<!\s*ENTITY", re.I)
_CHARACTERS = rb"(?:[^%s<&%%]|&#(?:x[0-9A-Fa-f]{1,6}|[0-9]{1,7});)*"
_FLAT_ENTITY = re.compile(
    rb"<!ENTITY\s+([A-Za-z_][A-Za-z0-9_.-]*)\s+"
    rb"(?:\"(" + _CHARACTERS % b'"' + rb")\"|'(" + _CHARACTERS % b"'" + rb")')\s*>"
)
_REFERENCE = re.compile(rb"&([A-Za-z_][A-Za-z0-9_.-]*);")
_CHARACTER = re.compile(rb"&#(?:x([0-9A-Fa-f]+)|([0-9]+));")
_MARKUP = frozenset(b"&%<")
"""Characters that a reference to them would put into an entity's text as markup."""
XML_TOKEN = re.compile(
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


def check_json(location: str, data: Data, budget: ReaderBudget) -> None:
    """Raise `BudgetError` for a JSON document with too many levels or values."""
    budget.check(location, json_shape(data)._asdict())


def check_xml(location: str, data: Data, budget: ReaderBudget) -> dict[bytes, bytes]:
    """Return the entities of XML; raise `BudgetError` where they nest, or anything grows too large.

    Raises `SourceError` for the encoding: the scan reads the bytes as ASCII, and an encoding that
    could hide a declaration from it is refused.
    """
    if fault := xml_encoding_fault(data):
        raise SourceError(f"{location}: {fault}; convert it to UTF-8 first")
    entities, n_other = flat_entities(data)
    budget.check(location, {"entities": n_other})
    n_bytes = len(data) + sum(
        len(entities.get(reference[1], b"")) for reference in _REFERENCE.finditer(data)
    ) if entities else 0  # fmt: skip
    budget.check(location, {"document_bytes": n_bytes})
    if n_bytes > max(FREE_BYTES, budget.expansion * len(data)):
        what = f"its entities unfold it to {n_bytes} bytes, from {len(data)}"
        raise budget.error(location, "expansion", what)
    budget.check(location, {"depth": xml_depth(data)})
    return entities


def flat_entities(data: Data) -> tuple[dict[bytes, bytes], int]:
    """Return the entities that are plain text, longest value first, and how many others there are.

    Others are made of entities, hold markup, lie in other files, or are parameters of a DTD: these
    may grow without bound, or read files.

    >>> flat_entities(b"<!ENTITY a 'http://a.example/'><!ENTITY b '&a;&a;'>")
    ({b'a': b'http://a.example/'}, 1)
    """
    entities: dict[bytes, bytes] = {}
    n_other = 0
    for declared in _ENTITY.finditer(data):
        flat = _FLAT_ENTITY.match(data, declared.start())
        if flat is None or _holds_markup(value := flat[2] or flat[3] or b""):
            n_other += 1
        elif len(value) >= len(entities.get(flat[1], b"")):
            entities[flat[1]] = value
    return entities, n_other


def quote_doubly(data: mmap.mmap) -> None:
    """Put double quotes around the values of entities that stand in single ones.

    That is the same XML, and pyoxigraph takes double quotes alone.
    """
    for declared in _ENTITY.finditer(data):
        flat = _FLAT_ENTITY.match(data, declared.start())
        if flat is not None and flat[3] is not None and b'"' not in flat[3]:
            data[flat.start(3) - 1] = data[flat.end(3)] = ord('"')


def _holds_markup(value: bytes) -> bool:
    codes = (
        int(match[1], 16) if match[1] else int(match[2]) for match in _CHARACTER.finditer(value)
    )
    return any(code in _MARKUP for code in codes)


def expanded(text: bytes, entities: Mapping[bytes, bytes]) -> bytes:
    """Return a text of XML with the entities in their places."""
    return _REFERENCE.sub(lambda match: entities.get(match[1], match[0]), text)


def check_n3(location: str, data: Data, budget: ReaderBudget) -> None:
    """Raise `BudgetError` for N3 with too many levels."""
    budget.check(location, {"depth": n3_depth(data)})


def json_shape(data: Data) -> JsonShape:
    """The depth and the size of the outer levels of a JSON document."""
    import numpy as np  # here: the parser's process imports this module; numpy doubles its start

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
        for token in XML_TOKEN.finditer(data):
            if token[1]:
                yield -1
            elif token[2] and not token[2].endswith(b"/>"):
                yield 1

    return max(accumulate(steps()), default=0)


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
