"""`DenseIndex`: the vectors of all entity cards of a graph, and the nearest of them to a query.

Which index by size (`kind="auto"`): up to `FLAT_MOST` entities every card is compared (exact);
up to `HNSW_MOST` a navigable graph (Malkov and Yashunin 2018) over vectors in half precision;
above, inverted lists (Jégou et al. 2011), whose memory grows by the vectors alone. All are faiss's
(Douze et al. 2024), which runs as many threads as `faiss.omp_set_num_threads` says: the graph comes
out the same each time only under one.

Axis legend: entity, row (of the vectors; entities in the order in which they came), query, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entity_linking.dense import folder as disk
from entity_linking.dense.approximate import (
    copied,
    feed,
    kind_for,
    nearest,
    new_searcher,
    read_searcher,
    searcher_bytes,
    write_searcher,
)
from entity_linking.dense.building import ROWS_PER_STEP, Progress, embed_cards, mean_of
from entity_linking.dense.cards import CardOptions
from entity_linking.dense.folder import Dtype, Kind, Manifest
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.parts import SentenceEncoder
from kg_loaders import KnowledgeGraph, Vocabulary
from kg_loaders.counting import counted

QUERIES_PER_STEP = 128
FETCH_MORE, FETCH_MOST = 16, 4096
TIE = 1e-6

Vectors = NDArray[np.float32]


class Hit(NamedTuple):
    """An entity and the cosine of its card with the query."""

    entity: str
    cosine: float


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an approximate index loses against comparing every card, and its size."""

    kind: Kind
    n_entities: int
    n_queries: int
    recall: tuple[tuple[int, float], ...]
    vector_bytes: int
    index_bytes: int

    def __str__(self) -> str:
        recall = ", ".join(f"@{k} {share:.3f}" for k, share in self.recall)
        return (
            f"{self.kind} index of {counted(self.n_entities, 'entities')}: recall against "
            "comparing all "
            f"{recall} ({self.n_queries} queries); {self.vector_bytes / 2**20:.1f} MiB vectors, "
            f"{self.index_bytes / 2**20:.1f} MiB index"
        )


