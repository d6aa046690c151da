"""`read_lines`: the lines of a file, compressed or not, whatever is wrong with it.

`kg_loaders.reading.unpacking` says which compression and which archives are unpacked.

UTF-16 with its byte-order mark is read as UTF-8, as is an encoding that is named
(`kg_loaders.reading.encodings`); places then count the converted bytes.

Cost is linear in the bytes, memory is bounded by `max_line_bytes` and the block size. A file that
unfolds beyond the ratio of the report's `ReaderBudget` is a `BudgetError`. Lines end at LF and
nowhere else; the CR of a CRLF goes with it, any other CR stays. A byte-order mark at the start of
the file goes.

A damaged stream (cut, junk after the last member, not what its suffix says) is a `SourceError`
under the policy `stop`. Under the other policies all whole lines before the damage count, and the
damage is one more line of the file, rejected: its raw bytes are the unfinished line before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.disk.arrow import reuse_freed_memory
from kg_loaders.errors import SourceError
from kg_loaders.reading.encodings import as_utf8, document_as_utf8
from kg_loaders.reading.unpacking import Blocks, StreamDamageError, unpacked

MAX_LINE_BYTES = 16 * 1024 * 1024
LINE_BLOCK_BYTES = 3 * 1024 * 1024
"""What is split at once by readers that split many lines at once."""
BOM = b"\xef\xbb\xbf"
JSON_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a line that is not the JSON that is wanted; RecursionError: too deep."""


class _Kind(Enum):
    LINES = auto()  # whole lines, LF included save at the end of the file
    LONG = auto()  # the start of a line that is already too long
    MORE = auto()  # more of that line; its end if it ends in LF
    DAMAGE = auto()  # what was pending when the stream broke


_Part = tuple[_Kind, bytes, str]


class Span(NamedTuple):
    """Whole lines of a plain file: bytes from `start` on and before `end`, and the first's number.

    `end` is None at the end of the file.
    """

    start: int = 0
    end: int | None = None
    first_line: int = 1


