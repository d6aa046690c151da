"""The folder of a graph on disk: written whole or not at all, checked when opened.

    manifest.json       format version, counts, hashes, sources, licence, languages; of every other
                        file its size and SHA-256
    triples.npy         int32 [triple 3], head/relation/tail, sorted, distinct
    out_offsets.npy     int64 [entity+1]: triples of head e are rows out_offsets[e]:out_offsets[e+1]
    in_offsets.npy      int64 [entity+1] into in_order
    in_order.npy        int32 [triple]: triple rows sorted by (tail, relation, head)
    entities.arrow      identifiers, sorted by code point      relations.arrow   likewise
    entity_texts/       offsets.npy kinds.npy languages.npy counts.npy values.arrow (CSR by entity)
    relation_texts/     likewise

`write` fills a folder beside the target, flushes it to the disk and renames it; a process that dies
before leaves the target as it was, and the next `write` to it sweeps up what the dead one left.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kg_loaders.errors import StoreError

FORMAT_VERSION = 1
_TEXT_ARRAYS = {"offsets": "<i8", "kinds": "|u1", "languages": "<i2", "counts": "<i4"}
_DTYPES = {
    "triples": "<i4",
    "out_offsets": "<i8",
    "in_offsets": "<i8",
    "in_order": "<i4",
    **{f"entity_texts/{name}": dtype for name, dtype in _TEXT_ARRAYS.items()},
    **{f"relation_texts/{name}": dtype for name, dtype in _TEXT_ARRAYS.items()},
}
_STRINGS = ("entities", "relations", "entity_texts/values", "relation_texts/values")
_AGAIN = "build it again from its sources with `kept kg build --force`"

Columns = dict[str, Any]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a graph says of itself; `manifest.json` in its folder.

    `load_counts` are the counts of the `DamageReport` it was loaded under, `load_faults` its
    reasons for rejecting lines; both are empty when it was not loaded from files.
    """

    format_version: int = FORMAT_VERSION
    n_entities: int
    n_relations: int
    n_triples: int
    n_entity_texts: int = 0
    n_relation_texts: int = 0
    content_hash: str
    id_space_hash: str
    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    licence: str = ""
    load_counts: dict[str, int] = {}
    load_faults: dict[str, int] = {}
    sizes: dict[str, int] = {}
    checksums: dict[str, str] = {}


# ---- reading -------------------------------------------------------------------------------------
def read(folder: Path, *, verify: bool) -> tuple[Manifest, Columns]:
    """Map every column of `folder`; `StoreError` when anything does not fit its manifest.

    Sizes, types and shapes are always checked. `verify` also reads every byte against its checksum.
    """
    manifest = _read_manifest(folder)
    names = [*(f"{name}.npy" for name in _DTYPES), *(f"{name}.arrow" for name in _STRINGS)]
    if sorted(names) != sorted(manifest.sizes) or sorted(names) != sorted(manifest.checksums):
        raise StoreError(f"{folder / 'manifest.json'} does not list the files of a graph; {_AGAIN}")
    for name in names:
        file = folder / name
        size = file.stat().st_size if file.is_file() else None
        if size != manifest.sizes[name]:
            found = "is missing" if size is None else f"has {size} bytes"
            raise StoreError(f"{file} {found}, {manifest.sizes[name]} were written; {_AGAIN}")
        if verify and _checksum(file) != manifest.checksums[name]:
            raise StoreError(f"{file} was altered after it was written (checksum); {_AGAIN}")
    columns: Columns = {}
    for name in (*_DTYPES, *_STRINGS):
        try:
            columns[name] = (
                np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))
                if name in _DTYPES
                else _map_strings(folder / f"{name}.arrow")
            )
        except (ValueError, OSError, EOFError, SyntaxError, KeyError, pa.ArrowException) as error:
            raise StoreError(f"{folder / name} cannot be read ({error}); {_AGAIN}") from error
    _check_shapes(folder, manifest, columns)
    return manifest, columns


def _read_manifest(folder: Path) -> Manifest:
    path = folder / "manifest.json"
    if not path.is_file():
        raise StoreError(
            f"{folder} is not a knowledge graph: it has no manifest.json; "
            "make one with `kept kg build SOURCE -o DIR`"
        )
    try:
        version = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["format_version"]
        if version != FORMAT_VERSION:
            raise StoreError(
                f"{folder} has format version {version}, this kept reads {FORMAT_VERSION}; {_AGAIN}"
            )
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is damaged ({error}); {_AGAIN}") from error


