"""The folder of a dense index on disk (`kg_loaders.disk.columns` writes and maps it).

manifest.json   encoder, card options, graphs, counts, and the seal of every file
entities.arrow  identifiers, sorted by code point
rows.npy        int32 [entity]: the row of each identifier
vectors.npy     float16 or float32 [row width]
mean.npy        float32 [width]: the mean of all rows
index.faiss     the approximate index; absent for kind "flat"
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from entity_linking.dense.cards import CardOptions
from entity_linking.errors import LinkIndexError
from kg_loaders.disk.columns import (
    STRINGS,
    checking,
    map_columns,
    part_files,
    require_ascending,
    require_finite,
    require_permutation,
    require_shapes,
)
from kg_loaders.disk.columns import write as write_columns
from kg_loaders.disk.seals import FolderFormat, Sealed, open_sealed

FORMAT_VERSION = 2
AGAIN = "build it again: kept link index KG -o INDEX --dense --force, or `DenseIndex.build`"
DENSE = FolderFormat(
    kind="dense index",
    version=FORMAT_VERSION,
    what="a dense index",
    remedy=AGAIN,
    make=AGAIN,
    mark="vectors.npy",
    error=LinkIndexError,
)

Kind = Literal["flat", "hnsw", "ivf", "pq"]
Dtype = Literal["float16", "float32"]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "search"}):
    """What a dense index says of itself; `graphs` are content hashes, the first one built from.

    `kind` is the kind of search; on disk it is called `search`.
    """

    format_version: int = FORMAT_VERSION
    encoder: str
    width: int
    dtype: Dtype
    kind: Kind
    cards: CardOptions
    graphs: tuple[str, ...]
    n_entities: int

    @property
    def layout(self) -> dict[str, str]:
        """The columns that an index of this kind consists of."""
        layout = {"entities": STRINGS, "rows": "<i4", "vectors": self.dtype, "mean": "<f4"}
        return layout if self.kind == "flat" else {**layout, "index": ".faiss"}


def read(folder: Path, *, verify: bool) -> tuple[Sealed, Manifest, dict[str, Any]]:
    """Map the columns of `folder`; `LinkIndexError` when anything does not fit its manifest."""
    sealed = open_sealed(folder, DENSE, verify=verify)
    manifest = sealed.about(Manifest)
    sealed.require_files(part_files(manifest.layout))
    columns = map_columns(sealed, manifest.layout)
    n, width = manifest.n_entities, manifest.width
    shapes = {"vectors": (n, width), "rows": (n,), "mean": (width,), "entities": (n,)}
    with checking(sealed):
        require_shapes(columns, shapes)
        if not sealed.is_known:
            require_ascending(columns, "entities")
            require_permutation(columns, "rows", n)
            require_finite(columns, "vectors")
            require_finite(columns, "mean")
    return sealed, manifest, columns


def write(
    folder: Path,
    manifest: Manifest,
    columns: dict[str, Any],
    write_faiss: Callable[[Path], None],
    *,
    force: bool,
) -> None:
    """Write a folder, all or nothing; `force` replaces a dense index that is already there."""
    about = msgspec.to_builtins(manifest)
    every = {**columns, "index": write_faiss}
    write_columns(folder, DENSE, manifest.layout, about, every, force=force)
