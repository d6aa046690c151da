"""The folder of a `FuzzyIndex`: unchanging parts (`kg_loaders.disk.columns`), one a segment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkIndexError
from entity_linking.fuzzy.ngrams import SIZES, NameSegment
from kg_loaders.disk.columns import (
    STRINGS,
    add_parts,
    checking,
    map_columns,
    part_files,
    require_ascending,
    require_ids,
    require_offsets,
    require_shapes,
    write_parts,
)
from kg_loaders.disk.seals import FolderFormat, Sealed, open_sealed

FORMAT_VERSION = 3
FUZZY = FolderFormat(
    kind="names by n-grams",
    version=FORMAT_VERSION,
    what="an index of names by n-grams",
    remedy="build it again from its graph: kept link index KG -o INDEX --fuzzy --force",
    make="name another folder, or save an index there",
    mark="*/grams.npy",
    error=LinkIndexError,
)
Grams = NDArray[np.uint32]
LAYOUT = {
    "grams": "<u4",
    "gram_offsets": "<i8",
    "postings": "<i4",
    "sizes": "<i4",
    "bearer_offsets": "<i8",
    "bearers": "<i4",
    "weights": "<i4",
    "surfaces": STRINGS,
    "entities": STRINGS,
}


class StoredSegment(NamedTuple):
    """A segment and the hash of the graph that its names are from."""

    segment: NameSegment
    graph_hash: str


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    graph_hash: str
    n_names: int
    n_entities: int
    n_bearers: int
    n_grams: int
    n_postings: int


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    gram_sizes: tuple[int, ...]
    parts: tuple[_Part, ...]


# ---- reading -------------------------------------------------------------------------------------
def read(folder: Path, *, verify: bool) -> list[StoredSegment]:
    """Map every segment; `LinkIndexError` when anything does not fit the manifest."""
    sealed = open_sealed(folder, FUZZY, verify=verify)
    manifest = sealed.about(_Manifest)
    if manifest.gram_sizes != SIZES:
        raise LinkIndexError(
            f"{folder} has n-grams of {manifest.gram_sizes}, not {SIZES}; {FUZZY.remedy}"
        )
    sealed.require_files(
        name for part in manifest.parts for name in part_files(LAYOUT, part.folder)
    )
    stored = [StoredSegment(_map_segment(sealed, part), part.graph_hash) for part in manifest.parts]
    sealed.remember()
    return stored


def _map_segment(sealed: Sealed, part: _Part) -> NameSegment:
    columns = map_columns(sealed, LAYOUT, part.folder)
    with checking(sealed, part.folder):
        _check_shapes(part, columns)
        if not sealed.is_known:
            _check_rows(part, columns)
    return NameSegment(**columns)


def _check_shapes(part: _Part, columns: dict[str, Any]) -> None:
    lengths = {
        "grams": part.n_grams,
        "gram_offsets": part.n_grams + 1,
        "postings": part.n_postings,
        "sizes": part.n_names,
        "surfaces": part.n_names,
        "bearer_offsets": part.n_names + 1,
        "bearers": part.n_bearers,
        "weights": part.n_bearers,
        "entities": part.n_entities,
    }
    require_shapes(columns, {name: (length,) for name, length in lengths.items()})


def _check_rows(part: _Part, columns: dict[str, Any]) -> None:
    """Ids and offsets lead into their tables; every name has n-grams and weighs something."""
    require_ascending(columns, "grams")
    require_offsets(columns, "gram_offsets", part.n_postings)
    require_offsets(columns, "bearer_offsets", part.n_bearers)
    require_ids(columns, "postings", part.n_names)
    require_ids(columns, "bearers", part.n_entities)
    for name in ("sizes", "weights"):
        if bool((columns[name] < 1).any()):
            raise ValueError(f"{name} holds {columns[name].min()}; 1 is the least")


# ---- writing -------------------------------------------------------------------------------------
def write(folder: Path, segments: Sequence[StoredSegment], *, force: bool) -> None:
    """Write a new folder, all or nothing; `force` replaces an index that is already there."""
    about = {"gram_sizes": SIZES}
    write_parts(folder, FUZZY, LAYOUT, about, _contents(segments), force=force)


def append(folder: Path, segments: Sequence[StoredSegment]) -> None:
    """Write further segments; the manifest that names them is replaced at the end."""
    add_parts(folder, FUZZY, LAYOUT, _contents(segments))


def _contents(segments: Sequence[StoredSegment]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What the manifest says of each segment, and its columns."""
    return [
        (
            {
                "graph_hash": graph_hash,
                "n_names": segment.n_names,
                "n_entities": segment.n_entities,
                "n_bearers": len(segment.bearers),
                "n_grams": len(segment.grams),
                "n_postings": len(segment.postings),
            },
            segment.columns(),
        )
        for segment, graph_hash in segments
    ]
