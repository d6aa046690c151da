"""`read_lines`: the lines of a plain, gzip, bzip2 or Zstandard file, whatever is wrong with it.

A path that goes on inside a zip archive (`ARCHIVE.zip/MEMBER`) is that member.

Cost is linear in the bytes, memory is bounded by `max_line_bytes` and the block size. A file that
unfolds beyond the ratio of the report's `ReaderBudget` is a `BudgetError`. Lines end at LF and
nowhere else; the CR of a CRLF goes with it, any other CR stays. A byte-order mark at the start of
the file goes.

A damaged stream (cut, junk after the last member, not what its suffix says) is a `SourceError`
under the policy `stop`. Under the other policies all whole lines before the damage count, and the
damage is one more line of the file, rejected: its raw bytes are the unfinished line before it.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.budget import FREE_BYTES, ReaderBudget

MAX_LINE_BYTES = 16 * 1024 * 1024
BLOCK_BYTES = 256 * 1024
LINE_BLOCK_BYTES = 4 * 1024 * 1024
"""What is split at once by readers that split many lines at once."""
BOM = b"\xef\xbb\xbf"
JSON_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a line that is not the JSON that is wanted; RecursionError: too deep."""

Blocks = Iterator[bytes]


class _StreamDamageError(Exception):
    """A compressed stream cannot be read on; the message says why."""


class _Kind(Enum):
    LINES = auto()  # whole lines, LF included save at the end of the file
    LONG = auto()  # the start of a line that is already too long
    MORE = auto()  # more of that line; its end if it ends in LF
    DAMAGE = auto()  # what was pending when the stream broke


