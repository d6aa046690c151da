"""Training a KBLaM on a private world.

Each step is one micro-batch: plain questions reworded by templates, and a share of questions whose
fact is left out of the graph, to be refused. The answer is learnt from its first word on, in a
graph of up to `n_context` facts, as many small as large ones (published: 4 more every 100 steps).
Texts are drawn from those whose prompts the host has read (`kept.decoders.kblam.texts`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from kept.decoders.kblam.knowledge_base import KnowledgeBase
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.texts import ReadTexts, Texts
from kept.decoders.kblam.training import LAST_SHARE, MicroBatch, loss_of
from kept.decoders.learning import DecoderLearner, Lessons, Training, training_config
from kept.randomness import generator
from kept.training.log import Reporter, TrainResult
from kept.training.loop import Resume, train

FEWEST = 8
"""Facts in the smallest graph of a step."""


class TrainingPlan(BaseModel):
    """How long and on what a KBLaM is trained; so many `cpu_seconds` of the process, of each call
    that goes on, end it early with the schedule as it is. A checkpoint is left every `save_every`.

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
class Sample:
    """Texts of a step, with the facts of its graph; `right` are the places of those that answer."""

    chosen: NDArray[np.int64]
    facts: Tensor
    right: Tensor

    def __len__(self) -> int:
        return len(self.chosen)


@dataclass(frozen=True, eq=False)
class Learner:
    """A model, the texts and facts it is trained on; `stored` as of `texts.read_texts`."""

    model: KBLaM
    texts: Texts
    stored: ReadTexts
    base: KnowledgeBase
    plan: TrainingPlan
    seed: int

    def sample(self, step: int) -> Sample:
        """What a step asks: the last `n_refusals` questions are to be refused."""
        draws = generator(self.seed, "kblam batch", step)
        n, plan, texts = len(self.base.facts), self.plan, self.texts
        is_refused, about = texts.refused.numpy(), texts.rows.numpy()
        refused = draws.permutation(np.flatnonzero(is_refused))[: plan.n_refusals]
        there = np.flatnonzero(~is_refused & ~np.isin(about, about[refused]))
        n_right = plan.batch_size - len(refused)
        sample = np.concatenate([draws.permutation(there)[:n_right], refused])
        query_rows = about[sample]
        others = draws.permutation(np.setdiff1d(np.arange(n), query_rows))
        size = int(FEWEST * (max(plan.n_context, FEWEST) / FEWEST) ** draws.random())
        extra_rows = np.setdiff1d(query_rows[:n_right], query_rows[n_right:])
        rows = np.concatenate([extra_rows, others[: max(size - len(extra_rows), 1)]])
        index_of_row = {row: i for i, row in enumerate(extra_rows.tolist())}
        right = torch.tensor([index_of_row.get(row, -1) for row in query_rows.tolist()])
        return Sample(sample, torch.from_numpy(rows), right)

    def batch(self, sample: Sample, part: slice = slice(None)) -> MicroBatch:
        """The micro-batch of what is drawn, or of a part of its texts."""
        texts, every = self.texts, torch.from_numpy(sample.chosen)
        some = every[part]
        width = int(texts.mask[every].sum(dim=1).max())
        labels = texts.labels[every, :width]
        return MicroBatch(
            texts.ids[some, :width],
            texts.mask[some, :width],
            labels[part],
            sample.facts,
            sample.right[part],
            self.stored.entering[some, :width],
            texts.prompt_mask[some],
            self.stored.cache(self.model, some),
            int((labels[:, 1:] > 0).sum(dim=1).max()),
        )

    def training(self) -> Training:
        """What the training loop takes: the maps of facts, queries and keys, by the released loss.

        The loss looks into the host's layers, whose weights are so shared out as one.
        """
        model, plan, vectors = self.model, self.plan, self.base.vectors
        learner = DecoderLearner(
            {"kblam": model},
            lambda batch: loss_of(model, batch, *vectors),
            enters_layers=True,
            rates={"kblam.encoder.value_projector.": plan.value_rate / plan.learning_rate},
        )
        lessons = Lessons(
            fingerprint_of(self.texts, self.base),
            -(-len(self.texts) // plan.batch_size),
            lambda seed, step: self.sample(step),
            self.batch,
        )
        config = training_config(
            self.seed,
            plan.n_steps,
            plan.batch_size,
            plan.learning_rate,
            schedule="cosine",
            last_share=LAST_SHARE,
            checkpoint_steps=plan.save_every,
            budget_cpu_minutes=plan.cpu_seconds / 60,
        )
        return Training(learner, lessons, config)

    def run(
        self,
        folder: Path,
        *,
        reporter: Reporter | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> TrainResult:
        """Train, or go on from the last checkpoint in `folder`; the model is then as it ends.

        On `should_stop` the training is left where it is; the same call goes on.
        """
        ended = train(
            *self.training(),
            folder,
            reporter=reporter,
            resume=Resume.IF_ANY,
            should_stop=should_stop,
        )
        self.model.eval()
        return ended


def fingerprint_of(texts: Texts, base: KnowledgeBase) -> str:
    """Changes with texts and facts."""
    state = hashlib.sha256(repr(base.facts).encode())
    for each in (texts.prompts, texts.ids, texts.labels, texts.rows, texts.refused):
        state.update(each.numpy().tobytes())
    return state.hexdigest()[:16]
