"""A step whose numbers are still on the GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kept.training.log import StepRecord


@dataclass
class UnreadStep:
    """A record without its losses and norms, and these on their way to host memory.

    `numbers` are the losses in the order of `names`, then the gradient norm and that of rows, where
    there are such. `arrived` is the moment on the GPU when they are in host memory.
    """

    record: StepRecord
    names: tuple[str, ...]
    numbers: Tensor | list[float]
    has_norm: bool
    has_rows: bool
    weight_of: Callable[[str], float]
    arrived: torch.cuda.Event | None = None

    @classmethod
    def of(
        cls,
        record: StepRecord,
        losses: Mapping[str, float | Tensor],
        norm: float | Tensor | None,
        rows: float | Tensor | None,
        weight_of: Callable[[str], float],
    ) -> UnreadStep:
        """Start to copy what is on a GPU; nothing waits for it."""
        every = [*losses.values(), *(each for each in (norm, rows) if each is not None)]
        step = cls(record, tuple(losses), [], norm is not None, rows is not None, weight_of)
        there = next((each.device for each in every if isinstance(each, Tensor)), None)
        if there is None:
            step.numbers = [float(each) for each in every]
            return step
        stacked = torch.stack(
            [
                each.detach().double() if isinstance(each, Tensor)
                else torch.full((), each, dtype=torch.float64, device=there)
                for each in every
            ]
        )  # fmt: skip
        step.numbers = stacked.to("cpu", non_blocking=True)
        if there.type == "cuda":
            step.arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            step.arrived.record()
        return step

    def read(self) -> StepRecord:
        """The whole record; waits until its numbers are there."""
        if self.arrived is not None:
            self.arrived.synchronize()
        values = self.numbers.tolist() if isinstance(self.numbers, Tensor) else [*self.numbers]
        rows = values.pop() if self.has_rows else None
        norm = values.pop() if self.has_norm else None
        losses = dict(zip(self.names, values, strict=True))
        return dataclasses.replace(
            self.record,
            losses=losses,
            total_loss=sum(self.weight_of(name) * value for name, value in losses.items()),
            gradient_norm=norm,
            row_gradient_norm=rows,
        )