def _map_strings(path: Path) -> pa.LargeStringArray:
    column = pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("value")
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if values.type != pa.large_string() or values.null_count:
        raise ValueError(f"holds {values.type} with {values.null_count} nulls")
    values.validate()
    return values


def _check_shapes(folder: Path, manifest: Manifest, columns: Columns) -> None:
    n_entities, n_relations = manifest.n_entities, manifest.n_relations
    shapes: dict[str, tuple[int, ...]] = {
        "triples": (manifest.n_triples, 3),
        "out_offsets": (n_entities + 1,),
        "in_offsets": (n_entities + 1,),
        "in_order": (manifest.n_triples,),
        "entities": (n_entities,),
        "relations": (n_relations,),
    }
    ends = {"out_offsets": manifest.n_triples, "in_offsets": manifest.n_triples}
    for kind, n_nodes, n_texts in (
        ("entity_texts", n_entities, manifest.n_entity_texts),
        ("relation_texts", n_relations, manifest.n_relation_texts),
    ):
        shapes |= {f"{kind}/{name}": (n_texts,) for name in (*_TEXT_ARRAYS, "values")}
        shapes[f"{kind}/offsets"] = (n_nodes + 1,)
        ends[f"{kind}/offsets"] = n_texts
    for name, shape in shapes.items():
        column = columns[name]
        found = column.shape if name in _DTYPES else (len(column),)
        if found != shape or (name in _DTYPES and column.dtype != np.dtype(_DTYPES[name])):
            raise StoreError(f"{folder / name} has shape {found}, not {shape}; {_AGAIN}")
        if name in ends and (column[0] != 0 or column[-1] != ends[name]):
            raise StoreError(f"{folder / name} does not end at {ends[name]}; {_AGAIN}")


# ---- writing -------------------------------------------------------------------------------------
def write(folder: Path, manifest: Manifest, columns: Mapping[str, Any], *, force: bool) -> None:
    """Write a folder, all or nothing; `force` replaces a graph that is already there."""
    refuse_existing(folder, force=force)
    partial = folder.with_name(f".{folder.name}.{platform.node()}.{os.getpid()}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        _fill(partial, manifest, columns)
        if folder.is_dir():
            _exchange(partial, folder)
        else:
            partial.rename(folder)
        sync(folder.parent)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error}; free or choose a place") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_existing(folder: Path, *, force: bool) -> None:
    """`StoreError` when `folder` is there and may not be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "manifest.json").is_file():
        raise StoreError(f"{folder} exists and is no knowledge graph; choose another folder")
    if not force:
        raise StoreError(f"{folder} exists; choose another folder, or replace it with --force")


def _fill(partial: Path, manifest: Manifest, columns: Mapping[str, Any]) -> None:
    for name in (*_DTYPES, *_STRINGS):
        suffix = "npy" if name in _DTYPES else "arrow"
        file = partial / f"{name}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        if suffix == "npy":
            np.save(file, np.ascontiguousarray(columns[name], _DTYPES[name]))
        else:
            _save_strings(file, columns[name])
    files = sorted(file for file in partial.rglob("*") if file.is_file())
    names = [file.relative_to(partial).as_posix() for file in files]
    manifest = msgspec.structs.replace(
        manifest,
        sizes={name: file.stat().st_size for name, file in zip(names, files, strict=True)},
        checksums={name: _checksum(file) for name, file in zip(names, files, strict=True)},
    )
    text = json.dumps(msgspec.to_builtins(manifest), indent=2, ensure_ascii=False)
    (partial / "manifest.json").write_text(text + "\n", encoding="utf-8")
    for path in (*files, partial / "manifest.json", *{f.parent: None for f in files}):
        sync(path)


def _save_strings(path: Path, values: pa.LargeStringArray) -> None:
    compact = pa.concat_arrays([values]) if values.offset else values
    batch = pa.record_batch({"value": compact})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until the file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Remove what writers of `folder` that died on this machine left beside it."""
    for partial in sorted(
        folder.parent.glob(f".{escape(folder.name)}.{escape(platform.node())}.*.partial")
    ):
        process = partial.name.split(".")[-2]
        if process.isdecimal() and not _is_alive(int(process)):
            shutil.rmtree(partial, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders in one step where the system can (Linux), else in two."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    at_cwd, exchange = -100, 2
    if swap and swap(at_cwd, os.fsencode(new), at_cwd, os.fsencode(old), exchange) == 0:
        return
    aside = new.with_suffix(".old.partial")
    old.rename(aside)
    new.rename(old)
    shutil.rmtree(aside)
