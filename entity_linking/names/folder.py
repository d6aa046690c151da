"""The folder of a `NameIndex`: a manifest and a folder for each segment.

    manifest.json   format version, settings; of every segment its folder, the hash of the graph it
                    is from, counts, and of every file size and SHA-256
    <segment>/      see `entity_linking.names.segment`; named by the hash of what is in it

Segments never change. `write` puts the missing ones beside the others, each under a temporary name
until it is whole, and replaces the manifest last: readers see the old index or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from filelock import FileLock

from entity_linking.errors import LinkIndexError
from entity_linking.names.segment import Segment, file_names, map_segment, write_segment
from kg_loaders.folder import sync

FORMAT_VERSION = 1
KIND = "kept name index"
_AGAIN = "build it again from its graph"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says of a segment; `folder` is "" until it is saved."""

    folder: str = ""
    graph_hash: str
    n_entities: int
    n_names: int
    n_counts: int
    n_counts_skipped: int
    longest_key: int = 0
    sizes: dict[str, int] = {}
    checksums: dict[str, str] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an index says of itself; `manifest.json` in its folder."""

    kind: str = KIND
    format_version: int = FORMAT_VERSION
    case: str
    languages: tuple[str, ...] | None
    variants: bool
    parts: tuple[Part, ...]


def write(
    folder: Path, manifest: Manifest, segments: Sequence[Segment], *, force: bool
) -> Manifest:
    """Save what is not there yet and return the manifest with its files.

    `LinkIndexError` when the folder holds anything but an earlier state of this index, unless it is
    another index and `force` replaces it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        before = _refuse_foreign(folder, manifest, force=force)
        folder.mkdir(exist_ok=True)
        parts = [
            part if part.folder and (folder / part.folder).is_dir() else _add(folder, part, segment)
            for part, segment in zip(manifest.parts, segments, strict=True)
        ]
        manifest = msgspec.structs.replace(manifest, parts=tuple(parts))
        text = json.dumps(msgspec.to_builtins(manifest), indent=2, ensure_ascii=False)
        partial = folder / f".manifest.{os.getpid()}.part"
        partial.write_text(text + "\n", encoding="utf-8")
        sync(partial)
        partial.replace(folder / "manifest.json")
        sync(folder)
        for old in sorted(before - {part.folder for part in parts}):
            shutil.rmtree(folder / old, ignore_errors=True)
    return manifest


def _refuse_foreign(folder: Path, manifest: Manifest, *, force: bool) -> set[str]:
    """The segments that are there."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return set()
    if not (folder / "manifest.json").is_file():
        raise LinkIndexError(f"{folder} exists and is no name index; choose another folder")
    there = [part.folder for part in read_manifest(folder).parts]
    ours = [part.folder for part in manifest.parts]
    if there != ours[: len(there)] and not force:
        raise LinkIndexError(
            f"{folder} holds another index, or this one was added to by another process; open it "
            "again and repeat the addition, choose another folder, or replace it with force=True"
        )
    return set(there)


def _add(folder: Path, part: Part, segment: Segment) -> Part:
    partial = folder / f".{os.getpid()}.part"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        write_segment(segment, partial)
        files = [partial / name for name in file_names()]
        checksums = {file.name: _checksum(file) for file in files}
        for file in files:
            sync(file)
        name = hashlib.sha256(
            json.dumps([part.graph_hash, sorted(checksums.items())]).encode()
        ).hexdigest()[:16]
        part = msgspec.structs.replace(
            part,
            folder=name,
            sizes={file.name: file.stat().st_size for file in files},
            checksums=checksums,
        )
        shutil.rmtree(folder / name, ignore_errors=True)  # left by a writer that died
        partial.rename(folder / name)
    except OSError as error:
        raise LinkIndexError(f"{folder} cannot be written: {error}; choose a place") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return part


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a name index; `LinkIndexError` when there is none that can be read."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise LinkIndexError(f"{folder} is no name index: it has no manifest.json; build one")
    try:
        said = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        if said.get("kind") != KIND:
            raise LinkIndexError(
                f"{folder} is no name index but {said.get('kind', 'something else')!r}; "
                "give the folder of a name index"
            )
        if said.get("format_version") != FORMAT_VERSION:
            raise LinkIndexError(
                f"{folder} has format version {said.get('format_version')}, this kept reads "
                f"{FORMAT_VERSION}; {_AGAIN}"
            )
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LinkIndexError(f"{path} is damaged ({error}); {_AGAIN}") from error


def read(folder: Path, *, verify: bool) -> tuple[Manifest, list[Segment]]:
    """Map every segment; `LinkIndexError` when anything does not fit the manifest.

    Sizes and shapes are always checked. `verify` reads every byte against its checksum too.
    """
    manifest = read_manifest(folder)
    return manifest, [_read_part(folder, part, verify=verify) for part in manifest.parts]


def _read_part(folder: Path, part: Part, *, verify: bool) -> Segment:
    place = folder / part.folder
    if not part.folder or Path(part.folder).name != part.folder:
        raise LinkIndexError(f"{folder / 'manifest.json'} names no segment folder; {_AGAIN}")
    if sorted(part.sizes) != file_names() or sorted(part.checksums) != file_names():
        raise LinkIndexError(f"{folder / 'manifest.json'} lists other files; {_AGAIN}")
    for name, size in part.sizes.items():
        file = place / name
        found = file.stat().st_size if file.is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes"
            raise LinkIndexError(f"{file} {state}, {size} were written; {_AGAIN}")
        if verify and _checksum(file) != part.checksums[name]:
            raise LinkIndexError(f"{file} was altered after it was written (checksum); {_AGAIN}")
    try:
        return map_segment(place)
    except (ValueError, OSError, EOFError, RuntimeError, KeyError, pa.ArrowException) as error:
        raise LinkIndexError(f"{place} cannot be read ({error}); {_AGAIN}") from error


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