class DenseIndex:
    """Card vectors by entity, searchable; immutable: `add` returns another index."""

    def __init__(
        self,
        manifest: Manifest,
        *,
        names: Vocabulary,
        rows: NDArray[np.int32],
        vectors: NDArray[Any],
        mean: Vectors,
        folder: Path | None = None,
        searcher: Any = None,
    ) -> None:
        """`rows` is the row of each of the sorted `names`; others come from `build` and `open`."""
        self._manifest, self._names, self._rows = manifest, names, rows
        self._vectors, self._mean = vectors, mean
        self._folder, self._searcher = folder, searcher
        self._rank = np.empty(len(rows), np.int32)
        self._rank[rows] = np.arange(len(rows), dtype=np.int32)

    def __repr__(self) -> str:
        m = self._manifest
        return f"DenseIndex({counted(m.n_entities, 'entities')}, {m.kind}, {m.encoder})"

    def __len__(self) -> int:
        return self._manifest.n_entities

    def __contains__(self, entity: object) -> bool:
        return entity in self._names

    @property
    def manifest(self) -> Manifest:
        """Encoder, card options, graphs and kind."""
        return self._manifest

    @property
    def mean(self) -> Vectors:
        """The mean of all vectors, float32 `[width]`, not of length 1; 0 without entities."""
        return self._mean

    def require_encoder(self, encoder: SentenceEncoder) -> None:
        """Raise `LinkIndexError` unless its vectors compare with those here."""
        if encoder.name != self._manifest.encoder:
            raise LinkIndexError(
                f"{self} cannot be searched with vectors of {encoder.name}; load the encoder that "
                "made it, or build it again with this one"
            )

    # ---- making ------------------------------------------------------------
    @classmethod
    def build(
        cls,
        graph: KnowledgeGraph,
        encoder: SentenceEncoder,
        *,
        cards: CardOptions = CardOptions(),  # noqa: B008 - frozen
        kind: Literal["auto"] | Kind = "auto",
        dtype: Dtype = "float16",
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Embed the cards of all entities of `graph`.

        With `checkpoint`, a folder, vectors are written there shard by shard, and a build that died
        goes on from the last one; the folder may go once the index is saved. `progress` is called
        with `(entities done, of all)`.
        """
        if kind not in ("auto", *get_args(Kind)) or dtype not in get_args(Dtype):
            raise LinkingError(
                f"kind {kind!r} and dtype {dtype!r}; choose auto, {', '.join(get_args(Kind))} and "
                f"one of {', '.join(get_args(Dtype))}"
            )
        ids = np.arange(graph.n_entities, dtype=np.int32)
        vectors = embed_cards(
            graph,
            ids,
            encoder,
            options=cards,
            dtype=dtype,
            checkpoint=checkpoint,
            progress=progress,
        )
        manifest = Manifest(
            encoder=encoder.name,
            width=encoder.width,
            dtype=dtype,
            kind=kind_for(len(ids)) if kind == "auto" else kind,
            cards=cards,
            graphs=(graph.content_hash,),
            n_entities=len(ids),
        )
        searcher = None if manifest.kind == "flat" else new_searcher(manifest.kind, vectors)
        return cls(
            manifest,
            names=graph.entities,
            rows=ids,
            vectors=vectors,
            mean=mean_of(vectors),
            searcher=searcher,
        )

    def add(
        self,
        graph: KnowledgeGraph,
        encoder: SentenceEncoder,
        *,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> DenseIndex:
        """An index that also holds the entities of `graph` that are not here yet.

        Their cards are made from `graph` with this index's options. Entities that are here keep
        their cards, also where `graph` says more about them, and the kind stays.
        """
        self.require_encoder(encoder)
        m = self._manifest
        ids = np.flatnonzero(self._names.ids(graph.entities.array) < 0).astype(np.int32)
        new = embed_cards(
            graph,
            ids,
            encoder,
            options=m.cards,
            dtype=m.dtype,
            checkpoint=checkpoint,
            progress=progress,
        )
        vectors = np.concatenate([np.asarray(self._vectors), new])
        names = pa.concat_arrays([self._names.array, graph.entities.array.take(pa.array(ids))])
        rows = np.concatenate([self._rows, len(self) + np.arange(len(ids), dtype=np.int32)])
        order = np.asarray(pc.sort_indices(names))
        manifest = msgspec.structs.replace(
            m, graphs=(*m.graphs, graph.content_hash), n_entities=len(names)
        )
        searcher = None if m.kind == "flat" else self._writable_searcher()
        if searcher is not None:
            feed(searcher, new)
        return DenseIndex(
            manifest,
            names=Vocabulary(names.take(pa.array(order))),
            rows=rows[order].astype(np.int32),
            vectors=vectors,
            mean=mean_of(vectors),
            searcher=searcher,
        )

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> Self:
        """Map a folder that `save` wrote; `LinkIndexError` when it is damaged or something else.

        The first opening reads and checks every byte and is remembered (`kg_loaders.disk.seals`);
        `verify` does it in any case. No file is parsed before its checksum has matched.
        """
        folder = Path(path).absolute()
        sealed, manifest, columns = disk.read(folder, verify=verify)
        searcher = None
        if manifest.kind != "flat":
            shape = (manifest.n_entities, manifest.width)
            searcher = read_searcher(columns["index"], shape, mapped=True)
        sealed.remember()
        return cls(
            manifest,
            names=Vocabulary(columns["entities"]),
            rows=columns["rows"],
            vectors=columns["vectors"],
            mean=columns["mean"],
            folder=folder,
            searcher=searcher,
        )

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder, all or nothing; `force` replaces a dense index that is there."""
        columns = {
            "vectors": self._vectors,
            "rows": self._rows,
            "mean": self._mean,
            "entities": self._names.array,
        }
        disk.write(
            Path(path).absolute(),
            self._manifest,
            columns,
            lambda file: write_searcher(self._searcher, file),
            force=force,
        )

    # ---- asking ------------------------------------------------------------
    def vectors(self, names: Sequence[str]) -> tuple[Vectors, NDArray[np.bool_]]:
        """Card vectors float32 `[name width]`, and which names are here; the others' rows are 0."""
        rank = self._names.ids(names)
        is_known = rank >= 0
        taken = np.zeros((len(names), self._manifest.width), np.float32)
        taken[is_known] = self._vectors[self._rows[rank[is_known]]]
        return taken, is_known

    def search(self, queries: NDArray[np.floating], k: int) -> list[list[Hit]]:
        """The `k` entities whose cards are nearest to each of `queries [query width]`, best first.

        Cosines are computed anew from the stored vectors, and ties (two cards with one text) go to
        the lesser identifier, so what a query finds does not depend on the queries beside it; among
        more than `FETCH_MOST` equal cards, the choice is faiss's.
        """
        queries = np.ascontiguousarray(queries, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self._manifest.width or k < 1:
            raise LinkingError(
                f"queries of shape {queries.shape} and k={k}; give [query "
                f"{self._manifest.width}] and 1 or more"
            )
        return [
            hits
            for start in range(0, len(queries), QUERIES_PER_STEP)
            for hits in self._search(queries[start : start + QUERIES_PER_STEP], k)
        ]

    def _search(self, queries: Vectors, k: int) -> list[list[Hit]]:
        n_fetch = min(len(self), k + FETCH_MORE)
        if n_fetch == 0:
            return [[] for _ in queries]
        rows = self._nearest(queries, n_fetch)
        cosines = self._cosines(queries, rows)
        if n_fetch < min(len(self), FETCH_MOST):
            kept = -np.sort(-cosines, axis=1)
            tied = np.flatnonzero(kept[:, -1] >= kept[:, k - 1] - TIE)
            again = iter(self._search_ties(queries[tied], k))
        else:
            tied, again = np.empty(0, np.int64), iter(())
        is_tied = np.zeros(len(queries), np.bool_)
        is_tied[tied] = True
        return [
            next(again) if many else self._best(cosine, row, k)
            for cosine, row, many in zip(cosines, rows, is_tied.tolist(), strict=True)
        ]

    def _search_ties(self, queries: Vectors, k: int) -> list[list[Hit]]:
        """For queries whose k-th card has so many equals that not all were fetched."""
        if not len(queries):
            return []
        rows = self._nearest(queries, min(len(self), max(FETCH_MOST, k)))
        return [
            self._best(self._cosines(query[None], row[None])[0], row, k)
            for query, row in zip(queries, rows, strict=True)
        ]

    def _best(self, cosines: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> list[Hit]:
        order = np.lexsort((self._rank[rows], -cosines))[:k]
        order = order[rows[order] >= 0]
        names = self._names.array.take(pa.array(self._rank[rows[order]])).to_pylist()
        return list(map(Hit, names, cosines[order].tolist()))

    def _nearest(self, queries: Vectors, k: int) -> NDArray[np.int64]:
        """Rows `[query k]`, -1 where the approximate index found fewer."""
        if self._searcher is None:  # flat: made when first asked
            self._searcher = new_searcher("flat", self._vectors)
        return nearest(self._searcher, self._manifest.kind, queries, k)

    def _cosines(self, queries: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """`[query k]`, of row -1 minus infinity; each by itself, the same in any batch."""
        taken = self._vectors[np.maximum(rows, 0)].astype(np.float32)
        cosines: NDArray[np.float32] = (queries[:, None] * taken).sum(axis=2)
        return np.where(rows >= 0, cosines, -np.inf).astype(np.float32)

    def report(
        self,
        queries: NDArray[np.floating] | None = None,
        *,
        ks: Sequence[int] = (1, 5, 30),
        n_queries: int = 256,
        seed: int = 0,
    ) -> IndexReport:
        """Recall of what `search` finds against comparing every card, and sizes in memory.

        Without `queries`, each is the sum of two cards drawn by `seed`: like a sentence that speaks
        of two things, it lies between cards and not upon one.
        """
        if queries is None:
            pairs = np.random.default_rng(seed).integers(0, max(len(self), 1), (2, n_queries))
            n_drawn = n_queries if len(self) else 0
            queries = sum(self._vectors[side[:n_drawn]].astype(np.float32) for side in pairs)
        queries = np.ascontiguousarray(queries, np.float32)
        most = min(max(ks), len(self))
        shares = dict.fromkeys(ks, 0.0)
        if most and len(queries):
            right = self._exact(queries, most)
            answers = self.search(queries, most)
            for expected, hits in zip(right, answers, strict=True):
                order = [hit.entity for hit in hits]
                for k in ks:
                    expected_ids = set(expected[:k])
                    shares[k] += len(expected_ids.intersection(order[:k])) / len(expected_ids)
        return IndexReport(
            kind=self._manifest.kind,
            n_entities=len(self),
            n_queries=len(queries),
            recall=tuple((k, shares[k] / max(len(queries), 1)) for k in ks),
            vector_bytes=self._vectors.nbytes,
            index_bytes=searcher_bytes(self._searcher),
        )

    def _exact(self, queries: Vectors, k: int) -> list[list[str]]:
        cosines = np.concatenate(
            [
                queries @ self._vectors[start : start + ROWS_PER_STEP].astype(np.float32).T
                for start in range(0, len(self), ROWS_PER_STEP)
            ],
            axis=1,
        )
        best = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        return [
            [hit.entity for hit in self._best(row[places], places, k)]
            for row, places in zip(cosines, best, strict=True)
        ]

    def _writable_searcher(self) -> Any:
        """A copy to grow: what is mapped from a file must not be written to."""
        if self._folder is not None:
            shape = (len(self), self._manifest.width)
            return read_searcher(self._folder / "index.faiss", shape, mapped=False)
        return copied(self._searcher)
