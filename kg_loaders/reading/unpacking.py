"""`unpacked`: the bytes of a plain, gzip, bzip2 or Zstandard file, or of a member of a zip archive.

Every output is bounded, and a file that unfolds beyond the ratio of the `ReaderBudget` is a
`BudgetError`.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from kg_loaders.disk.kinds import require_file_or_folder
from kg_loaders.errors import SourceError
from kg_loaders.reading.budget import FREE_BYTES, ReaderBudget

BLOCK_BYTES = 256 * 1024
SPAN_BLOCK_BYTES = 8 * 1024 * 1024
"""Of a span of a plain file, which is then cut up at once: nothing of it is copied."""

Blocks = Iterator[bytes]
Progress = Callable[[int], None]
"""Is told how many bytes of a file, as it lies on the disk, have been read so far."""


class StreamDamageError(Exception):
    """A compressed stream cannot be read on; the message says why."""


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


def unpacked(
    path: Path,
    budget: ReaderBudget,
    progress: Progress | None = None,
    *,
    start: int = 0,
    end: int | None = None,
) -> Blocks:
    """Yield the unpacked bytes of a file, `BLOCK_BYTES` or fewer at once.

    Of a plain file alone those from `start` on and before `end`, then `SPAN_BLOCK_BYTES` at once.

    Raises `SourceError` for what cannot be read, `StreamDamageError` for what cannot be unpacked.
    """
    archive = next((parent for parent in path.parents if parent.suffix.lower() == ".zip"), None)
    if archive is not None and archive.is_file():
        yield from _member(archive, path.relative_to(archive).as_posix(), budget)
        return
    require_file_or_folder(path)
    try:
        with path.open("rb") as stream:
            codec = _CODECS.get(path.suffix.lower())
            if codec is None:
                stream.seek(start)
                left = sys.maxsize if end is None else end - start
                at_once = BLOCK_BYTES if end is None else SPAN_BLOCK_BYTES
                while block := stream.read(min(at_once, left)):
                    left -= len(block)
                    yield block
                    if progress:
                        progress(stream.tell())
            else:
                n_out = 0
                for block in _decompress(stream, codec):
                    n_out += len(block)
                    check_expansion(str(path), n_out, stream.tell(), budget)
                    yield block
                    if progress:
                        progress(stream.tell())
    except SourceError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise SourceError(f"{path!s} cannot be read: {why(error)}") from error


def check_expansion(place: str, n_out: int, n_in: int, budget: ReaderBudget) -> None:
    """Raise `BudgetError` when `n_in` bytes have unfolded to too many."""
    if n_out > FREE_BYTES and n_out > budget.expansion * n_in:
        budget.check(place, {"expansion": n_out // max(n_in, 1)})


def why(error: Exception) -> str:
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
    except (NotImplementedError, RuntimeError) as error:  # zipfile's words for an unknown codec
        raise SourceError(
            f"{archive}, member {name!r} cannot be unpacked here ({error}); unpack it yourself "
            "and name the unpacked file"
        ) from error
    except _DAMAGED as error:
        raise StreamDamageError(f"the zip data are damaged ({why(error)})") from error
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) is None:  # bzip2 and zip say so of their data
            raise StreamDamageError(f"the zip data are damaged ({why(error)})") from error
        raise SourceError(f"{archive} cannot be read: {why(error)}") from error


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
                raise StreamDamageError(_reason(name, n_members, started, first)) from error
            started, data = True, b""
            if member.eof:
                data = member.unused_data
                member, n_members, started = make(), n_members + 1, False
    if started or not n_members:
        raise StreamDamageError(f"the {name} data end early (cut)")


def _reason(name: str, n_members: int, started: bool, first: bool) -> str:
    if n_members and not started:
        return f"junk after the {name} data"
    return f"not {name} data, or damaged at the start" if first else f"the {name} data are damaged"