WHOLE = Span()


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines of a file: the number of the first, its offset, all bytes with line ends.

    Nothing is checked or counted yet: `checked_lines` does that for the lines it is asked for.
    `ends`, where each line ends in `data`, are known if lines are long.
    """

    first_line: int
    offset: int
    data: bytes
    ends: Sequence[int] | None = None

    @property
    def n_lines(self) -> int:
        if self.ends is not None:
            return len(self.ends)
        n_ends = int(np.count_nonzero(np.frombuffer(self.data, np.uint8) == ord("\n")))
        return n_ends + (not self.data.endswith(b"\n"))

    def indices_of(self, line: bytes) -> list[int]:
        """Return which lines are `line`, from 0; a byte-order mark and a CR do not count."""
        indices = []
        position = self.data.find(line) if line else -1
        while position >= 0:
            end = position + len(line)
            has_mark = self.data[max(position - len(BOM), 0) : position] == BOM
            start = position - len(BOM) if has_mark else position
            begins = start == 0 or self.data[start - 1] == ord("\n")
            if begins and self.data[end : end + 2].removeprefix(b"\r")[:1] in (b"", b"\n"):
                indices.append(self.data.count(b"\n", 0, start))
            position = self.data.find(line, end)
        return indices

    def with_line_ends(self) -> bytes:
        """The bytes, the last line ended too, and without CR where every line ends in CRLF."""
        if not self.data.endswith(b"\n"):
            return self.data + b"\n"
        n_cr = self.data.count(b"\r")
        if n_cr and n_cr == self.data.count(b"\n") == self.data.count(b"\r\n"):
            return self.data.replace(b"\r\n", b"\n")
        return self.data

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """`(line number, offset, line without its LF)` of every line."""
        lines = self.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        offset = self.offset
        for line_no, line in enumerate(lines, self.first_line):
            yield line_no, offset, line
            offset += len(line) + 1


def read_lines(
    path: str | Path,
    report: DamageReport,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    nul_is_text: bool = False,
    encoding: str | None = None,
) -> Iterator[tuple[int, int, bytes]]:
    """Yield `(line number from 1, offset of its first byte, line without its end)`.

    Counts `report.n_lines` and rejects lines that are too long, are not UTF-8 or hold a NUL byte
    (unless `nul_is_text`).
    Offsets count the decompressed bytes. Yielded lines decode as UTF-8.
    """
    blocks = read_blocks(
        path, report, max_line_bytes=max_line_bytes, block_bytes=0, encoding=encoding
    )
    for block in blocks:
        yield from checked_lines(
            str(path), block, report, max_line_bytes=max_line_bytes, nul_is_text=nul_is_text
        )


def checked_lines(
    file: str,
    block: LineBlock,
    report: DamageReport,
    *,
    chosen: NDArray[np.bool_] | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    nul_is_text: bool = False,
) -> Iterator[tuple[int, int, bytes]]:
    """The lines of a block as `read_lines` yields them; with `chosen [line]` only those."""
    if chosen is not None:
        report.read_singly += int(np.count_nonzero(chosen))
    suspect = bool(fault_of(block.data, nul_is_text))
    crlf = b"\r" in block.data and b"\r\n" in block.data  # one byte is sought far faster than two
    lines, n_bytes = block.lines(), len(block.data)
    for line_no, start, line in lines if chosen is None else compress(lines, chosen.tolist()):
        report.n_lines += 1
        if crlf and line.endswith(b"\r") and start - block.offset + len(line) < n_bytes:
            line = line[:-1]
        broken = ""
        if len(line) > max_line_bytes:
            broken = _too_long(max_line_bytes)
        elif suspect:
            broken = fault_of(line, nul_is_text)
        if broken:
            report.reject(file, line_no, start, broken, line)
        else:
            yield line_no, start, line


def read_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    block_bytes: int | None = None,
    span: Span = WHOLE,
    lines_are_long: bool = False,
    encoding: str | None = None,
) -> Iterator[LineBlock]:
    """Yield all lines of a file, or of a `span`, in blocks of about `block_bytes` (default: 3 MiB).

    Of lines that are mostly longer than a thousand bytes the ends are sought.
    Counts and rejects only what is in no block: lines much too long, and damage of the stream.
    """
    reuse_freed_memory()
    file, line_no, offset = str(path), span.first_line, span.start
    blocks = unpacked(Path(path), report.budget, report.progress, start=span.start, end=span.end)
    if span == WHOLE:  # spans are of UTF-8 alone
        blocks = as_utf8(blocks, encoding, file)
    parts = _parts(blocks, max_line_bytes)
    for kind, data, reason in _gathered(
        parts, LINE_BLOCK_BYTES if block_bytes is None else block_bytes
    ):
        if kind is _Kind.MORE:
            report.set_aside(data)
            offset += len(data)
        elif kind is _Kind.LINES:
            if offset == 0 and data.startswith(BOM):
                data, offset = data[len(BOM) :], len(BOM)
            if data:
                ends = _line_ends(data) if lines_are_long else None
                block = LineBlock(line_no, offset, data, ends)
                line_no += block.n_lines
                offset += len(data)
                yield block
        else:
            if kind is _Kind.DAMAGE and report.policy is DamagePolicy.STOP:
                raise SourceError(
                    f"{file}, decompressed byte {offset + len(data)}: {reason}; fetch the file "
                    "again, or load with --damage skip to keep the whole lines before the damage"
                )
            report.n_lines += 1
            report.reject(file, line_no, offset, reason, data, more=kind is _Kind.LONG)
            line_no += 1
            offset += len(data)


def read_whole(path: str | Path, budget: ReaderBudget | None = None) -> bytes:
    """Every unpacked byte, as UTF-8; BudgetError, or SourceError for what is missing or damaged."""
    budget = budget or ReaderBudget.from_environment()
    parts: list[bytes] = []
    n_bytes = 0
    try:
        for block in document_as_utf8(unpacked(Path(path), budget)):
            parts.append(block)
            n_bytes += len(block)
            budget.check(str(path), {"document_bytes": n_bytes})
    except StreamDamageError as damage:
        raise SourceError(f"{path}: {damage}; fetch the file again") from damage
    return b"".join(parts)


def _line_ends(data: bytes) -> list[int]:
    """Where each line of `data` ends, by a search for each, which is the fastest if few end."""
    ends, find = [], data.find
    end = find(b"\n")
    while end >= 0:
        ends.append(end)
        end = find(b"\n", end + 1)
    if not data.endswith(b"\n"):
        ends.append(len(data))
    return ends


def _too_long(limit: int) -> str:
    return f"longer than {limit} bytes"


def fault_of(line: bytes, nul_is_text: bool = False) -> str:
    """What is wrong with the bytes of a line, or of many: a NUL byte, no UTF-8; "" if nothing."""
    if not nul_is_text and b"\0" in line:
        return "NUL byte"
    if line.isascii():
        return ""
    try:
        line.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    return ""


def _gathered(parts: Iterator[_Part], block_bytes: int) -> Iterator[_Part]:
    """The same parts, lines that follow each other joined up to about `block_bytes`."""
    lines: list[bytes] = []
    n_bytes = 0
    for part in parts:
        if part[0] is _Kind.LINES:
            lines.append(part[1])
            n_bytes += len(part[1])
        if lines and (part[0] is not _Kind.LINES or n_bytes >= block_bytes):
            joined = b"".join(lines)
            lines, n_bytes = [], 0  # let go of before the block is worked on
            yield _Kind.LINES, joined, ""
        if part[0] is not _Kind.LINES:
            yield part
    if lines:
        yield _Kind.LINES, b"".join(lines), ""


def _parts(blocks: Blocks, limit: int) -> Iterator[_Part]:
    """Regroup blocks at line ends, holding back at most `limit` bytes and a block."""
    pending: list[bytes] = []
    n_pending, in_long = 0, False
    try:
        for block in blocks:
            if in_long:
                end = block.find(b"\n") + 1
                yield _Kind.MORE, block[:end] if end else block, ""
                if not end:
                    continue
                block, in_long = block[end:], False
            end = block.rfind(b"\n") + 1
            if end:
                whole = block if end == len(block) else memoryview(block)[:end]  # copied once
                yield _Kind.LINES, b"".join([*pending, whole]), ""
                pending, n_pending, block = [], 0, block[end:]
            if block:
                pending.append(block)
                n_pending += len(block)
            if n_pending > limit + len(BOM) + len(b"\r"):
                yield _Kind.LONG, b"".join(pending), _too_long(limit)
                pending, n_pending, in_long = [], 0, True
    except StreamDamageError as damage:
        yield _Kind.DAMAGE, b"".join(pending), str(damage)
        return
    if in_long:
        yield _Kind.MORE, b"\n", ""
    elif pending:
        yield _Kind.LINES, b"".join(pending), ""
