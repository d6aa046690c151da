"""Rows of JSON out of a file, a folder of files or a tar archive, each with the file's name."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from entity_linking.annotations import whole_file
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError

Row = TypeVar("Row")


def members(path: str | Path, inside: str = "") -> Iterator[tuple[str, bytes]]:
    """Name and decompressed bytes of a file, of a folder's files or of an archive's, by name.

    Of an archive only the files below a folder `inside`. Raises `SourceError` for what is missing
    or damaged, and for a folder or archive without such files.
    """
    source = Path(path)
    if source.is_dir():
        files = sorted(file for file in source.iterdir() if file.is_file())
        found: Iterator[tuple[str, bytes]] = ((str(file), whole_file(file)) for file in files)
    elif ".tar" in source.suffixes or source.suffix == ".tgz":
        found = iter(_archived(source, inside))
    else:
        found = iter([(str(source), whole_file(source))])
    empty = True
    for name, data in found:
        empty = False
        yield name, data
    if empty:
        below = f" below {inside}" if inside else ""
        raise SourceError(f"{source} holds no files{below}; give the folder or archive with them")


def lines(
    path: str | Path, report: DamageReport, inside: str = ""
) -> Iterator[tuple[str, int, int, bytes]]:
    """File, number of the line, its first byte and itself; blank lines are counted and left out."""
    for name, data in members(path, inside):
        offset = 0
        for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
            report.n_lines += 1
            if raw.strip():
                yield name, number, offset, raw.removesuffix(b"\r")
            else:
                report.n_blank += 1
            offset += len(raw) + 1


def rows(
    path: str | Path, report: DamageReport, shape: type[Row], inside: str = ""
) -> Iterator[tuple[str, int, int, bytes, Row]]:
    """`lines`, each with what it holds; a line that is not `shape` is rejected."""
    decoder = msgspec.json.Decoder(shape)
    for name, number, offset, raw in lines(path, report, inside):
        try:
            row = decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            report.reject(name, number, offset, str(error), raw)
            continue
        yield name, number, offset, raw, row


def stem(name: str) -> str:
    """The name of a file without its folders, its endings and what follows a `_`.

    >>> stem("TREx/random/P19_random.jsonl.gz")
    'P19'
    """
    return PurePosixPath(name).name.partition(".")[0].partition("_")[0]


def _archived(path: Path, inside: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                stream = archive.extractfile(member)
                folders = PurePosixPath(member.name).parts[:-1]
                if stream is not None and (not inside or _below(folders, inside)):
                    found.append((f"{path}:{member.name}", stream.read()))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SourceError(f"{path} cannot be read as an archive: {error}; fetch it again") from None
    return sorted(found)


def _below(folders: tuple[str, ...], inside: str) -> bool:
    wanted = PurePosixPath(inside).parts
    return any(folders[i : i + len(wanted)] == wanted for i in range(len(folders)))
