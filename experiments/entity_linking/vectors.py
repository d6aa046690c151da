"""`RememberedEncoder`: vectors of texts kept on disk, so that a killed run embeds none twice."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder

TEXTS_PER_BLOCK = 2048
WAIT_SECONDS = 60.0
TABLE = "CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"


class RememberedEncoder:
    """A `SentenceEncoder` whose `inner` reads only texts that the folder does not hold yet.

    Several processes may share the folder, an SQLite file for each encoder.
    """

    def __init__(
        self,
        inner: SentenceEncoder,
        folder: Path,
        *,
        announce: Callable[[str], None] = lambda _: None,
        texts_per_block: int = TEXTS_PER_BLOCK,
    ) -> None:
        self._inner, self._announce, self._size = inner, announce, texts_per_block
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{inner.name.replace('/', '-')}.sqlite"

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def width(self) -> int:
        return self._inner.width

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `SentenceEncoder`."""
        keys = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]
        rows = np.empty((len(texts), self.width), np.float32)
        with closing(sqlite3.connect(self._file, timeout=WAIT_SECONDS)) as database:
            database.execute(TABLE)
            stored = {key: self._stored(database, key) for key in keys}
            missing = {k: t for k, t in zip(keys, texts, strict=True) if stored[k] is None}
            for start in range(0, len(missing), self._size):
                block = list(missing)[start : start + self._size]
                vectors = self._inner.encode([missing[key] for key in block])
                values = [row.astype(np.float32).tobytes() for row in vectors]
                stored.update(zip(block, values, strict=True))
                database.executemany(
                    "INSERT OR IGNORE INTO vector VALUES (?, ?)", zip(block, values, strict=True)
                )
                database.commit()
                if len(missing) > self._size:
                    self._announce(f"{start + len(block)} of {len(missing)} texts")
        for row, key in enumerate(keys):
            rows[row] = np.frombuffer(stored[key] or b"", np.float32)
        return rows

    @staticmethod
    def _stored(database: sqlite3.Connection, key: bytes) -> bytes | None:
        row = database.execute("SELECT value FROM vector WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])
