"""Training a KBLaM on a private world, step by step, from where it was stopped.

Each step is one micro-batch: plain questions reworded by templates, and a share of questions whose
fact is left out of the graph, to be refused. Only the value is learnt. Texts are drawn from those
that the host has read up to the first reading layer (`experiments.kblam.texts`). The context grows
as published, faster: `grow_every` steps add 4 facts, up to `n_context`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from torch.optim import AdamW

from experiments.kblam.texts import Texts
from kept.decoders.kblam.knowledge_base import KnowledgeBase
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.training import (
    MicroBatch,
    graph_size,
    new_optimiser,
    train_step,
    with_context,
)
from kept.randomness import generator
from kept.training.config import RunConfig
from kg_loaders.disk.writing import write_bytes, write_json

STATE, LOG = "training.pt", "training.json"


class TrainingPlan(RunConfig):
    """How long and on what a KBLaM is trained; `cpu_seconds` stops it early, the schedule stays.

    `learning_rate` is that of queries and keys, which are aligned before; `value_rate` that of the
    values, which begin as words. `attention` is the weight of the loss on attention to the right
    fact, which the paper has not.
    """

    n_steps: PositiveInt
    batch_size: PositiveInt
    n_refusals: NonNegativeInt
    n_context: PositiveInt
    grow_every: PositiveInt
    learning_rate: PositiveFloat
    value_rate: PositiveFloat
    cpu_seconds: PositiveFloat
    save_every: PositiveInt = 25
    attention: NonNegativeFloat = 0.0


@dataclass(frozen=True, eq=False)
class Learner:
    """A model, the texts and facts it is trained on; `entering` as of `texts.entering`."""

    model: KBLaM
    texts: Texts
    entering: Tensor
    base: KnowledgeBase
    plan: TrainingPlan
    seed: int

    def batch(self, step: int) -> MicroBatch:
        """The micro-batch of a step: the last `n_refusals` questions are to be refused."""
        draws = generator(self.seed, "kblam batch", step)
        n, plan, texts = len(self.base.facts), self.plan, self.texts
        answered, refused = (draws.permutation(np.flatnonzero(kind)) for kind in
                             (~texts.refused.numpy(), texts.refused.numpy()))  # fmt: skip
        n_right = plan.batch_size - plan.n_refusals
        chosen = np.concatenate([answered[:n_right], refused[: plan.n_refusals]])
        asked = texts.rows.numpy()[chosen]
        grown = graph_size(100 * (step // plan.grow_every), None)
        others = np.setdiff1d(np.arange(n), asked)
        size = min(grown, plan.n_context, len(others) - 1)
        context = draws.permutation(others)[: size + 1]
        own = asked.copy()
        own[n_right:] = context[-1]
        rows = with_context(torch.from_numpy(own)[:, None], torch.from_numpy(context[:-1]))
        right = torch.where(torch.arange(len(asked)) < n_right, 0, -1)
        some = torch.from_numpy(chosen)
        width = int(texts.mask[some].sum(dim=1).max())
        return MicroBatch(
            texts.ids[some, :width], texts.mask[some, :width], texts.labels[some, :width], rows,
            right, self.entering[some, :width],
        )  # fmt: skip

    def run(self, folder: Path, announce: Callable[[str], None]) -> list[float]:
        """Train, or go on; the losses of all steps so far. Nothing is done where all is done."""
        optimiser, schedule = new_optimiser(
            self.model.train(), self.plan.n_steps, learning_rate=self.plan.learning_rate,
            value_rate=self.plan.value_rate,
        )  # fmt: skip
        losses, spent = self._restore(folder, optimiser)
        for _ in losses:
            schedule.step()
        start, vectors = time.process_time() - spent, self.base.vectors
        for step in range(len(losses), self.plan.n_steps):
            spent = time.process_time() - start
            if spent > self.plan.cpu_seconds:
                break
            losses += train_step(
                self.model, [self.batch(step)], vectors, optimiser, schedule,
                attention=self.plan.attention,
            )  # fmt: skip
            if (step + 1) % self.plan.save_every == 0:
                self._save(folder, optimiser, losses, time.process_time() - start)
                recent = float(np.mean(losses[-self.plan.save_every :]))
                announce(f"step {step + 1}: loss {recent:.3f}, {spent:.0f} CPU seconds")
        self._save(folder, optimiser, losses, time.process_time() - start)
        self.model.eval()
        return losses

    def _save(
        self, folder: Path, optimiser: AdamW, losses: Sequence[float], seconds: float
    ) -> None:
        stream = BytesIO()
        state = {"model": self.model.own_state(), "optimiser": optimiser.state_dict()}
        torch.save(state | {"losses": list(losses), "seconds": seconds}, stream)
        write_bytes(folder / STATE, stream.getvalue(), force=True)
        log = {"losses": [round(loss, 4) for loss in losses], "cpu_seconds": round(seconds)}
        write_json(folder / LOG, log, force=True)

    def _restore(self, folder: Path, optimiser: AdamW) -> tuple[list[float], float]:
        if not (folder / STATE).exists():
            return [], 0.0
        state: dict[str, Tensor] = torch.load(folder / STATE, weights_only=True)
        self.model.load_own_state(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        return list(state["losses"]), float(state["seconds"])
