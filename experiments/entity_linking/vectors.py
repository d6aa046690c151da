"""`RememberedEncoder`: vectors of texts kept on disk, so that a killed run embeds none twice.

Several processes may share the folder. It holds blocks: `N.keys.npy` uint64 `[text 2]`, hashes of
the texts, and `N.vectors.npy` float32 `[text width]`. A block is written under another name and
renamed, its keys last.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder
from kg_loaders.disk.writing import whole_file

TEXTS_PER_BLOCK = 2048


class RememberedEncoder:
    """A `SentenceEncoder` that asks `inner` only for texts that the folder does not hold yet."""

    def __init__(
        self,
        inner: SentenceEncoder,
        folder: Path,
        *,
        announce: Callable[[str], None] = lambda _: None,
        texts_per_block: int = TEXTS_PER_BLOCK,
    ) -> None:
        self._inner, self._announce, self._size = inner, announce, texts_per_block
        self._folder = folder / inner.name.replace("/", "-")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        self._blocks: list[NDArray[np.float32]] = []
        self._read: set[str] = set()
        self._scan()

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def width(self) -> int:
        return self._inner.width

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `SentenceEncoder`."""
        keys = [_key(text) for text in texts]
        if any(key not in self._places for key in keys):
            self._scan()  # another process may have written since
        new = {k: text for k, text in zip(keys, texts, strict=True) if k not in self._places}
        missing = list(new.items())
        for start in range(0, len(missing), self._size):
            block = missing[start : start + self._size]
            self._write(
                np.array([key for key, _ in block], np.uint64),
                self._inner.encode([text for _, text in block]),
            )
            if len(missing) > self._size:
                self._announce(f"{min(start + self._size, len(missing))} of {len(missing)} texts")
        rows = np.empty((len(texts), self.width), np.float32)
        for i, key in enumerate(keys):
            block_number, row = self._places[key]
            rows[i] = self._blocks[block_number][row]
        return rows

    def _write(self, keys: NDArray[np.uint64], vectors: NDArray[np.float32]) -> None:
        stem = f"{len(self._blocks):06d}-{os.getpid()}"  # no other process writes this one
        for kind, array in (("vectors", vectors), ("keys", keys)):
            with (
                whole_file(self._folder / f"{stem}.{kind}.npy") as part,
                part.open("wb") as sink,
            ):
                np.save(sink, array)
        self._scan()

    def _scan(self) -> None:
        """Take in the blocks that are new in the folder."""
        for path in sorted(self._folder.glob("*.keys.npy")):
            if path.name in self._read:
                continue
            self._read.add(path.name)
            number = len(self._blocks)
            vectors = path.with_name(f"{path.name[:-9]}.vectors.npy")
            self._blocks.append(np.load(vectors, mmap_mode="r"))
            for row, (high, low) in enumerate(np.load(path).tolist()):
                self._places[high, low] = (number, row)


def _key(text: str) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
