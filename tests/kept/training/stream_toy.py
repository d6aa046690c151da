"""Toy data with random masks, a hash of a batch stream; imports no more than workers need."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.randomness import generator
from kept.training.stream import BatchStream, PretrainingData, read_batches

N_WORDS, N_ENTITIES, MASK = 20, 30, 1


@dataclasses.dataclass(frozen=True)
class ToyData:
    """Words of a fixed random text; a third of them masked anew each epoch."""

    n_samples: int = 24
    same_length: bool = False
    fingerprint: str = "toy"

    def __len__(self) -> int:
        return self.n_samples

    def n_nodes(self, index: int) -> int:
        return 6 if self.same_length else 3 + index % 5

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        n = self.n_nodes(index)
        words = generator(11, "text", index).integers(2, N_WORDS, n)
        masked = np.zeros(n, bool)
        masked[generator(seed, "mask", epoch, index).permutation(n)[: max(1, n // 3)]] = True
        zeros = torch.zeros(1, n, dtype=torch.long)
        return KnowledgeBatch(
            node_ids=torch.from_numpy(np.where(masked, MASK, words))[None],
            node_kinds=zeros,
            node_mask=torch.ones(1, n, dtype=torch.bool),
            positions=torch.arange(n)[None],
            segment_ids=zeros,
            visibility=Visibility.everyone(1, n),
            entity_ids=torch.from_numpy(words * 7 % N_ENTITIES)[None],
            node_labels=torch.from_numpy(np.where(masked, words, IGNORE))[None],
        )

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        longest = max(s.node_ids.shape[1] for s in samples)
        draw = generator(seed, "negatives", step).integers(N_ENTITIES, size=4)

        def pad(name: str, value: int) -> Tensor:
            rows = [getattr(s, name)[0] for s in samples]
            return torch.stack(
                [nn.functional.pad(r, (0, longest - len(r)), value=value) for r in rows]
            )

        mask = pad("node_mask", 0)
        return KnowledgeBatch(
            **{n: pad(n, 0) for n in ("node_ids", "node_kinds", "positions", "segment_ids")},
            node_mask=mask,
            visibility=Visibility.among(mask),
            entity_ids=pad("entity_ids", 0),
            node_labels=pad("node_labels", IGNORE),
            sampled_entities=torch.from_numpy(draw),
        )


def stream_hash(workers: int, data: PretrainingData | None = None, **how: int) -> str:
    stream = BatchStream(data or ToyData(), seed=5, **(how or {"batch_size": 5}))
    digest = hashlib.sha256()
    for batch in read_batches(stream, 3, 14, workers=workers, prefetch=2):
        for field in dataclasses.fields(batch):
            value = getattr(batch, field.name)
            value = value.mask if isinstance(value, Visibility) else value
            if value is not None:
                digest.update(f"{field.name}{tuple(value.shape)}".encode())
                digest.update(value.numpy().tobytes())
    return digest.hexdigest()
