"""The folder of a `FuzzyIndex`: written whole or not at all, checked when opened."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from filelock import FileLock
from numpy.typing import NDArray

from entity_linking.errors import LinkIndexError
from entity_linking.fuzzy.ngrams import SIZES, NameSegment
from kg_loaders.folder import sync

FORMAT_VERSION = 1
KIND = "names by n-grams"
Grams = NDArray[np.uint32]
_DTYPES = {
    "grams": "<u4",
    "gram_offsets": "<i8",
    "postings": "<i4",
    "sizes": "<i4",
    "bearer_offsets": "<i8",
    "bearers": "<i4",
    "weights": "<i4",
}
_STRINGS = ("surfaces", "entities")
_FILES = sorted([*(f"{name}.npy" for name in _DTYPES), *(f"{name}.arrow" for name in _STRINGS)])
_AGAIN = "build it again from its graph"


class StoredSegment(NamedTuple):
    """A segment and the hash of the graph that its names are from."""

    segment: NameSegment
    graph_hash: str


class _File(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class _Segment(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    graph_hash: str
    n_names: int
    n_entities: int
    n_bearers: int
    n_grams: int
    n_postings: int
    files: dict[str, _File]


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    format_version: int
    gram_sizes: tuple[int, ...]
    segments: tuple[_Segment, ...]


# ---- reading -------------------------------------------------------------------------------------
def read(folder: Path, *, verify: bool) -> list[StoredSegment]:
    """Map every segment; `LinkIndexError` when anything does not fit the manifest."""
    return [
        StoredSegment(_read_segment(folder, entry, verify), entry.graph_hash)
        for entry in _read_manifest(folder).segments
    ]


def _read_manifest(folder: Path) -> _Manifest:
    path = folder / "manifest.json"
    if not path.is_file():
        raise LinkIndexError(
            f"{folder} is not an index of names: it has no manifest.json; name another folder, "
            "or save an index there"
        )
    try:
        told = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        if told.get("kind") != KIND or told.get("format_version") != FORMAT_VERSION:
            raise LinkIndexError(
                f"{folder} holds {told.get('kind')!r}, format {told.get('format_version')!r}; this "
                f"reads {KIND!r}, format {FORMAT_VERSION}; name another folder, or {_AGAIN}"
            )
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LinkIndexError(f"{path} is damaged ({error}); {_AGAIN}") from error
    if manifest.gram_sizes != SIZES:
        raise LinkIndexError(
            f"{folder} has n-grams of {manifest.gram_sizes}, not {SIZES}; {_AGAIN}"
        )
    return manifest


def _read_segment(folder: Path, entry: _Segment, verify: bool) -> NameSegment:
    place = folder / entry.folder
    if place.parent != folder or sorted(entry.files) != _FILES:
        raise LinkIndexError(
            f"{folder / 'manifest.json'} does not list the files of {entry.folder!r}; {_AGAIN}"
        )
    for name, told in entry.files.items():
        file = place / name
        size = file.stat().st_size if file.is_file() else None
        if size != told.size:
            found = "is missing" if size is None else f"has {size} bytes"
            raise LinkIndexError(f"{file} {found}, {told.size} were written; {_AGAIN}")
        if verify and _checksum(file) != told.sha256:
            raise LinkIndexError(f"{file} was altered after it was written (checksum); {_AGAIN}")
    columns: dict[str, Any] = {}
    for name in (*_DTYPES, *_STRINGS):
        file = place / f"{name}.{'npy' if name in _DTYPES else 'arrow'}"
        try:
            columns[name] = (
                np.asarray(np.load(file, mmap_mode="r")) if name in _DTYPES else _map_strings(file)
            )
        except (ValueError, OSError, EOFError, SyntaxError, KeyError, pa.ArrowException) as error:
            raise LinkIndexError(f"{file} cannot be read ({error}); {_AGAIN}") from error
    _check_shapes(place, entry, columns)
    return NameSegment(**columns)


def _map_strings(path: Path) -> Any:
    column = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("value")
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if values.type != pa.large_string() or values.null_count:
        raise ValueError(f"holds {values.type} with {values.null_count} nulls")
    values.validate()
    return values


def _check_shapes(place: Path, entry: _Segment, columns: dict[str, Any]) -> None:
    lengths = {
        "grams": entry.n_grams,
        "gram_offsets": entry.n_grams + 1,
        "postings": entry.n_postings,
        "sizes": entry.n_names,
        "surfaces": entry.n_names,
        "bearer_offsets": entry.n_names + 1,
        "bearers": entry.n_bearers,
        "weights": entry.n_bearers,
        "entities": entry.n_entities,
    }
    ends = {"gram_offsets": entry.n_postings, "bearer_offsets": entry.n_bearers}
    for name, length in lengths.items():
        column = columns[name]
        if len(column) != length or (name in _DTYPES and column.dtype != np.dtype(_DTYPES[name])):
            raise LinkIndexError(f"{place / name} has {len(column)} rows, not {length}; {_AGAIN}")
        if name in ends and (column[0] != 0 or column[-1] != ends[name]):
            raise LinkIndexError(f"{place / name} does not end at {ends[name]}; {_AGAIN}")


# ---- writing -------------------------------------------------------------------------------------
def write(folder: Path, segments: Sequence[StoredSegment], *, force: bool) -> None:
    """Write a new folder, all or nothing; `force` replaces an index that is already there."""
    if folder.exists() and any(folder.iterdir()) and not force:
        raise LinkIndexError(f"{folder} exists; choose another folder, or replace it with force")
    if folder.exists() and any(folder.iterdir()):
        _read_manifest(folder)  # what is replaced is an index
    partial = _beside(folder)
    try:
        partial.mkdir(parents=True)
        entries = [_fill(partial / _name(i), stored) for i, stored in enumerate(segments)]
        _write_manifest(partial, entries)
        if folder.exists():
            old = folder.with_name(f"{partial.name}.old")
            folder.rename(old)
            partial.rename(folder)
            shutil.rmtree(old)
        else:
            partial.rename(folder)
        sync(folder.parent)
    except OSError as error:
        raise LinkIndexError(f"{folder} cannot be written: {error}; free or choose a place") from (
            error
        )
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def append(folder: Path, segments: Sequence[StoredSegment]) -> None:
    """Write further segments; the manifest that names them is replaced at the end."""
    _read_manifest(folder)
    with FileLock(folder / ".lock"):
        entries = list(_read_manifest(folder).segments)
        try:
            _sweep(folder, known=[entry.folder for entry in entries])
            for stored in segments:
                partial = _beside(folder / _name(len(entries)))
                entry = _fill(partial, stored)
                partial.rename(folder / _name(len(entries)))
                entries.append(msgspec.structs.replace(entry, folder=_name(len(entries))))
            _write_manifest(folder, entries)
        except OSError as error:
            raise LinkIndexError(f"{folder} cannot be written: {error}; free some room") from error


def _sweep(folder: Path, *, known: Sequence[str]) -> None:
    """Remove what writers that died left behind; to be called under the lock."""
    for place in sorted(folder.iterdir()):
        if place.is_dir() and place.name not in known:
            shutil.rmtree(place)


def _fill(place: Path, stored: StoredSegment) -> _Segment:
    place.mkdir(parents=True)
    segment = stored.segment
    for name, column in segment.columns().items():
        if name in _DTYPES:
            np.save(place / f"{name}.npy", np.ascontiguousarray(column, _DTYPES[name]))
        else:
            batch = pa.record_batch({"value": column})
            with (
                pa.OSFile(str(place / f"{name}.arrow"), "wb") as sink,
                pa.ipc.new_file(sink, batch.schema) as writer,
            ):
                writer.write_batch(batch)
    files = {}
    for name in _FILES:
        sync(place / name)
        files[name] = _File((place / name).stat().st_size, _checksum(place / name))
    return _Segment(
        folder=place.name,
        graph_hash=stored.graph_hash,
        n_names=segment.n_names,
        n_entities=segment.n_entities,
        n_bearers=len(segment.bearers),
        n_grams=len(segment.grams),
        n_postings=len(segment.postings),
        files=files,
    )


def _write_manifest(folder: Path, entries: Sequence[_Segment]) -> None:
    manifest = _Manifest(
        kind=KIND, format_version=FORMAT_VERSION, gram_sizes=SIZES, segments=tuple(entries)
    )
    partial = folder / f".manifest.{os.getpid()}.partial"
    text = json.dumps(msgspec.to_builtins(manifest), indent=2, ensure_ascii=False)
    partial.write_text(text + "\n", encoding="utf-8")
    sync(partial)
    partial.replace(folder / "manifest.json")


def _name(index: int) -> str:
    return f"segment-{index:04d}"


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
