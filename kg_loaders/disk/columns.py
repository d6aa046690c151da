"""Folders of columns: the one mapped store under graphs and every link index.

A column is an array (`NAME.npy`), strings (`NAME.arrow`, one field `value`) or a file of another
library (`NAME` with the suffix that its layout names). A folder holds one set of columns, or one a
part in sub-folders that are named by the hash of what is in them and never change:

    manifest.json        sealed (`kg_loaders.disk.seals`): what the folder is, its parts, every file
    COLUMN.npy ...       or PART/COLUMN.npy ...

A folder appears whole or not at all. Parts are added beside those that are there, and the manifest
that names them is replaced last: readers see the state before or the one after. `map_columns` maps
what a seal has verified; the `require_...` functions check whole columns, so that ids and offsets
lead nowhere else than into their tables, whoever wrote them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.disk.seals import (
    FileSeal,
    FolderFormat,
    Sealed,
    faults,
    is_of,
    read_manifest,
    seal,
    sha256_of,
)
from kg_loaders.disk.threads import together
from kg_loaders.disk.writing import claim, sync, whole_folder

STRINGS = ".arrow"
WAIT_SECONDS = 600.0
"""Seconds that parts wait for another writer of the same folder."""

Layout = Mapping[str, str]
"""Name of a column to its dtype ("<i4"), to `STRINGS`, or to the suffix of a file (".marisa")."""
ColumnSet = Mapping[str, Any]
"""Name of a column to its array, to its Arrow strings, or to what writes its file at a path."""


def file_of(name: str, kind: str) -> str:
    """The file of a column."""
    return name + (kind if kind.startswith(".") else ".npy")


# ---- reading -------------------------------------------------------------------------------------
def map_columns(sealed: Sealed, layout: Layout, part: str = "") -> dict[str, Any]:
    """The columns of a folder, or of a `part` of it, mapped; files of other kinds as their paths.

    Raises the format's error for a file that does not hold what `layout` says. Strings of a folder
    that is not known yet are checked to be UTF-8 within their bounds.
    """
    columns: dict[str, Any] = {}
    for name, kind in layout.items():
        path = sealed.folder / part / file_of(name, kind)
        with faults(sealed.format, path):
            if kind == STRINGS:
                columns[name] = _map_strings(path, in_full=not sealed.is_known)
            else:
                columns[name] = path if kind.startswith(".") else map_array(path, kind)
    return columns


def map_array(path: Path, dtype: str) -> NDArray[Any]:
    """The array in a file, mapped; ValueError when it is of another type."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype != np.dtype(dtype):
        raise ValueError(f"it holds {array.dtype}, not {np.dtype(dtype)}")
    return np.asarray(array)


def _map_strings(path: Path, *, in_full: bool) -> pa.LargeStringArray:
    column = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("value")
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if values.type != pa.large_string() or values.null_count:
        raise ValueError(f"it holds {values.type} with {values.null_count} nulls")
    values.validate(full=in_full)
    return values


def part_files(layout: Layout, part: str = "") -> list[str]:
    """The names of the files of a part, as a manifest lists them."""
    return [f"{part}/{file_of(*item)}".lstrip("/") for item in layout.items()]


# ---- checking ------------------------------------------------------------------------------------
@contextmanager
def checking(sealed: Sealed, part: str = "") -> Iterator[None]:
    """A `ValueError` of the checks below becomes the format's error, with the folder."""
    with faults(sealed.format, sealed.folder / part):
        yield


