"""`unpacked`: the bytes of a file, as it is, compressed (gzip, bzip2, xz, Zstandard) or in a zip.

`x.zip` is the one file in it, `x.zip::a/b.tsv` (or `x.zip/a/b.tsv`) one of several. Members are
read where they are: no file is written, so their names lead nowhere.

Every output is bounded, and a file that unfolds beyond the ratio of the `ReaderBudget` is a
`BudgetError`.
"""

from __future__ import annotations

import bz2
import lzma
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import zstandard

from kg_loaders.budget import FREE_BYTES, ReaderBudget
from kg_loaders.damage import Progress
from kg_loaders.disk.kinds import require_file_or_folder
from kg_loaders.errors import SourceError

BLOCK_BYTES = 256 * 1024
SPAN_BLOCK_BYTES = 8 * 1024 * 1024
"""Of a span of a plain file, which is then cut up at once: nothing of it is copied."""

Blocks = Iterator[bytes]


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


def _feed_bounded(member: Any, data: bytes) -> Blocks:
    yield member.decompress(data, BLOCK_BYTES)
    while not (member.eof or member.needs_input):
        yield member.decompress(b"", BLOCK_BYTES)


def _feed_zstd(member: Any, data: bytes) -> Blocks:
    yield member.decompress(data)  # of 2 KiB: at most 64 MiB, a run of 128 KiB in every 4 bytes


XZ_MEMORY = 1 << 30
"""What unpacking xz may take: the file says how much; `xz -9` asks for 65 MiB."""
_Codec = tuple[str, Callable[[], Any], Callable[[Any, bytes], Blocks], int]
_CODECS: dict[str, _Codec] = {
    ".gz": ("gzip", lambda: zlib.decompressobj(wbits=31), _feed_zlib, 65536),
    ".bz2": ("bzip2", bz2.BZ2Decompressor, _feed_bounded, 65536),
    ".xz": (
        "xz",
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY),
        _feed_bounded,
        65536,
    ),
    ".zst": (
        "Zstandard",
        lambda: zstandard.ZstdDecompressor().decompressobj(),
        _feed_zstd,
        2048,
    ),
}
COMPRESSED = frozenset(_CODECS)
ARCHIVE = ".zip"
_MEMBER = re.compile(r"(.*?\.zip)::(.+)", re.IGNORECASE | re.DOTALL)
_ASIDE = re.compile(r"__MACOSX/|(?:.*/)?\.DS_Store$", re.DOTALL)
"""Members that macOS adds to an archive."""
MOST_NAMES = 8
"""Members that an error lists."""


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
    if (member := archive_member(path)) is not None:
        yield from _member(*member, budget)
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
    except IsADirectoryError:
        raise SourceError(f"{path!s} is a folder; give a file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise SourceError(f"{path!s} cannot be read: {why(error)}") from error


def archive_member(path: Path) -> tuple[Path, str] | None:
    """Return the archive and the name of the member that a path means; None for a plain file.

    Raises `SourceError` for an archive of several files, of which the path names none, and for a
    member that is packed itself; `StreamDamageError` for an archive that is damaged.
    """
    member = _archive_place(path)
    if member is not None and PurePosixPath(member[1]).suffix.lower() in (*COMPRESSED, ARCHIVE):
        raise SourceError(
            f"{member[0]}, member {member[1]!r} is itself packed; unpack the archive (unzip "
            f"{member[0]}) and name that file"
        )
    return member


def _archive_place(path: Path) -> tuple[Path, str] | None:
    if (match := _MEMBER.fullmatch(str(path))) and Path(match[1]).is_file() and not path.exists():
        return Path(match[1]), match[2]
    if path.suffix.lower() == ARCHIVE and path.is_file():
        return path, _only_member(path)
    archive = next((parent for parent in path.parents if parent.suffix.lower() == ARCHIVE), None)
    if archive is None or not archive.is_file():
        return None
    return archive, path.relative_to(archive).as_posix()


def is_packed(path: Path) -> bool:
    """Return whether a file is compressed or in an archive: parts of it cannot be read alone."""
    is_member = _MEMBER.fullmatch(str(path)) is not None and not path.exists()
    return is_member or path.suffix.lower() in (*COMPRESSED, ARCHIVE)


def data_name(path: Path) -> str:
    """Return the name of the data at a path: that of the file or the member, compression aside.

    Raises `SourceError` as `archive_member` does, for a damaged archive and for a member that is
    not in it too.

    >>> data_name(Path("a/facts.nt.gz"))
    'facts.nt'
    """
    try:
        member = archive_member(path)
        if member is not None:
            with _damage_named(*member), zipfile.ZipFile(member[0]) as container:
                container.getinfo(member[1])
    except StreamDamageError as error:
        raise SourceError(f"{path}: {error}; fetch the file again") from error
    name = path.name if member is None else PurePosixPath(member[1]).name
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix) if suffix.lower() in COMPRESSED else name


def _only_member(archive: Path) -> str:
    with _damage_named(archive), zipfile.ZipFile(archive) as container:
        names = [
            info.filename
            for info in container.infolist()
            if not info.is_dir() and not _ASIDE.match(info.filename)
        ]
    if len(names) == 1:
        return names[0]
    if not names:
        raise SourceError(f"{archive} holds no file; name an archive that holds one")
    listed = ", ".join(map(repr, names[:MOST_NAMES])) + (", ..." if names[MOST_NAMES:] else "")
    raise SourceError(
        f"{archive} holds {len(names)} files ({listed}); name one of them: {archive}::MEMBER"
    )


def check_expansion(location: str, n_out: int, n_in: int, budget: ReaderBudget) -> None:
    """Raise `BudgetError` when `n_in` bytes have unfolded to too many."""
    if n_out > FREE_BYTES and n_out > budget.expansion * n_in:
        budget.check(location, {"expansion": n_out // max(n_in, 1)})


def why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, OverflowError)
_STREAM_FAULTS = (
    zlib.error, lzma.LZMAError, OSError, ValueError, EOFError, zstandard.ZstdError, MemoryError,
)  # fmt: skip
ENCRYPTED = 0x1  # bit of a member's flags


def _member(archive: Path, name: str, budget: ReaderBudget) -> Blocks:
    with _damage_named(archive, name), zipfile.ZipFile(archive) as container:
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


@contextmanager
def _damage_named(archive: Path, name: str = "") -> Iterator[None]:
    """What zipfile raises as errors of kept, for a `with` around its use."""
    try:
        yield
    except SourceError:
        raise
    except KeyError as error:
        raise SourceError(f"{archive} has no member {name!r}; give one that it holds") from error
    except (NotImplementedError, RuntimeError, MemoryError) as error:  # of an unknown codec, too
        raise SourceError(
            f"{archive}, member {name!r} cannot be unpacked here ({why(error)}); unpack it "
            "yourself and name the unpacked file"
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
            except _STREAM_FAULTS as error:
                if isinstance(error, MemoryError) or "emory" in str(error):
                    raise SourceError(
                        f"{stream.name}: its {name} data ask for more memory than "
                        f"{XZ_MEMORY >> 20} MiB; unpack it yourself and name the unpacked file"
                    ) from error
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
