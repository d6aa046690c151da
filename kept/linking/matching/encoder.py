"""`MatchingEncoder`: a sentence encoder that brings mentions beside the cards they mean.

    e(t) = W f(t) / |W f(t)|      f: vectors of a host, which stay as they are

A bi-encoder (Wu et al. 2020, EMNLP, section 3) whose two towers share all but their texts; only the
map W is trained (`kept.linking.matching.training`), in seconds, and vectors of the host that are
kept can be mapped without reading a text again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from entity_linking.errors import LinkIndexError
from entity_linking.parts import SentenceEncoder
from kg_loaders.counting import counted
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, is_of, open_sealed, seal
from kg_loaders.disk.writing import whole_folder

WEIGHTS = "map.safetensors"
MATCHING = FolderFormat(
    kind="kept matching encoder",
    version=1,
    what="a matching encoder",
    remedy="train it again: kept link train-encoder",
    make="train one: kept link train-encoder",
    mark=WEIGHTS,
    error=LinkIndexError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRecord:
    """What a map was trained over and with; accuracies are of the held-out mentions.

    `encoder` names the host's weights, `before` and `after` say how often the gold card is the
    nearest of a mention's candidates.
    """

    host: str
    encoder: str
    trained_on: str
    n_mentions: int
    n_epochs: int
    seed: int
    before: float
    after: float


class MatchingEncoder:
    """A `SentenceEncoder` over another one; see the module.

    `matrix` is `[width width]`. Vectors of encoders with different maps have different names.
    """

    def __init__(
        self, inner: SentenceEncoder, matrix: NDArray[np.float32], record: MatchingRecord
    ) -> None:
        self._inner, self._matrix, self.record = inner, matrix, record
        digest = hashlib.sha256(np.ascontiguousarray(matrix, "<f4").data).hexdigest()
        self._name = f"{inner.name}/matching-{digest[:16]}"

    def __repr__(self) -> str:
        return f"MatchingEncoder({self._name}, {counted(self.record.n_mentions, 'mentions')})"

    @property
    def name(self) -> str:
        """The inner encoder's own name and a hash of the map."""
        return self._name

    @property
    def width(self) -> int:
        return self._inner.width

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `SentenceEncoder`."""
        return mapped(self._inner.encode(texts), self._matrix)

    def over(self, inner: SentenceEncoder) -> MatchingEncoder:
        """The same map over another reader of the same vectors, such as one that remembers."""
        if inner.name != self._inner.name:
            raise LinkIndexError(
                f"{self} maps vectors of {self._inner.name}, not of {inner.name}; give an encoder "
                "with the same weights"
            )
        return MatchingEncoder(inner, self._matrix, self.record)

    # ---- disk --------------------------------------------------------------
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder, all or nothing. Raises `WriteError`."""
        with whole_folder(path, **replaced(MATCHING), force=force) as part:
            (part / WEIGHTS).write_bytes(save({"map": self._matrix}))
            seal(part, MATCHING, msgspec.to_builtins(self.record), [WEIGHTS])

    @classmethod
    def open(cls, path: str | Path) -> MatchingEncoder:
        """Open a folder written by `save`, over its host; loads torch.

        Raises `LinkIndexError` when it is damaged, or its host has other weights now.
        """
        from kept.linking.sentences import HostSentenceEncoder

        folder = Path(path)
        sealed = open_sealed(folder, MATCHING)
        sealed.require_files([WEIGHTS])
        record = sealed.about(MatchingRecord)
        inner = HostSentenceEncoder(record.host)
        if inner.name != record.encoder:
            raise LinkIndexError(
                f"{folder} was trained over {record.encoder}, {record.host} is {inner.name} now; "
                f"{MATCHING.remedy}"
            )
        try:
            matrix = load((folder / WEIGHTS).read_bytes())["map"]
        except (SafetensorError, KeyError) as error:
            raise LinkIndexError(f"{folder / WEIGHTS} does not hold the map: {error}") from error
        if matrix.shape != (inner.width, inner.width) or not np.isfinite(matrix).all():
            raise LinkIndexError(
                f"{folder / WEIGHTS} holds {matrix.shape}, not finite numbers "
                f"[{inner.width} {inner.width}]; {MATCHING.remedy}"
            )
        sealed.remember()
        return cls(inner, matrix, record)


def mapped(vectors: NDArray[np.float32], matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """`vectors [text width]` through `matrix`, of length 1."""
    rows = vectors @ matrix.T
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    result: NDArray[np.float32] = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return result


def is_matching(folder: Path) -> bool:
    """Whether `folder` looks like one that `MatchingEncoder.save` wrote."""
    return is_of(folder, MATCHING)
