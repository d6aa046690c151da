"""The vectors of all cards, made in shards so that a build that dies goes on where it was.

A checkpoint folder holds `plan.json`, which says what the vectors are, and `shard-00000.npy` and so
on, each renamed into place when whole.

Axis legend: entity, row, width.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.dense.cards import CardOptions, cards
from entity_linking.dense.folder import Dtype, map_array
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.parts import SentenceEncoder
from kg_loaders import KnowledgeGraph
from kg_loaders.folder import sync

CARDS_PER_SHARD = 2048
ROWS_PER_STEP = 1 << 16

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
    distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
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
            raise LinkIndexError(f"{folder} holds other things; give an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._put(path, lambda part: part.write_text(text, encoding="utf-8"))

    def load(self, number: int, shape: tuple[int, int], dtype: str) -> NDArray[Any] | None:
        """The shard, or None if it is yet to be made."""
        path = self._path(number)
        return map_array(path, dtype, shape) if path.is_file() else None

    def store(self, number: int, vectors: NDArray[Any]) -> None:
        """Write a shard; it appears when it is whole."""

        def save(part: Path) -> None:
            with part.open("wb") as sink:
                np.save(sink, vectors)

        self._put(self._path(number), save)

    def _path(self, number: int) -> Path:
        return self._folder / f"shard-{number:05d}.npy"

    def _put(self, path: Path, fill: Callable[[Path], object]) -> None:
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            fill(part)
            sync(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
