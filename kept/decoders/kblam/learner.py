"""Training a KBLaM on a private world, step by step, from where it was stopped.

Each step is one micro-batch: plain questions reworded by templates, and a share of questions whose
fact is left out of the graph, to be refused. The answer is learnt from its first word on, in a
graph of up to `n_context` facts, as many small as large ones (published: 4 more every 100 steps).
Texts are drawn from those whose prompts the host has read (`kept.decoders.kblam.texts`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from kept.decoders.kblam.knowledge_base import KnowledgeBase
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.texts import ReadTexts, Texts
from kept.decoders.kblam.training import (
    MicroBatch,
    new_optimiser,
    train_step,
)
from kept.randomness import generator
from kg_loaders.disk.writing import write_bytes, write_json

FEWEST = 8
"""Facts in the smallest graph of a step."""
STATE, LOG = "training.pt", "training.json"


class TrainingPlan(BaseModel):
    """How long and on what a KBLaM is trained; `cpu_seconds` stops it early, the schedule stays.

    `learning_rate` is that of queries and keys, which are aligned before; `value_rate` that of the
    values, which begin as words.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    n_steps: PositiveInt
    batch_size: PositiveInt
    n_refusals: NonNegativeInt
    n_context: PositiveInt
    learning_rate: PositiveFloat
    value_rate: PositiveFloat
    cpu_seconds: PositiveFloat
    save_every: PositiveInt = 25


@dataclass(frozen=True, eq=False)
class Learner:
    """A model, the texts and facts it is trained on; `stored` as of `texts.read_texts`."""

    model: KBLaM
    texts: Texts
    stored: ReadTexts
    base: KnowledgeBase
    plan: TrainingPlan
    seed: int

    def batch(self, step: int) -> MicroBatch:
        """The micro-batch of a step: the last `n_refusals` questions are to be refused."""
        draws = generator(self.seed, "kblam batch", step)
        n, plan, texts = len(self.base.facts), self.plan, self.texts
        is_refused, about = texts.refused.numpy(), texts.rows.numpy()
        refused = draws.permutation(np.flatnonzero(is_refused))[: plan.n_refusals]
        there = np.flatnonzero(~is_refused & ~np.isin(about, about[refused]))
        n_right = plan.batch_size - len(refused)
        chosen = np.concatenate([draws.permutation(there)[:n_right], refused])
        asked = about[chosen]
        others = draws.permutation(np.setdiff1d(np.arange(n), asked))
        size = int(FEWEST * (max(plan.n_context, FEWEST) / FEWEST) ** draws.random())
        own = np.setdiff1d(asked[:n_right], asked[n_right:])
        rows = np.concatenate([own, others[: max(size - len(own), 1)]])
        place = {row: i for i, row in enumerate(own.tolist())}
        some = torch.from_numpy(chosen)
        width = int(texts.mask[some].sum(dim=1).max())
        return MicroBatch(
            texts.ids[some, :width], texts.mask[some, :width], texts.labels[some, :width],
            torch.from_numpy(rows), torch.tensor([place.get(row, -1) for row in asked.tolist()]),
            self.stored.entering[some, :width], texts.prompt_mask[some],
            self.stored.cache(self.model, some),
        )  # fmt: skip

    def run(
        self, folder: Path, announce: Callable[[str], None],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> list[float]:  # fmt: skip
        """Train, or go on; the losses of all steps so far. Nothing is done where all is done.

        On `should_stop` the training is left where it is; the same call goes on.
        """
        optimiser, schedule = new_optimiser(
            self.model.train(), self.plan.n_steps, learning_rate=self.plan.learning_rate,
            value_rate=self.plan.value_rate,
        )  # fmt: skip
        losses, spent = self._restore(folder, optimiser, schedule)
        start, vectors = time.process_time() - spent, self.base.vectors
        for step in range(len(losses), self.plan.n_steps):
            spent = time.process_time() - start
            if spent > self.plan.cpu_seconds or should_stop():
                break
            losses += train_step(self.model, [self.batch(step)], vectors, optimiser, schedule)
            if (step + 1) % self.plan.save_every == 0:
                self._save(folder, optimiser, schedule, losses, time.process_time() - start)
                recent = float(np.mean(losses[-self.plan.save_every :]))
                announce(f"step {step + 1}: loss {recent:.3f}, {spent:.0f} CPU seconds")
        self._save(folder, optimiser, schedule, losses, time.process_time() - start)
        self.model.eval()
        return losses

    def _save(
        self, folder: Path, optimiser: AdamW, schedule: LambdaLR, losses: Sequence[float],
        seconds: float,
    ) -> None:  # fmt: skip
        stream = BytesIO()
        state = {
            "model": self.model.own_state(), "optimiser": optimiser.state_dict(),
            "schedule": schedule.state_dict(), "losses": list(losses), "seconds": seconds,
        }  # fmt: skip
        torch.save(state, stream)
        write_bytes(folder / STATE, stream.getvalue(), force=True)
        log = {"losses": [round(loss, 4) for loss in losses], "cpu_seconds": round(seconds)}
        write_json(folder / LOG, log, force=True)

    def _restore(
        self, folder: Path, optimiser: AdamW, schedule: LambdaLR
    ) -> tuple[list[float], float]:
        if not (folder / STATE).exists():
            return [], 0.0
        state: dict[str, Any] = torch.load(folder / STATE, weights_only=True)
        self.model.load_own_state(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        schedule.load_state_dict(state["schedule"])
        return list(state["losses"]), float(state["seconds"])
