"""Decoders on the training loop of all methods: what is trained, and batches by number.

`kept.training.loop.train` takes both: a `DecoderLearner` as the model and `Lessons` as the data.
The host is frozen, and there before a training begins: checkpoints hold what is trained alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from kept.batches.shares import Share, TrainingBatch, part_of
from kept.model_files import MODEL
from kept.training.config import TrainConfig

Sample = TypeVar("Sample", bound=Sized)


class TrainedPart(NamedTuple):
    """What a forward pass returns: shares of losses over all processes, by name."""

    losses: dict[str, Tensor]


class DecoderLearner(nn.Module):
    """A loss of batches, and the modules that it computes with.

    Of `parts` what needs gradients is trained, and is all that checkpoints hold. `loss` divides by
    `mean_of`. Nothing changes with the mode of training: parts stay in the one that they are in, as
    a host's dropout is not part of any method here. `enters_layers`: `loss` calls what lies inside
    the host's layers, so that they cannot be shared out one by one (`share_layers`). `rates` are
    shares of the learning rate, of parameters by the start of their names in `parts`.
    """

    def __init__(
        self,
        parts: Mapping[str, nn.Module],
        loss: Callable[[Any], Tensor],
        *,
        enters_layers: bool = False,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.parts, self._loss = nn.ModuleDict(parts), loss
        self.enters_layers, self._rates = enters_layers, rates or {}

    def forward(self, batch: TrainingBatch) -> TrainedPart:
        """The loss of a share of a batch."""
        return TrainedPart({"loss": self._loss(batch)})

    def train(self, mode: bool = True) -> DecoderLearner:
        """The parts stay in the mode that they are in."""
        self.training = mode
        return self

    def own_tensors(self) -> dict[str, Tensor]:
        """What is trained, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def rate_shares(self) -> dict[int, float]:
        """`rates` by `id` of a parameter."""
        return {
            id(p): share
            for name, p in self.parts.named_parameters()
            for start, share in self._rates.items()
            if name.startswith(start)
        }

    def save_pretrained(
        self, folder: str | Path, state_dict: Mapping[str, Tensor] | None = None
    ) -> None:
        """Write what is trained, or `state_dict` in its place, as safetensors."""
        tensors = self.own_tensors() if state_dict is None else state_dict
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        save_file(plain, Path(folder) / MODEL.mark)


@dataclass(frozen=True, eq=False, kw_only=True)
class DecoderBatch:
    """Abstract: the texts of a step; `node_mask` says which nodes are real."""

    node_mask: Tensor

    def __len__(self) -> int:
        return len(self.node_mask)

    def to(self, device: torch.device) -> DecoderBatch:
        """The same batch on `device`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return dataclasses.replace(
            self, **{n: v.to(device) for n, v in values.items() if hasattr(v, "to")}
        )


Batch = TypeVar("Batch", bound=TrainingBatch)


@dataclass(frozen=True, eq=False)
class Lessons(Generic[Sample, Batch]):
    """Batches by number, as `kept.training.stream.Numbered` has it.

    `draw(seed, number)` says which samples batch `number` has, in their order, and what they have
    in common; `make(drawn, own)` makes a batch of those that are a process's own. `fingerprint`
    changes with the samples.
    """

    fingerprint: str
    per_epoch: int
    draw: Callable[[int, int], Sample]
    make: Callable[[Sample, slice], Batch]

    def share(self, number: int, *, seed: int, rank: int, n: int) -> Share[Batch]:
        """The part of process `rank` of `n`; each makes no more than that."""
        draw = self.draw(seed, number)
        part, is_spare = part_of(len(draw), rank, n)
        return Share(self.make(draw, part), is_spare)


class Training(NamedTuple):
    """Arguments of `kept.training.loop.train`: `train(*training, folder)`."""

    learner: DecoderLearner
    lessons: Lessons[Any, Any]
    config: TrainConfig


def training_config(
    seed: int, n_steps: int, batch_size: int, rate: float, **fields: Any
) -> TrainConfig:
    """AdamW on the CPU at a constant rate, without decay, clipping or warm-up; or as `fields` say.

    The CPU, since that is where questions are asked.
    """
    values = {
        "seed": seed, "steps": n_steps, "batch_size": batch_size, "learning_rate": rate,
        "schedule": "constant", "weight_decay": 0.0, "clip_norm": None, "device": "cpu",
        "gradient_norms_every": None, "log_every": 1, "checkpoint_seconds": 60.0, "keep": 1,
    }  # fmt: skip
    return TrainConfig.model_validate(values | fields)
