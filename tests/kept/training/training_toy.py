"""A tiny model with everything that makes resuming hard: dropout, random masks, sparse rows.

`train_toy.py` is its command line.
"""

from __future__ import annotations

import hashlib

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from kept.batches import IGNORE, KnowledgeBatch
from kept.outputs import KnowledgeOutput
from kept.training.config import TrainConfig
from tests.kept.training.stream_toy import N_ENTITIES, N_WORDS


class ToyConfig(PretrainedConfig):
    model_type = "kept-training-toy"

    def __init__(self, width: int = 8, dropout: float = 0.2, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.width, self.dropout, self.tie_word_embeddings = width, dropout, True


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
        seen = batch.visibility.mask.float()
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
