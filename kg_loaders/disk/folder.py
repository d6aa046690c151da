"""The folder of a graph on disk (`kg_loaders.disk.columns` writes and maps it).

manifest.json       counts, hashes, sources, licence, languages, and the seal of every file
triples.npy         int32 [triple 3], head/relation/tail, sorted, distinct
out_offsets.npy     int64 [entity+1]: triples of head e are rows out_offsets[e]:out_offsets[e+1]
in_offsets.npy      int64 [entity+1] into in_order
in_order.npy        int32 [triple]: triple rows sorted by (tail, relation, head)
entities.arrow      identifiers, sorted by code point      relations.arrow   likewise
entity_texts/       offsets.npy kinds.npy languages.npy counts.npy values.arrow (CSR by entity)
relation_texts/     likewise
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kg_loaders.disk.columns import (
    STRINGS,
    ColumnSet,
    checking,
    map_columns,
    part_files,
    require_ascending,
    require_ids,
    require_offsets,
    require_shapes,
    write,
)
from kg_loaders.disk.keys import packed
from kg_loaders.disk.seals import FolderFormat, Sealed, open_sealed
from kg_loaders.errors import StoreError
from kg_loaders.records import TextKind

FORMAT_VERSION = 2
ROWS_AT_ONCE = 1 << 18
"""Triples that a check holds in memory: a graph may be larger than that."""
GRAPH = FolderFormat(
    kind="kept graph",
    version=FORMAT_VERSION,
    what="a knowledge graph",
    remedy="build it again from its sources with `kept kg build --force`",
    make="make one with `kept kg build SOURCE -o DIR`",
    mark="triples.npy",
    error=StoreError,
)
_TEXTS = {
    "offsets": "<i8",
    "kinds": "|u1",
    "languages": "<i2",
    "counts": "<i4",
    "values": STRINGS,
}
LAYOUT = {
    "triples": "<i4",
    "out_offsets": "<i8",
    "in_offsets": "<i8",
    "in_order": "<i4",
    "entities": STRINGS,
    "relations": STRINGS,
    **{f"entity_texts/{name}": kind for name, kind in _TEXTS.items()},
    **{f"relation_texts/{name}": kind for name, kind in _TEXTS.items()},
}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a graph says of itself; `manifest.json` in its folder.

    `languages` are all that texts have, the `preferred` ones first. `load_counts` are the counts of
    the `DamageReport` it was loaded under, `load_faults` its reasons for rejecting lines; both are
    empty when it was not loaded from files.
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
    preferred: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    licence: str = ""
    load_counts: dict[str, int] = {}
    load_faults: dict[str, int] = {}


def read(
    folder: Path, *, verify: bool, n_threads: int = 1
) -> tuple[Sealed, Manifest, dict[str, Any]]:
    """Map every column of `folder`; `StoreError` when any file or shape does not fit its manifest.

    What the columns hold is left to the caller, who unless `is_known` is to make `checks`, to
    check both hashes, and to `remember`.
    """
    sealed = open_sealed(folder, GRAPH, verify=verify, n_threads=n_threads)
    manifest = sealed.about(Manifest)
    sealed.require_files(part_files(LAYOUT))
    columns = map_columns(sealed, LAYOUT)
    with checking(sealed):
        _check_shapes(manifest, columns)
    return sealed, manifest, columns


def checks(
    sealed: Sealed, manifest: Manifest, columns: Mapping[str, Any]
) -> list[Callable[[], None]]:
    """Checks of all that mapped columns hold, which may run together; each raises `StoreError`."""

    def checked(check: Callable[..., None], *what: str) -> None:
        with checking(sealed):
            check(manifest, columns, *what)

    texts = [partial(checked, _check_texts, kind) for kind in ("entity_texts", "relation_texts")]
    of_triples = (_check_ids, _check_order, _check_order_by_tail)
    return [*(partial(checked, check) for check in of_triples), *texts]


def save(
    folder: Path, manifest: Manifest, columns: ColumnSet, *, force: bool, n_threads: int = 1
) -> None:
    """Write a folder, all or nothing; `force` replaces a graph that is already there."""
    about = msgspec.to_builtins(manifest)
    write(folder, GRAPH, LAYOUT, about, columns, force=force, n_threads=n_threads)


def _check_shapes(manifest: Manifest, columns: ColumnSet) -> None:
    n_entities, n_relations = manifest.n_entities, manifest.n_relations
    shapes: dict[str, tuple[int, ...]] = {
        "triples": (manifest.n_triples, 3),
        "out_offsets": (n_entities + 1,),
        "in_offsets": (n_entities + 1,),
        "in_order": (manifest.n_triples,),
        "entities": (n_entities,),
        "relations": (n_relations,),
    }
    for kind, n_nodes, n_texts in (
        ("entity_texts", n_entities, manifest.n_entity_texts),
        ("relation_texts", n_relations, manifest.n_relation_texts),
    ):
        shapes |= {f"{kind}/{name}": (n_texts,) for name in _TEXTS}
        shapes[f"{kind}/offsets"] = (n_nodes + 1,)
    require_shapes(columns, shapes)


def _check_ids(manifest: Manifest, columns: ColumnSet) -> None:
    """Names are sorted, ids in their vocabularies, and each triple is among those of its head."""
    heads, relations, tails = columns["triples"].T
    for name, ids, n in (
        ("heads", heads, manifest.n_entities),
        ("relations of triples", relations, manifest.n_relations),
        ("tails", tails, manifest.n_entities),
    ):
        require_ids({name: ids}, name, n)
    for name in ("entities", "relations"):
        require_ascending(columns, name)
    _require_counts(columns, "out_offsets", manifest.n_triples, lambda rows: heads[rows])
    require_offsets(columns, "in_offsets", manifest.n_triples)


def _check_order(manifest: Manifest, columns: ColumnSet) -> None:
    """Triples rise by head, relation and tail."""
    triples = columns["triples"]
    if not _rises(lambda rows: triples[rows].T, manifest):
        raise ValueError("triples are not sorted and distinct")


def _check_order_by_tail(manifest: Manifest, columns: ColumnSet) -> None:
    """The other index leads to all triples, which rise by tail, relation and head."""
    triples, order = columns["triples"], columns["in_order"]
    require_ids({"tails": triples[:, 2]}, "tails", manifest.n_entities)
    require_ids(columns, "in_order", manifest.n_triples)
    if not _rises(lambda rows: triples[order[rows]].T[::-1], manifest):
        raise ValueError("in_order does not sort the triples by tail, relation and head")
    _require_counts(columns, "in_offsets", manifest.n_triples, lambda rows: triples[order[rows], 2])


def _require_counts(
    columns: ColumnSet, name: str, n_triples: int, nodes_of: Callable[[slice], NDArray[Any]]
) -> None:
    """Every row is between the offsets of its node: then these count the rows of each node."""
    require_offsets(columns, name, n_triples)
    offsets = columns[name]
    for start in range(0, n_triples, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, n_triples)
        nodes, rows = nodes_of(slice(start, stop)), np.arange(start, stop)
        if not ((offsets[nodes] <= rows) & (rows < offsets[nodes + 1])).all():
            raise ValueError(f"{name} does not count the triples of every entity")


def _rises(columns_of: Callable[[slice], NDArray[Any]], manifest: Manifest) -> bool:
    """Whether rows rise; a block of them is in memory at once, with the first of the next one."""
    limits = (manifest.n_entities, manifest.n_relations, manifest.n_entities)
    for start in range(0, manifest.n_triples, ROWS_AT_ONCE):
        columns = columns_of(slice(start, start + ROWS_AT_ONCE + 1))
        keys = packed(list(columns), limits)
        if not _is_ascending(*(columns if keys is None else (keys,))):
            return False
    return True


def _is_ascending(*keys: Any) -> bool:
    """Whether rows rise by the first key, by the second where these are equal, and so on.

    Rows of distinct triples rise in an order only if that names each of them once.
    """
    if len(keys) == 1:
        return bool((keys[0][1:] > keys[0][:-1]).all())
    undecided = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        before, after = key[:-1], key[1:]
        if bool((undecided & (after < before)).any()):
            return False
        undecided &= after == before
    return not undecided.any()


def _check_texts(manifest: Manifest, columns: ColumnSet, kind: str) -> None:
    n_texts = len(columns[f"{kind}/kinds"])
    require_offsets(columns, f"{kind}/offsets", n_texts)
    require_ids(columns, f"{kind}/kinds", len(TextKind))
    require_ids(columns, f"{kind}/languages", len(manifest.languages))
