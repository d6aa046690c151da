"""A sentence encoder for tests: hashed character trigrams, no network, no weights."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import Candidate, Link, LinkedText, Mention


class TrigramEncoder:
    """Counts of hashed character trigrams, scaled to length 1; notes what it was asked."""

    def __init__(self, width: int = 64, *, stop_after: int | None = None) -> None:
        self.width, self.stop_after = width, stop_after
        self.surfaces: list[str] = []

    @property
    def name(self) -> str:
        return f"trigrams/{self.width}"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.stop_after is not None and len(self.surfaces) + len(texts) > self.stop_after:
            raise KeyboardInterrupt
        self.surfaces += texts
        vectors = np.zeros((len(texts), self.width), np.float32)
        for row, text in enumerate(texts):
            form = f"  {text.lower()}  "
            for i in range(len(form) - 2):
                vectors[row, zlib.crc32(form[i : i + 3].encode()) % self.width] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def mention_of(text: str, surface: str, *entities: str) -> LinkedText:
    """A text with one mention and its candidates."""
    start = text.index(surface)
    candidates = tuple(Candidate(entity, 1 / len(entities), 0.0) for entity in entities)
    return LinkedText(text, (Link(Mention(start, start + len(surface)), candidates, None, 1.0),))
