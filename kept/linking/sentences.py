"""Sentence vectors from any host: what dense entity linking compares texts by.

Sentence-BERT (Reimers and Gurevych 2019, section 3): the mean of the last layer's states over all
pieces, or the state of the first piece, scaled to length 1. No pooler and no further projection.

Axis legend: text, batch, node, width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from transformers import PreTrainedModel

from kept.errors import ConfigError
from kept.hosts import load_host, load_tokenizer, n_positions

Pooling = Literal["mean", "cls"]
MOST_PIECES = 256
TEXTS_PER_PASS = 1 << 14


class HostSentenceEncoder:
    """A host as an `entity_linking.parts.SentenceEncoder`.

    `host` is `minilm`, a folder or a hub name (`kept.hosts.load_host`). `pooling` is "mean" (over
    all pieces, the special ones included) or "cls" (the first piece); `minilm` was trained with the
    mean. Longer texts lose what is beyond `max_length` pieces (None: 256, or what the host takes).
    Texts are sorted by length and go in batches of `batch_size`, so padding costs next to nothing.
    `name` does not hold `max_length`: vectors of shorter and longer readings compare.

    A text's vector does not depend on the texts beside it, up to rounding (1e-6).
    Raises `ConfigError` for options out of range, and what `load_host` raises.
    """

    def __init__(
        self,
        host: str | Path = "minilm",
        *,
        pooling: Pooling = "mean",
        max_length: int | None = None,
        batch_size: int = 32,
        device: torch.device | str = "cpu",
    ) -> None:
        if pooling not in get_args(Pooling):
            raise ConfigError(
                f"pooling is {pooling!r}; choose one of {', '.join(get_args(Pooling))}"
            )
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; give 1 or more")
        self._host = load_host(host).to(device).requires_grad_(False)
        self._tokenizer = load_tokenizer(host)
        limit = n_positions(self._host)
        max_length = min(MOST_PIECES, limit) if max_length is None else max_length
        if not 3 <= max_length <= limit:
            raise ConfigError(f"max_length is {max_length}; this host takes 3 to {limit} pieces")
        self._pooling, self._max_length, self._batch_size = pooling, max_length, batch_size
        self._device = torch.device(device)
        self._name = f"{Path(host).name}/{pooling}/{_weights_hash(self._host)[:16]}"

    def __repr__(self) -> str:
        return f"HostSentenceEncoder({self._name}, width={self.width})"

    @property
    def name(self) -> str:
        """The host's own name, the pooling and a hash of the weights."""
        return self._name

    @property
    def width(self) -> int:
        return int(self._host.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Rows of length 1, float32 `[text width]`, in the order of `texts`."""
        vectors = np.empty((len(texts), self.width), np.float32)
        for start in range(0, len(texts), TEXTS_PER_PASS):
            some = list(texts[start : start + TEXTS_PER_PASS])
            vectors[start : start + len(some)] = self._encode(some)
        return vectors

    @torch.inference_mode()
    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        pieces: list[list[int]] = self._tokenizer(
            texts,
            truncation=True,
            max_length=self._max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        lengths = np.array([len(row) for row in pieces])
        order = np.argsort(lengths, kind="stable")
        vectors = np.empty((len(texts), self.width), np.float32)
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            vectors[rows] = self._pool([pieces[row] for row in rows.tolist()]).cpu().numpy()
        return vectors

    def _pool(self, pieces: list[list[int]]) -> Tensor:
        """Vectors `[batch width]` of texts of nearly one length."""
        widest = len(pieces[-1])
        lengths = torch.tensor([len(row) for row in pieces])
        padding = self._tokenizer.pad_token_id
        ids = torch.tensor([row + [padding] * (widest - len(row)) for row in pieces])
        keep = (torch.arange(widest) < lengths[:, None]).to(self._device)
        states: Tensor = self._host(
            input_ids=ids.to(self._device),
            attention_mask=None if len(pieces[0]) == widest else keep,
        ).last_hidden_state
        if self._pooling == "cls":
            return normalize(states[:, 0].float(), dim=1)
        total = torch.einsum("bnw,bn->bw", states.float(), keep.float())
        return normalize(total, dim=1)


def _weights_hash(host: PreTrainedModel) -> str:
    """SHA-256 over the names, types, shapes and numbers of all weights."""
    digest = hashlib.sha256()
    for name, value in sorted(host.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        raw = value.detach().cpu().contiguous()
        digest.update(raw.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
