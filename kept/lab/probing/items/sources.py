"""Rows of JSON from a file, a folder of files or a tar archive, each with the file's name."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from entity_linking.annotations import decode_row
from entity_linking.errors import LinkingError
from kg_loaders.damage import DamageReport
from kg_loaders.errors import BudgetError, SourceError
from kg_loaders.reading.lines import JSON_FAULTS, read_lines
from kg_loaders.reading.unpacking import check_expansion

Row = TypeVar("Row")


def lines(
    path: str | Path, report: DamageReport, inside: str = ""
) -> Iterator[tuple[str, int, int, bytes]]:
    """File, number of the line, its first byte and itself, file by file in the order of names.

    `path` is a file, a folder or an archive; of an archive only the files below a folder `inside`
    count. Blank lines are counted and left out. Raises `SourceError` for what is missing or
    damaged, and for a folder or archive without such files.
    """
    source = Path(path)
    if ".tar" in source.suffixes or source.suffix == ".tgz":
        files = _archived(source, inside, report)
    else:
        files = _files(source, report)
    empty = True
    for name, number, offset, raw in files:
        empty = False
        if raw.strip():
            yield name, number, offset, raw
        else:
            report.n_blank += 1
    if empty and report.n_lines == 0:
        below = f" below {inside}" if inside else ""
        raise SourceError(f"{source} holds no lines{below}; give the file, folder or archive")


def rows(
    path: str | Path, report: DamageReport, shape: type[Row], inside: str = ""
) -> Iterator[tuple[str, int, int, bytes, Row]]:
    """`lines`, each with what it holds; a line that is not `shape` is rejected."""
    decoder = msgspec.json.Decoder(shape)
    for name, number, offset, raw in lines(path, report, inside):
        try:
            row = decode_row(raw, decoder)
        except (*JSON_FAULTS, LinkingError) as error:
            report.reject(name, number, offset, str(error), raw)
            continue
        yield name, number, offset, raw, row


def stem(name: str) -> str:
    """The name of a file without its folders, its endings and what follows a `_`.

    >>> stem("TREx/random/P19_random.jsonl.gz")
    'P19'
    """
    return PurePosixPath(name).name.partition(".")[0].partition("_")[0]


def _files(path: Path, report: DamageReport) -> Iterator[tuple[str, int, int, bytes]]:
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    for file in files:
        for number, offset, raw in read_lines(file, report):
            yield str(file), number, offset, raw


def _archived(
    path: Path, inside: str, report: DamageReport
) -> Iterator[tuple[str, int, int, bytes]]:
    files: list[tuple[str, bytes]] = []
    n_bytes, n_packed = 0, path.stat().st_size if path.is_file() else 0
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                stream = archive.extractfile(member)
                folders = PurePosixPath(member.name).parts[:-1]
                n_bytes += member.size  # a sparse member may claim any size
                report.budget.check(str(path), {"document_bytes": n_bytes})
                check_expansion(str(path), n_bytes, n_packed, report.budget)
                if stream is not None and (not inside or _below(folders, inside)):
                    files.append((f"{path}:{member.name}", stream.read()))
    except BudgetError:
        raise
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise SourceError(f"{path} cannot be read as an archive: {error}; fetch it again") from None
    for name, data in sorted(files):
        offset = 0
        for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
            report.n_lines += 1
            yield name, number, offset, raw.removesuffix(b"\r")
            offset += len(raw) + 1


def _below(folders: tuple[str, ...], inside: str) -> bool:
    parts = PurePosixPath(inside).parts
    return any(folders[i : i + len(parts)] == parts for i in range(len(folders)))
