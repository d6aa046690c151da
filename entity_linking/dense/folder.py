"""The folder of a dense index on disk.

    manifest.json   what it is, format version, encoder, card options, graphs, counts; of every
                    other file its size and SHA-256
    entities.arrow  identifiers, sorted by code point
    rows.npy        int32 [entity]: the row of each identifier
    vectors.npy     float16 or float32 [row width]
    mean.npy        float32 [width]: the mean of all rows
    index.faiss     the approximate index; absent for kind "flat"

`write` fills a folder beside the target and renames it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entity_linking.dense.cards import CardOptions
from entity_linking.errors import LinkIndexError
from kg_loaders.folder import sync

FORMAT_VERSION = 1
AGAIN = "build it again with `DenseIndex.build`"

Kind = Literal["flat", "hnsw", "ivf"]
Dtype = Literal["float16", "float32"]
Columns = dict[str, Any]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a dense index says of itself; `graphs` are content hashes, the first one built from."""

    what: Literal["dense index"] = "dense index"
    format_version: int = FORMAT_VERSION
    encoder: str
    width: int
    dtype: Dtype
    kind: Kind
    cards: CardOptions
    graphs: tuple[str, ...]
    n_entities: int
    sizes: dict[str, int] = {}
    checksums: dict[str, str] = {}

    @property
    def files(self) -> list[str]:
        """The files that an index of this kind consists of, beside the manifest."""
        names = ["entities.arrow", "mean.npy", "rows.npy", "vectors.npy"]
        return names if self.kind == "flat" else ["entities.arrow", "index.faiss", *names[1:]]


# ---- reading -------------------------------------------------------------------------------------
def read(folder: Path, *, verify: bool) -> tuple[Manifest, Columns]:
    """Map the columns of `folder`; `LinkIndexError` when anything does not fit its manifest."""
    manifest = _read_manifest(folder)
    for name in manifest.files:
        file = folder / name
        size = file.stat().st_size if file.is_file() else None
        if size is None or size != manifest.sizes.get(name):
            found = "is missing" if size is None else f"has {size} bytes"
            raise LinkIndexError(
                f"{file} {found}, {manifest.sizes.get(name)} were written; {AGAIN}"
            )
        if verify and _checksum(file) != manifest.checksums.get(name):
            raise LinkIndexError(f"{file} was altered after it was written (checksum); {AGAIN}")
    n, width = manifest.n_entities, manifest.width
    columns: Columns = {
        "vectors": map_array(folder / "vectors.npy", manifest.dtype, (n, width)),
        "rows": map_array(folder / "rows.npy", "int32", (n,)),
        "mean": map_array(folder / "mean.npy", "float32", (width,)),
        "entities": _map_strings(folder / "entities.arrow", n),
    }
    if not np.array_equal(np.sort(columns["rows"]), np.arange(n)):
        raise LinkIndexError(f"{folder / 'rows.npy'} does not number {n} rows; {AGAIN}")
    return manifest, columns


def _read_manifest(folder: Path) -> Manifest:
    path = folder / "manifest.json"
    if not path.is_file():
        raise LinkIndexError(f"{folder} is no dense index: it has no manifest.json; {AGAIN}")
    try:
        told = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        if told.get("what") != "dense index":
            raise LinkIndexError(f"{folder} is no dense index but something else; {AGAIN}")
        if told.get("format_version") != FORMAT_VERSION:
            raise LinkIndexError(
                f"{folder} has format version {told.get('format_version')}, "
                f"this kept reads {FORMAT_VERSION}; {AGAIN}"
            )
        return msgspec.convert(told, Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LinkIndexError(f"{path} is damaged ({error}); {AGAIN}") from error


def map_array(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        found = np.load(path, mmap_mode="r" if 0 not in shape else None)
    except (ValueError, OSError, EOFError, SyntaxError, KeyError) as error:
        raise LinkIndexError(f"{path} cannot be read ({error}); {AGAIN}") from error
    if found.dtype != np.dtype(dtype) or found.shape != shape:
        raise LinkIndexError(
            f"{path} holds {found.dtype} of shape {found.shape}, not {dtype} of {shape}; {AGAIN}"
        )
    return np.asarray(found)


def _map_strings(path: Path, n: int) -> pa.LargeStringArray:
    try:
        column = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("value")
        values = column.combine_chunks()
        values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
        values.validate()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise LinkIndexError(f"{path} cannot be read ({error}); {AGAIN}") from error
    if values.type != pa.large_string() or len(values) != n or values.null_count:
        raise LinkIndexError(f"{path} does not hold {n} identifiers; {AGAIN}")
    return values


# ---- writing -------------------------------------------------------------------------------------
def write(
    folder: Path,
    manifest: Manifest,
    columns: Columns,
    write_faiss: Callable[[Path], None],
    *,
    force: bool,
) -> None:
    """Write a folder, all or nothing; `force` replaces a dense index that is already there."""
    _refuse_existing(folder, force=force)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        for name in ("vectors", "rows", "mean"):
            np.save(partial / f"{name}.npy", columns[name])
        batch = pa.record_batch({"value": columns["entities"]})
        with (
            pa.OSFile(str(partial / "entities.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, batch.schema) as writer,
        ):
            writer.write_batch(batch)
        if manifest.kind != "flat":
            write_faiss(partial / "index.faiss")
        files = [partial / name for name in manifest.files]
        whole = msgspec.structs.replace(
            manifest,
            sizes={file.name: file.stat().st_size for file in files},
            checksums={file.name: _checksum(file) for file in files},
        )
        text = json.dumps(msgspec.to_builtins(whole), indent=2, ensure_ascii=False)
        (partial / "manifest.json").write_text(text + "\n", encoding="utf-8")
        for file in (*files, partial / "manifest.json", partial):
            sync(file)
        _move(partial, folder)
        sync(folder.parent)
    except OSError as error:
        raise LinkIndexError(
            f"{folder} cannot be written: {error}; free or choose a place"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _refuse_existing(folder: Path, *, force: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        _read_manifest(folder)
    except LinkIndexError as error:
        raise LinkIndexError(f"will not replace {folder}: {error}") from error
    if not force:
        raise LinkIndexError(f"{folder} exists; choose another folder, or replace it with force")


def _move(partial: Path, folder: Path) -> None:
    aside = partial.with_suffix(".old")
    if folder.exists():
        folder.rename(aside)
    partial.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
