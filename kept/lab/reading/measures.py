"""Measures of reading: linear probe, shift of states, gradient norms, steps, and the verdict.

Axis legend: item, width (of the state that the head reads), class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.errors import EvaluationError
from kept.graphs.graph import NodeKind
from kept.heads.model import KnowledgeForTask
from kept.lab.probing.layers.linear import fit
from kept.lab.study.design import DOES_NOT_READ
from kept.training.finetuning.data import TaskData

GOOD = 0.9
"""The share of the ceiling from which on a method counts as reading."""
READS = "reads facts"
NOT_TESTED = "not tested with wrong facts"
"""Right with true facts; another entity's were not tried, so what makes it right is not known."""
OTHERWISE = "right without the fact, so something else tells the answer"


@torch.no_grad()
def read_states(
    model: KnowledgeForTask, data: TaskData, n: int, *, batch_size: int = 32
) -> tuple[Float[Tensor, "item width"], Int[Tensor, " item"]]:
    """Return the input of the head's first layer for the first `n` items, and their classes; no
    dropout.

    Raises `EvaluationError` for a head without a linear layer.
    """
    first = next((part for part in model.head.modules() if isinstance(part, nn.Linear)), None)
    if first is None:
        raise EvaluationError(f"{type(model.head).__name__} has no linear layer to read before")
    states: list[Tensor] = []
    hook = first.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0].detach()))
    was_training = model.training
    model.eval()
    try:
        for start in range(0, min(n, len(data)), batch_size):
            model(_batch(data, range(start, min(start + batch_size, n, len(data)))))
    finally:
        hook.remove()
        model.train(was_training)
    labels = model.config.label2id
    classes = [labels[data.examples[i].labels[0]] for i in range(min(n, len(data)))]
    return torch.cat(states).float(), torch.tensor(classes)


def _batch(data: TaskData, items: Sequence[int]) -> KnowledgeBatch:
    samples = [data.sample(i, epoch=0, seed=0) for i in items]
    return data.collate(samples, epoch=0, seed=0, step=0)


def probe_accuracy(
    train: tuple[Float[Tensor, "item width"], Int[Tensor, " item"]],
    test: tuple[Float[Tensor, "item width"], Int[Tensor, " item"]],
    *,
    penalty: float = 0.1,
) -> float:
    """Return the accuracy on `test` of a linear probe fitted on `train`.

    A ridge regression (`kept.lab.probing.layers.linear`). Where no state differs it answers the
    most frequent class.

    >>> states = torch.eye(4).repeat(4, 1)
    >>> probe_accuracy((states, torch.arange(16) % 4), (states, torch.arange(16) % 4))
    1.0
    """
    (states, classes), (test_states, gold) = train, test
    predicted = fit(states, classes, penalty=penalty).classes(test_states)
    return float((predicted == gold).double().mean())


def share_moved(visible: Float[Tensor, "item width"], hidden: Float[Tensor, "item width"]) -> float:
    """Return the mean shift of the read state without facts, as a share of its norm.

    0: the facts do not reach it. sqrt 2 is the distance of two orthogonal states of one norm.

    >>> round(share_moved(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 0.0]])), 3)
    0.8
    """
    shifts = (visible - hidden).norm(dim=1) / visible.norm(dim=1).clamp_min(1e-12)
    return float(shifts.double().mean())


def gradient_norms(model: KnowledgeForTask, data: TaskData, n: int) -> dict[str, float]:
    """Return gradient norms of the task's loss on the first `n` items, by part; no dropout.

    "host", "knowledge": the encoder's parameters inside and outside the host; "injected": the
    embedded pieces of nodes that are no words of the text (branches), where there are no such
    parameters; "head". A part that the encoder does not have is left out. Gradients of the model
    are cleared.
    """
    was_training = model.training
    model.eval()
    model.zero_grad(set_to_none=True)
    batch = _batch(data, range(min(n, len(data))))
    with _embedded(model) as embedded:
        model(batch).losses["class"].backward()
    groups: dict[str, list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        part = "host" if name.startswith("encoder.host.") else "knowledge"
        part = part if name.startswith("encoder.") else "head"
        gradient = parameter.grad
        groups.setdefault(part, []).append(
            gradient.coalesce().values() if gradient.is_sparse else gradient
        )
    injected = (batch.node_kinds != NodeKind.WORD) & batch.node_mask
    if "knowledge" not in groups and bool(injected.any()):
        groups["injected"] = [
            vectors.grad[injected] for vectors in embedded if vectors.grad is not None
        ]
    model.zero_grad(set_to_none=True)
    model.train(was_training)
    return {
        name: math.hypot(*(float(g.norm()) for g in gradient)) for name, gradient in groups.items()
    }


@contextmanager
def _embedded(model: KnowledgeForTask) -> Iterator[list[Tensor]]:
    """Collect the outputs of the host's word table, with gradients."""
    inputs: list[Tensor] = []

    def keep(_: nn.Module, __: tuple[Tensor, ...], vectors: Tensor) -> None:
        if not vectors.requires_grad:
            vectors.requires_grad_()  # the table stands still
        vectors.retain_grad()
        inputs.append(vectors)

    hook = hosts.word_table(model.encoder.host).register_forward_hook(keep)
    try:
        yield inputs
    finally:
        hook.remove()


def steps_until(curve: Sequence[tuple[int, float]], level: float) -> int | None:
    """Return the first step of a learning curve from which on no accuracy is below `level`.

    >>> steps_until([(10, 0.2), (20, 0.95), (30, 0.7), (40, 0.9), (50, 1.0)], 0.9)
    40
    >>> steps_until([(10, 0.95), (20, 0.4)], 0.9) is None
    True
    """
    reached = None
    for step, accuracy in curve:
        if accuracy < level:
            reached = None
        elif reached is None:
            reached = step
    return reached


def at_chance(accuracy: float, n: int, chance: float, *, level: float = 2.576) -> bool:
    """Whether an accuracy over `n` items is within chance.

    Within `level` standard errors of a binomial share (2.576: 99 % of the time).

    >>> at_chance(0.15, 240, 0.125), at_chance(0.25, 240, 0.125)
    (True, False)
    """
    return accuracy <= chance + level * math.sqrt(chance * (1 - chance) / n)


@dataclass(frozen=True)
class Verdict:
    """Whether a method reads: its accuracy with true facts, and with another entity's facts.

    `ceiling` is the accuracy of a perfect reader, `n` the number of items per seed. `others` is
    None where that condition was not run.
    """

    accuracy: float
    others: float | None
    chance: float
    ceiling: float
    n: int
    steps: int

    @property
    def reads(self) -> bool:
        """At least `GOOD` of the ceiling, and at chance with another entity's facts, by a run."""
        return self.is_right and self.others is not None and not self.is_confounded

    @property
    def is_right(self) -> bool:
        """At least `GOOD` of the ceiling with true facts."""
        return self.accuracy >= GOOD * self.ceiling

    @property
    def is_confounded(self) -> bool:
        """Whether it is above chance with another entity's facts."""
        return self.others is not None and not at_chance(self.others, self.n, self.chance)

    @property
    def in_words(self) -> str:
        """`READS`, `NOT_TESTED`, `OTHERWISE` or `DOES_NOT_READ`."""
        if not self.is_right:
            return DOES_NOT_READ
        if self.others is None:
            return NOT_TESTED
        return OTHERWISE if self.is_confounded else READS
