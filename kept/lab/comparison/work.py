"""How much each missing run of an experiment computes, counted before any is made.

The unit is a node read forward. A step of training reads its nodes forward and backward, which
takes about three times as long. Continued pre-training is counted in the first run that needs it,
a run that copies the baseline's answers computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kept.errors import KeptError
from kept.inputs.controls.conditions import WITHOUT_FACTS
from kept.lab.comparison.continued_pretraining import STAGE
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study
from kept.methods import BASELINE
from kept.training.config import TrainConfig

BACKWARD = 3
N_SAMPLED = 32
"""Texts whose nodes are counted: those of the others are taken to be as many on the mean."""


@dataclass(frozen=True)
class RunWork:
    """Nodes that a run reads in continued pre-training, in training and in evaluation."""

    stage: float = 0.0
    training: float = 0.0
    evaluation: float = 0.0

    @property
    def units(self) -> float:
        """All of it in nodes read forward."""
        return BACKWARD * (self.stage + self.training) + self.evaluation

    @property
    def first_training(self) -> float:
        """The units of what is trained first."""
        return BACKWARD * (self.stage or self.training)


def work_of_runs(study: Study[ComparisonTrial], keys: Iterable[RunKey]) -> dict[RunKey, RunWork]:
    """Return the work of each run that is missing, in the order in which they are made."""
    counter = _Counter(study.trial)
    return {key: counter.work(key) for key in keys if study.record(key) is None}


def n_steps(training: TrainConfig, n_samples: int) -> int:
    """Return how many optimiser steps a training of `n_samples` has, of batches of a size."""
    if training.steps is not None:
        return training.steps
    n_batches = -(-n_samples // (training.batch_size or n_samples))
    return -(-n_batches * (training.epochs or 0) // training.accumulate)


def n_nodes(training: TrainConfig, n_samples: int, nodes: float) -> float:
    """Return how many nodes a training reads forward, where a sample has `nodes`."""
    if training.steps is None:
        return (training.epochs or 0) * n_samples * nodes
    if training.batch_size is None:
        return training.steps * training.accumulate * float(training.node_budget or 0)
    size = min(training.batch_size, n_samples)
    return training.steps * training.accumulate * size * nodes


class _Counter:
    """Counts the work of runs in turn; what they share is counted once."""

    def __init__(self, trial: ComparisonTrial) -> None:
        self._trial = trial
        self._stages: set[str] = set()
        self._known: dict[Any, Any] = {}

    def work(self, key: RunKey) -> RunWork:
        try:
            return self._work(key)
        except KeptError:  # left out, with its reason, when its turn comes
            return RunWork()

    def _work(self, key: RunKey) -> RunWork:
        trial = self._trial
        if key.knowledge in WITHOUT_FACTS and key.method != BASELINE:
            first = RunKey(key.method, key.knowledge, 0)
            if self._once(("copy", first), lambda: trial.is_copy(first)):
                return RunWork()
        training = trial.config(key).training
        sizes = trial.split_sizes
        nodes = self._once(("task", key.method, _kind(key)), lambda: self._of_task(key))
        evaluated = sum(n for name, n in sizes.items() if name != "train") * nodes
        n_times = 1
        if training.evaluate_every:
            steps = n_steps(training, sizes["train"])
            n_times += -(-steps // training.evaluate_every)
        return RunWork(
            self._stage(key), n_nodes(training, sizes["train"], nodes), n_times * evaluated
        )

    def _of_task(self, key: RunKey) -> float:
        return _mean_nodes(self._trial.sampled_data(key.method, _kind(key), N_SAMPLED))

    def _stage(self, key: RunKey) -> float:
        """Nodes of continued pre-training, where this run is the first that needs it."""
        trial, plan = self._trial, self._trial.plan.pretraining
        if plan is None:
            return 0.0
        folder = trial.stage_place(key)
        if folder.name in self._stages or (folder / STAGE).exists():
            return 0.0
        self._stages.add(folder.name)
        texts = trial.data.texts

        def count() -> tuple[float, int]:
            data = trial.stage_data(key, texts[:N_SAMPLED])
            of_texts = len(data) <= min(N_SAMPLED, len(texts))  # else its samples are facts
            share = len(texts) / min(N_SAMPLED, len(texts)) if of_texts else 1.0
            return _mean_nodes(data), round(len(data) * share)

        nodes, n_samples = self._once(("stage", key.method, _kind(key)), count)
        return n_nodes(plan.training, n_samples, nodes)

    def _once(self, name: Any, make: Any) -> Any:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]


def _kind(key: RunKey) -> Any:
    """The kind of knowledge, of those that show as many facts."""
    return "off" if key.knowledge in WITHOUT_FACTS else "true"


def _mean_nodes(data: Any) -> float:
    """Nodes of a sample on the mean, of the first few."""
    sizes = list(_sizes(data, range(min(len(data), N_SAMPLED))))
    return sum(sizes) / max(len(sizes), 1)


def _sizes(data: Any, items: Sequence[int]) -> Iterator[int]:
    for item in items:
        sample = [data.sample(item, epoch=0, seed=0)]
        yield int(data.collate(sample, epoch=0, seed=0, step=0).node_mask.sum())
