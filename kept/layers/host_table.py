"""A table of vectors that stays in host memory while the model is on another device.

As parameter servers and mixed CPU and GPU training of embeddings do (Zhu et al. 2019, "GraphVite",
WWW, section 3.4; the released CoLAKE): the rows of a batch go to the device, their gradients come
back, and the update is the processor's.

Axis legend: row (of the table), width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class HostTable(nn.Embedding):
    """An embedding with sparse gradients whose rows are read where they lie, each once a call.

    `.to(device)` moves its type alone. States and gradients of its optimiser are in host memory
    too.

    >>> table = HostTable(4, 2)
    >>> table(torch.tensor([[3, 3, 1]])).shape
    torch.Size([1, 3, 2])
    """

    def __init__(self, n_rows: int, width: int) -> None:
        super().__init__(n_rows, width, sparse=True)

    def forward(self, input: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        """The rows of `input`, on its device; what is read twice crosses once."""
        rows, inverse = torch.unique(input, return_inverse=True)
        read = F.embedding(rows.to(self.weight.device), self.weight, sparse=True)
        return read.to(input.device)[inverse]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HostTable:
        """As any module, but on the device where the table is; one on meta is made anywhere."""
        super()._apply(type_of(fn, self.weight), recurse)  # type: ignore[no-untyped-call]
        return self


def type_of(fn: Callable[[Tensor], Tensor], weight: Tensor) -> Callable[[Tensor], Tensor]:
    """What `fn` does to the type of a tensor, where `weight` is; to one on meta it does all."""
    if weight.is_meta:
        return fn
    to: Any = fn(weight.new_empty(0)).dtype
    return lambda tensor: tensor.to(to)
