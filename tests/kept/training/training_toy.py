"""A tiny model and data with everything that makes resuming hard: dropout, random masks, rows.

As a script: `training_toy.py RUN_DIR [--resume] [--steps N] [--workers N] [--pause S]` trains;
`training_toy.py --stream WORKERS` prints a hash of the batch stream.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from kept.batches import IGNORE, KnowledgeBatch
from kept.outputs import KnowledgeOutput
from kept.training.config import TrainConfig
from kept.training.log import StepRecord
from kept.training.loop import Resume, train
from kept.training.randomness import generator
from kept.training.stream import BatchStream, read_batches

N_WORDS, N_ENTITIES, MASK = 20, 30, 1


class ToyConfig(PretrainedConfig):
    model_type = "kept-training-toy"

    def __init__(self, width: int = 8, dropout: float = 0.2, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.width, self.dropout = width, dropout


class ToyModel(PreTrainedModel):
    config_class = ToyConfig
    _tied_weights_keys = {"head.weight": "words.weight"}

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.words = nn.Embedding(N_WORDS, config.width)
        self.entities = nn.Embedding(N_ENTITIES, config.width, sparse=True)
        self.mix = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.width, N_WORDS, bias=False)
        self.post_init()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        assert batch.entity_ids is not None
        assert batch.node_labels is not None
        states = self.words(batch.node_ids) + self.entities(batch.entity_ids)
        seen = batch.visible_mask.float()
        states = seen @ states / seen.sum(-1, keepdim=True)
        states = self.norm(self.dropout(torch.relu(self.mix(states))) + states)
        logits = self.head(states)
        word_loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.node_labels.flatten(), ignore_index=IGNORE
        )
        return KnowledgeOutput(
            node_states=states, losses={"words": word_loss, "size": states.square().mean()}
        )


def toy_model(**kwargs: float) -> ToyModel:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return ToyModel(ToyConfig(**kwargs))


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
            visible_mask=torch.ones(1, n, n, dtype=torch.bool),
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
            visible_mask=mask[:, None, :] & mask[:, :, None] | torch.eye(longest, dtype=torch.bool),
            entity_ids=pad("entity_ids", 0),
            node_labels=pad("node_labels", IGNORE),
            sampled_entities=torch.from_numpy(draw),
        )


def toy_config(**changes: object) -> TrainConfig:
    values: dict[str, object] = {
        "seed": 5, "steps": 12, "batch_size": 5, "threads": 1, "device": "cpu", "warmup_steps": 3,
        "learning_rate": 0.01, "entity_learning_rate": 0.02, "checkpoint_steps": 4, "log_every": 1,
    }  # fmt: skip
    return TrainConfig.model_validate(values | changes)


def weights_hash(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


def stream_hash(workers: int, **how: int) -> str:
    stream = BatchStream(ToyData(), seed=5, **(how or {"batch_size": 5}))
    digest = hashlib.sha256()
    for batch in read_batches(stream, 3, 14, workers=workers, prefetch=2):
        for field in dataclasses.fields(batch):
            value = getattr(batch, field.name)
            if value is not None:
                digest.update(f"{field.name}{tuple(value.shape)}".encode())
                digest.update(value.numpy().tobytes())
    return digest.hexdigest()


class _Slow:
    """Prints each step, so that the test can kill in the middle, and waits a little."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def step(self, record: StepRecord) -> None:
        print(record.step, flush=True)
        time.sleep(self.pause)

    def notice(self, message: str) -> None:
        print(message, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--stream", type=int)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=12)
    flags = parser.parse_args()
    if flags.stream is not None:
        print(stream_hash(flags.stream), stream_hash(flags.stream, node_budget=24))
        return
    model = toy_model()
    train(
        model,
        ToyData(),
        toy_config(workers=flags.workers, steps=flags.steps),
        flags.run,
        reporter=_Slow(flags.pause),
        resume=Resume.LATEST if flags.resume else Resume.NEVER,
    )
    print(weights_hash(model))


if __name__ == "__main__":
    main()