def require_shapes(columns: ColumnSet, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Every column has its shape."""
    for name, shape in shapes.items():
        column = columns[name]
        actual = column.shape if isinstance(column, np.ndarray) else (len(column),)
        if actual != shape:
            raise ValueError(f"{name} has shape {actual}, not {shape}")


def require_offsets(columns: ColumnSet, name: str, n_rows: int) -> None:
    """Offsets begin at 0, never fall and end at `n_rows`."""
    offsets = columns[name]
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != n_rows:
        raise ValueError(f"{name} does not begin at 0 and does not end at {n_rows}")
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise ValueError(f"{name} falls somewhere; offsets only rise")


def require_ids(columns: ColumnSet, name: str, n: int) -> None:
    """Ids are at least 0 and below `n`."""
    ids = columns[name]
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < n:
        raise ValueError(f"{name} holds {ids.min()} to {ids.max()}, ids are 0 to {n - 1}")


def require_finite(columns: ColumnSet, name: str) -> None:
    """Numbers are neither NaN nor infinite."""
    if not bool(np.isfinite(columns[name]).all()):
        raise ValueError(f"{name} holds numbers that are not finite")


def require_ascending(columns: ColumnSet, name: str) -> None:
    """Numbers or strings are distinct and sorted, strings by code point."""
    values = columns[name]
    if isinstance(values, np.ndarray):
        is_sorted = bool((values[1:] > values[:-1]).all())
    else:
        is_sorted = len(values) < 2 or bool(pc.all(pc.greater(values[1:], values[:-1])).as_py())
    if not is_sorted:
        raise ValueError(f"{name} is not sorted")


def require_permutation(columns: ColumnSet, name: str, n: int) -> None:
    """Every number from 0 to `n` - 1 stands once."""
    require_ids(columns, name, n)
    if not bool((np.bincount(columns[name], minlength=n) == 1).all()):
        raise ValueError(f"{name} does not number {n} rows")


# ---- writing -------------------------------------------------------------------------------------
def replaced(format: FolderFormat) -> dict[str, Any]:
    """What `kg_loaders.disk.writing` asks of a folder that may be replaced: is it of `format`?"""
    kind = format.what.partition(" ")[2]
    return {"kind": kind, "is_kind": lambda folder: is_of(folder, format)}


def write(
    folder: Path,
    format: FolderFormat,
    layout: Layout,
    about: Mapping[str, Any],
    columns: ColumnSet,
    *,
    force: bool,
    n_threads: int = 1,
) -> None:
    """Write a folder of one set of columns by `n_threads`; `force` replaces one of its format.

    Raises what `kg_loaders.disk.writing.whole_folder` does.
    """

    with whole_folder(folder, **replaced(format), force=force) as part:
        files = _write_columns(part, layout, columns, n_threads)
        seal(part, format, about, (), known=files)


def write_parts(
    folder: Path,
    format: FolderFormat,
    layout: Layout,
    about: Mapping[str, Any],
    parts: Sequence[tuple[Mapping[str, Any], ColumnSet]],
    *,
    force: bool,
) -> None:
    """Write a folder of `parts`, each as its description and its columns; else as `write`."""
    with whole_folder(folder, **replaced(format), force=force) as part:
        entries, files = _write_new_parts(part, layout, parts)
        seal(part, format, {**about, "parts": entries}, (), known=files)


def add_parts(
    folder: Path,
    format: FolderFormat,
    layout: Layout,
    parts: Sequence[tuple[Mapping[str, Any], ColumnSet]],
    *,
    after: Sequence[str] | None = None,
) -> None:
    """Add parts to a folder; what is there is neither read nor rewritten. Writers wait in line.

    `after` are the parts that must be there, no others, else the format's error is raised.
    """
    read_manifest(folder, format)
    with claim(folder, wait=WAIT_SECONDS):
        values = read_manifest(folder, format)
        there = [entry["folder"] for entry in values["parts"]]
        if after is not None and list(after) != there:
            raise format.error(
                f"{folder} holds another index, or this one was added to by another process; open "
                "it again and repeat the addition, choose another folder, or replace it with force"
            )
        _sweep_parts(folder, known=there)
        entries, files = _write_new_parts(folder, layout, parts)
        known = msgspec.convert(values["files"], dict[str, FileSeal]) | files
        about = {k: v for k, v in values.items() if k not in ("files", "seal")}
        about["parts"] = [*values["parts"], *entries]
        seal(folder, format, about, (), known=known)
        sync(folder)


def _write_new_parts(
    folder: Path, layout: Layout, parts: Sequence[tuple[Mapping[str, Any], ColumnSet]]
) -> tuple[list[dict[str, Any]], dict[str, FileSeal]]:
    """The parts' entries and seals; each part gets its name when it is whole."""
    entries: list[dict[str, Any]] = []
    files: dict[str, FileSeal] = {}
    for about, columns in parts:
        part_folder = folder / f".{os.getpid()}.partial"
        shutil.rmtree(part_folder, ignore_errors=True)
        try:
            sealed = _write_columns(part_folder, layout, columns)
            content = msgspec.json.encode([about, sealed], order="deterministic")
            name = hashlib.sha256(content).hexdigest()[:16]
            if not (folder / name).is_dir():
                part_folder.rename(folder / name)
        finally:
            shutil.rmtree(part_folder, ignore_errors=True)
        entries.append({**about, "folder": name})
        files |= {f"{name}/{file}": content for file, content in sealed.items()}
    return entries, files


def _write_columns(
    folder: Path, layout: Layout, columns: ColumnSet, n_threads: int = 1
) -> dict[str, FileSeal]:
    """Write every column, wait for the disk, and return the files' seals."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in layout:
        (folder / name).parent.mkdir(exist_ok=True)
    files = [folder / file_of(*item) for item in layout.items()]
    writes = [
        partial(_write_column, file, kind, columns[name])
        for file, (name, kind) in zip(files, layout.items(), strict=True)
    ]
    written = together(*writes, n_threads=n_threads)
    seals = dict(zip((file_of(*item) for item in layout.items()), written, strict=True))
    for directory in {folder, *(folder / Path(name).parent for name in layout)}:
        sync(directory)
    return seals


def _write_column(file: Path, kind: str, column: Any) -> FileSeal:
    if kind == STRINGS:
        _save_strings(file, column)
    elif kind.startswith("."):
        column(file)
    else:
        np.save(file, np.ascontiguousarray(column, kind))
    sync(file)
    return FileSeal(file.stat().st_size, sha256_of(file))


def _save_strings(path: Path, values: pa.LargeStringArray) -> None:
    compact = pa.concat_arrays([values]) if values.offset else values
    batch = pa.record_batch({"value": compact})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _sweep_parts(folder: Path, *, known: Sequence[str]) -> None:
    """Remove what writers that died left in `folder`; to be called under its lock."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in known:
            shutil.rmtree(path)
