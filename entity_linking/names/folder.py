"""The folder of a `NameIndex`: parts that never change (`kg_loaders.disk.columns`), one a segment.

manifest.json   settings; of every segment its folder, the hash of the graph it is from, counts;
                the seal of every file
<segment>/      see `entity_linking.names.segment`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import marisa_trie
import msgspec

from entity_linking.errors import LinkIndexError
from entity_linking.names.keys import require_key_table
from entity_linking.names.rules.variants import Kind
from entity_linking.names.segment import LAYOUT, TRIES, Segment, Source
from kg_loaders.disk.columns import (
    add_parts,
    checking,
    map_columns,
    part_files,
    require_ascending,
    require_finite,
    require_ids,
    require_offsets,
    require_shapes,
    write_parts,
)
from kg_loaders.disk.seals import FolderFormat, Sealed, is_of, open_sealed, read_manifest
from kg_loaders.vocabulary import Vocabulary

FORMAT_VERSION = 4
KIND = "kept name index"
NAMES = FolderFormat(
    kind=KIND,
    version=FORMAT_VERSION,
    what="a name index",
    remedy="build it again from its graph: kept link index KG -o INDEX --force",
    make="build one: kept link index KG -o INDEX",
    mark="*/keys.marisa",
    error=LinkIndexError,
)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest says of a segment; `folder` is "" until it is saved."""

    folder: str = ""
    graph_hash: str
    n_entities: int
    n_names: int
    n_counts: int
    n_counts_skipped: int
    longest_key: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an index says of itself; `manifest.json` in its folder."""

    kind: str = KIND
    format_version: int = FORMAT_VERSION
    case: str
    languages: tuple[str, ...] | None
    variants: bool
    deprecated: bool = False
    parts: tuple[Part, ...]


def write(folder: Path, manifest: Manifest, segments: Sequence[Segment], *, force: bool) -> None:
    """Save what is not there yet.

    `LinkIndexError` when the folder holds anything but an earlier state of this index, unless it is
    another index and `force` replaces it.
    """
    entries = [
        ({k: v for k, v in msgspec.to_builtins(part).items() if k != "folder"}, columns_of(segment))
        for part, segment in zip(manifest.parts, segments, strict=True)
    ]
    if is_of(folder, NAMES):
        there = _parts_there(folder, force=force)
        ours = [part.folder for part in manifest.parts]
        if there is not None and (there == ours[: len(there)] or not force):
            add_parts(folder, NAMES, LAYOUT, entries[len(there) :], after=ours[: len(there)])
            return
    about = msgspec.to_builtins(manifest)
    write_parts(folder, NAMES, LAYOUT, about, entries, force=force)


def _parts_there(folder: Path, *, force: bool) -> list[str] | None:
    """None of a damaged index that is to be replaced."""
    try:
        return [entry["folder"] for entry in read_manifest(folder, NAMES)["parts"]]
    except LinkIndexError:
        if not force:
            raise
        return None


def read(folder: Path, *, verify: bool) -> tuple[Manifest, list[Segment]]:
    """Map every segment; `LinkIndexError` when anything does not fit the manifest."""
    sealed = open_sealed(folder, NAMES, verify=verify)
    manifest = sealed.about(Manifest)
    sealed.require_files(
        name for part in manifest.parts for name in part_files(LAYOUT, part.folder)
    )
    segments: list[Segment] = []
    for part in manifest.parts:
        n_before = sum(len(segment.entities) for segment in segments)
        segments.append(_map_segment(sealed, part, n_before))
    sealed.remember()
    return manifest, segments


def columns_of(segment: Segment) -> dict[str, Any]:
    """The columns of a segment, its tries as what writes them."""
    columns: dict[str, Any] = {name: getattr(segment, name) for name in LAYOUT}
    tries = {name: _saving(columns[name]) for name in TRIES}
    return {**columns, **tries, "entities": segment.entities.array}


def _saving(trie: marisa_trie.Trie) -> Callable[[Path], None]:
    return lambda path: trie.save(str(path))


def _map_segment(sealed: Sealed, part: Part, n_before: int) -> Segment:
    columns = map_columns(sealed, LAYOUT, part.folder)
    with checking(sealed, part.folder):
        for name in TRIES:
            columns[name] = marisa_trie.Trie().mmap(str(columns[name]))
        _check_shapes(part, columns)
        if not sealed.is_known:
            _check_rows(columns, n_before)
    columns["entities"] = Vocabulary(columns["entities"])
    return Segment(**columns)


def _check_shapes(part: Part, columns: dict[str, Any]) -> None:
    n_names, n_entities = part.n_names, part.n_entities
    require_shapes(
        columns,
        {
            "entities": (n_entities,),
            "popularity": (n_entities,),
            "raised_popularity": (len(columns["raised"]),),
            "key_offsets": (len(columns["keys"]) + 1,),
            "word_offsets": (len(columns["words"]) + 1,),
            "key_kinds": (len(columns["key_names"]),),
            **{name: (n_names,) for name in LAYOUT if name.startswith("name")},
        },
    )


def _check_rows(columns: dict[str, Any], n_before: int) -> None:
    """Ids and offsets lead into their tables; `n_before` entities are in earlier segments."""
    n_names = len(columns["names"])
    require_ascending(columns, "entities")
    require_ids(columns, "raised", n_before)
    require_ids(columns, "name_entities", n_before + len(columns["entities"]))
    require_ids(columns, "name_sources", len(Source))
    require_ids(columns, "key_kinds", Kind.ACRONYM + 1)  # the last one that is stored
    require_key_table(columns["key_table"])
    for name in ("key", "word"):
        require_offsets(columns, f"{name}_offsets", len(columns[f"{name}_names"]))
        require_ids(columns, f"{name}_names", n_names)
    for name in ("popularity", "raised_popularity", "name_counts"):
        require_finite(columns, name)
