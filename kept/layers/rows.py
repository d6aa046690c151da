"""Weights whose rows stand for the entities or relations of a graph, by their numbers in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kept.batches import N_SPECIAL_ROWS


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """A parameter called `name` with `n_special` rows, then one for each entity or relation.

    `space` says what a row is: "words", a vector in the space of the host's word pieces, as the
    mean of a name's pieces is; "own", a vector in a space of its own.

    >>> RowTable(name="entity_vectors.weight", of="entity").inside("encoder").name
    'encoder.entity_vectors.weight'
    """

    name: str
    of: Literal["entity", "relation"]
    space: Literal["words", "own"] = "own"
    n_special: int = N_SPECIAL_ROWS

    def inside(self, module: str) -> RowTable:
        """The same table, named from the model that has `module`."""
        return replace(self, name=f"{module}.{self.name}")