_Part = tuple[_Kind, bytes, str]


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines of a file: the number of the first, its offset, all bytes with line ends.

    Nothing is checked or counted yet: `checked_lines` does that for the lines it is asked for.
    """

    first_line: int
    offset: int
    data: bytes

    @property
    def n_lines(self) -> int:
        n_ends = int(np.count_nonzero(np.frombuffer(self.data, np.uint8) == ord("\n")))
        return n_ends + (not self.data.endswith(b"\n"))

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
) -> Iterator[tuple[int, int, bytes]]:
    """Yield `(line number from 1, offset of its first byte, line without its end)`.

    Counts `report.n_lines` and rejects lines that are too long, are not UTF-8 or hold a NUL byte
    (unless `nul_is_text`).
    Offsets count the decompressed bytes. Yielded lines decode as UTF-8.
    """
    for block in read_blocks(path, report, max_line_bytes=max_line_bytes, block_bytes=0):
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
    suspect, crlf = bool(fault_of(block.data, nul_is_text)), b"\r\n" in block.data
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
) -> Iterator[LineBlock]:
    """Yield all lines of a file in blocks of about `block_bytes` (default: 4 MiB).

    Counts and rejects only what is in no block: lines much too long, and damage of the stream.
    """
    file, line_no, offset = str(path), 1, 0
    parts = _parts(_blocks(Path(path), report.budget), max_line_bytes)
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
                block = LineBlock(line_no, offset, data)
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
    """Every unpacked byte; BudgetError, or SourceError for what is missing or damaged."""
    budget = budget or ReaderBudget.from_environment()
    parts: list[bytes] = []
    n_bytes = 0
    try:
        for block in _blocks(Path(path), budget):
            parts.append(block)
            n_bytes += len(block)
            budget.check(str(path), {"document_bytes": n_bytes})
    except _StreamDamageError as damage:
        raise SourceError(f"{path}: {damage}; fetch the file again") from damage
    return b"".join(parts)


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
            yield _Kind.LINES, b"".join(lines), ""
            lines, n_bytes = [], 0
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
                yield _Kind.LINES, b"".join([*pending, block[:end]]), ""
                pending, n_pending, block = [], 0, block[end:]
            if block:
                pending.append(block)
                n_pending += len(block)
            if n_pending > limit + len(BOM) + len(b"\r"):
                yield _Kind.LONG, b"".join(pending), _too_long(limit)
                pending, n_pending, in_long = [], 0, True
    except _StreamDamageError as damage:
        yield _Kind.DAMAGE, b"".join(pending), str(damage)
        return
    if in_long:
        yield _Kind.MORE, b"\n", ""
    elif pending:
        yield _Kind.LINES, b"".join(pending), ""


# ---- decompression -------------------------------------------------------------------------------
# A codec makes a decompressor of one member and feeds it; every output is bounded, so that a small
# file of long runs (a "bomb") does not fill the memory.


def _feed_zlib(member: Any, data: bytes) -> Blocks:
    while True:
        out = member.decompress(data, BLOCK_BYTES)
        yield out
        data = member.unconsumed_tail
        if not data and len(out) < BLOCK_BYTES:
            return


def _feed_bz2(member: Any, data: bytes) -> Blocks:
    yield member.decompress(data, BLOCK_BYTES)
    while not (member.eof or member.needs_input):
        yield member.decompress(b"", BLOCK_BYTES)


def _feed_zstd(member: Any, data: bytes) -> Blocks:
    yield member.decompress(data)  # of 2 KiB: at most 64 MiB, a run of 128 KiB in every 4 bytes


_Codec = tuple[str, Callable[[], Any], Callable[[Any, bytes], Blocks], int]
_CODECS: dict[str, _Codec] = {
    ".gz": ("gzip", lambda: zlib.decompressobj(wbits=31), _feed_zlib, 65536),
    ".bz2": ("bzip2", bz2.BZ2Decompressor, _feed_bz2, 65536),
    ".zst": (
        "Zstandard",
        lambda: zstandard.ZstdDecompressor().decompressobj(),
        _feed_zstd,
        2048,
    ),
}
COMPRESSED = frozenset(_CODECS)


def _blocks(path: Path, budget: ReaderBudget) -> Blocks:
    archive = next((parent for parent in path.parents if parent.suffix.lower() == ".zip"), None)
    if archive is not None and archive.is_file():
        yield from _member(archive, path.relative_to(archive).as_posix(), budget)
        return
    try:
        with path.open("rb") as stream:
            codec = _CODECS.get(path.suffix.lower())
            if codec is None:
                while block := stream.read(BLOCK_BYTES):
                    yield block
            else:
                n_out = 0
                for block in _decompress(stream, codec):
                    n_out += len(block)
                    check_expansion(str(path), n_out, stream.tell(), budget)
                    yield block
    except SourceError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise SourceError(f"{path!s} cannot be read: {_why(error)}") from error


def check_expansion(place: str, n_out: int, n_in: int, budget: ReaderBudget) -> None:
    """Raise `BudgetError` when `n_in` bytes have unfolded to too many."""
    if n_out > FREE_BYTES and n_out > budget.expansion * n_in:
        budget.check(place, {"expansion": n_out // max(n_in, 1)})


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


_DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, OverflowError,
)  # fmt: skip
ENCRYPTED = 0x1  # bit of a member's flags


def _member(archive: Path, name: str, budget: ReaderBudget) -> Blocks:
    try:
        with zipfile.ZipFile(archive) as container:
            info = container.getinfo(name)
            if info.flag_bits & ENCRYPTED:
                raise SourceError(
                    f"{archive}, member {name!r} is encrypted; unpack it with its password and "
                    "name the unpacked file"
                )
            n_out, n_in = 0, min(info.compress_size, archive.stat().st_size)
            with container.open(info) as stream:
                while block := stream.read(BLOCK_BYTES):
                    n_out += len(block)
                    check_expansion(f"{archive}/{name}", n_out, n_in, budget)
                    yield block
    except SourceError:
        raise
    except KeyError as error:
        raise SourceError(f"{archive} has no member {name!r}; give one that it holds") from error
    except (NotImplementedError, RuntimeError) as error:
        raise SourceError(
            f"{archive}, member {name!r} cannot be unpacked here ({error}); unpack it yourself "
            "and name the unpacked file"
        ) from error
    except _DAMAGED as error:
        raise _StreamDamageError(f"the zip data are damaged ({_why(error)})") from error
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) is None:  # bzip2 and zip say so of their data
            raise _StreamDamageError(f"the zip data are damaged ({_why(error)})") from error
        raise SourceError(f"{archive} cannot be read: {_why(error)}") from error


def _decompress(stream: BinaryIO, codec: _Codec) -> Blocks:
    name, make, feed, n_input = codec
    member, n_members = make(), 0
    started = False  # whether the current member has been fed
    while data := stream.read(n_input):
        while data:
            if n_members and not started:
                data = data.lstrip(b"\0")  # tapes and some servers pad with zeros
                if not data:
                    break
            try:
                yield from filter(None, feed(member, data))
            except (zlib.error, OSError, ValueError, EOFError, zstandard.ZstdError) as error:
                first = not n_members and not stream.tell() > n_input
                raise _StreamDamageError(_reason(name, n_members, started, first)) from error
            started, data = True, b""
            if member.eof:
                data = member.unused_data
                member, n_members, started = make(), n_members + 1, False
    if started or not n_members:
        raise _StreamDamageError(f"the {name} data end early (cut)")


def _reason(name: str, n_members: int, started: bool, first: bool) -> str:
    if n_members and not started:
        return f"junk after the {name} data"
    return f"not {name} data, or damaged at the start" if first else f"the {name} data are damaged"
