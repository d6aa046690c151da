"""The vectors of all cards, made in shards so that a build that dies goes on where it was.

A checkpoint folder holds `plan.json`, which says what the vectors are, and `shard-00000.npy` and so
on, each renamed into place when whole, with its checksum beside it.

Axis legend: entity, row, width.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.dense.cards import CardOptions, cards
from entity_linking.dense.folder import DENSE, Dtype
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.parts import SentenceEncoder
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.columns import map_array
from kg_loaders.disk.seals import faults, sha256_of
from kg_loaders.disk.writing import whole_file, write_text

CARDS_PER_SHARD = 2048
ROWS_PER_STEP = 1 << 16
SECONDS_FOR_ANOTHER = 60.0

Progress = Callable[[int, int], None]


def embed_cards(
    graph: KnowledgeGraph,
    ids: NDArray[np.int32],
    encoder: SentenceEncoder,
    *,
    options: CardOptions,
    dtype: Dtype,
    checkpoint: str | Path | None,
    progress: Progress | None,
) -> NDArray[Any]:
    """Vectors `[entity width]` of the cards of `ids`; equal cards are encoded once a shard."""
    shards = None
    if checkpoint is not None:
        plan = {
            "graph": graph.content_hash,
            "entities": hashlib.sha256(np.ascontiguousarray(ids, "<i4").data).hexdigest(),
            "encoder": encoder.name,
            "width": encoder.width,
            "cards": asdict(options),
            "dtype": dtype,
            "cards_per_shard": CARDS_PER_SHARD,
        }
        shards = Shards(Path(checkpoint), plan)
    texts: list[str] | None = None
    vectors = np.empty((len(ids), encoder.width), dtype)
    for number, start in enumerate(range(0, len(ids), CARDS_PER_SHARD)):
        stop = min(start + CARDS_PER_SHARD, len(ids))
        shard = shards.load(number, (stop - start, encoder.width), dtype) if shards else None
        if shard is None:
            texts = cards(graph, ids, options) if texts is None else texts
            shard = encode_distinct(encoder, texts[start:stop]).astype(dtype)
            if shards is not None:
                shards.store(number, shard)
        vectors[start:stop] = shard
        if progress is not None:
            progress(stop, len(ids))
    return vectors


def encode_distinct(encoder: SentenceEncoder, texts: list[str]) -> NDArray[np.float32]:
    """Vectors `[text width]`, each distinct text encoded once; checks what the encoder returns."""
    distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    if not distinct:
        return np.empty((0, encoder.width), np.float32)
    vectors = encoder.encode(list(distinct))
    if vectors.shape != (len(distinct), encoder.width) or not np.isfinite(vectors).all():
        raise LinkingError(
            f"{encoder.name} returned {vectors.shape} for {len(distinct)} texts, or numbers that "
            f"are not finite; it must return finite rows [text {encoder.width}]"
        )
    return vectors[[distinct[text] for text in texts]]


def mean_of(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """The mean row, float32 `[width]`; 0 without rows."""
    total = np.zeros(vectors.shape[1], np.float64)
    for start in range(0, len(vectors), ROWS_PER_STEP):
        total += vectors[start : start + ROWS_PER_STEP].sum(axis=0, dtype=np.float64)
    return (total / max(len(vectors), 1)).astype(np.float32)


class Shards:
    """Vectors that are written as they are made, so that a build that dies goes on.

    `plan` says what the vectors are; a folder with another plan is refused. The folder may go once
    the index is saved. Two processes may work in one folder: they write the same.
    """

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self._folder = folder
        path, text = folder / "plan.json", json.dumps(plan, indent=2, sort_keys=True)
        if path.is_file():
            if path.read_text(encoding="utf-8") != text:
                raise LinkIndexError(
                    f"{folder} holds shards of another build (graph, encoder, cards or dtype "
                    "differ); give an empty folder, or delete this one"
                )
            return
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise LinkIndexError(f"{folder} is not an empty folder; give one")
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, text, wait=SECONDS_FOR_ANOTHER, force=True)

    def load(self, number: int, shape: tuple[int, int], dtype: str) -> NDArray[Any] | None:
        """The shard, or None if it is yet to be made; `LinkIndexError` when it was altered."""
        path, sums = self._paths(number)
        if not (path.is_file() and sums.is_file()):
            return None
        with faults(DENSE, path):
            if sums.read_text(encoding="ascii", errors="replace").strip() != sha256_of(path):
                raise ValueError(f"its checksum is not that in {sums.name}; delete both files")
            array = map_array(path, dtype)
            if array.shape != shape:
                raise ValueError(f"it has shape {array.shape}, not {shape}")
        return array

    def store(self, number: int, vectors: NDArray[Any]) -> None:
        """Write a shard, and then its checksum; each appears when it is whole."""
        path, sums = self._paths(number)
        with (
            whole_file(path, wait=SECONDS_FOR_ANOTHER, force=True) as part,
            part.open("wb") as sink,
        ):
            np.save(sink, vectors)
        write_text(sums, sha256_of(path) + "\n", wait=SECONDS_FOR_ANOTHER, force=True)

    def _paths(self, number: int) -> tuple[Path, Path]:
        path = self._folder / f"shard-{number:05d}.npy"
        return path, path.with_suffix(".sha256")
