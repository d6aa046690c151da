"""What a KBLaM is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kept.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class KBLaMConfig:
    """What a KBLaM is made of; the paper's choices where there is a default.

    Layers `first`, `first + every`, `first + 2 every` … up to `last` read facts (in the paper from
    0 on to the end).
    `separate_queries`: facts are read by a query map of their own, without positions. `scale`: this
    constant over the number of facts multiplies the weight of each, so that a larger graph does not
    drown the text. `top_k`: each layer reads only so many facts, those with the highest sum of
    scores over heads and all nodes of a pass, or with `top_k_by_node` each node those that it
    scores highest itself. `mlp_depth` above 0 puts that many hidden layers of `mlp_width` into the
    maps from sentence vectors (`vector_width` wide; those of values `value_width`, where they come
    from elsewhere: `kept.decoders.kblam.values`).

    `prompt_reads`: off, `generate` lets the last node of the prompt and what is written read facts,
    and nothing before them. In the paper all nodes read.

    `misaligned_scores` and `padding_reads` keep what the released code does to pruned facts and to
    padding, the latter for hosts in float32. Raises `ConfigError` naming every fault.
    """

    vector_width: int
    every: int = 3
    first: int = 0
    last: int | None = None
    separate_queries: bool = True
    scale: float | None = None
    top_k: int | None = None
    top_k_by_node: bool = False
    prompt_reads: bool = True
    mlp_depth: int = 0
    mlp_width: int = 512
    value_width: int | None = None
    misaligned_scores: bool = False
    padding_reads: bool = False

    def __post_init__(self) -> None:
        lowest = {
            "vector_width": 1,
            "every": 1,
            "first": 0,
            "last": self.first,
            "mlp_depth": 0,
            "mlp_width": 1,
            "top_k": 1,
            "value_width": 1,
        }
        faults = [
            f"{name} {getattr(self, name)}: {least} or more"
            for name, least in lowest.items()
            if getattr(self, name) is not None and getattr(self, name) < least
        ]
        if self.scale is not None and not 0 < self.scale < math.inf:
            faults.append(f"scale {self.scale}: above 0 and finite")
        if self.scale is not None and not self.separate_queries:
            faults.append("scale: has no effect without separate_queries")
        if self.misaligned_scores and not self.separate_queries:
            faults.append("misaligned_scores: has no effect without separate_queries")
        if self.top_k_by_node and (self.top_k is None or self.misaligned_scores):
            faults.append("top_k_by_node: needs top_k, and no misaligned_scores")
        if faults:
            raise ConfigError("kblam: " + "; ".join(faults))

    def n_slices(self, n_layers: int) -> int:
        """How many keys a fact has: one a reading layer, and one unread where `every` divides.

        >>> KBLaMConfig(vector_width=8, every=2).n_slices(4)
        3
        >>> KBLaMConfig(vector_width=8, every=4, first=2).n_slices(9)
        2
        >>> KBLaMConfig(vector_width=8, every=3, first=12, last=18).n_slices(30)
        3
        """
        if self.last is not None:
            return (min(self.last, n_layers - 1) - self.first) // self.every + 1
        return (n_layers - self.first) // self.every + 1
