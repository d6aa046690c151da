"""What every completer is, and which there are.

A *completer* reads entities instead of looking them up: ULTRA and NBFNet by their triples, SimKGC,
DKRL, KEPLER and CoLAKE by their texts, a mix by what its scorers read. So it scores any graph,
entities that training never saw among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from torch import Tensor

from kept.evaluation.ranking import Direction, HasScores, Triple, Triples
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True)
class Reason:
    """Something that was read, and how much lower the answer's score is without it.

    `source`: "fact", "path" (of facts, left out together) or "text" of the question's or the
    answer's entity.
    """

    source: str
    what: str
    change: float


class Completer(Protocol):
    """A trained model with what its folder holds."""

    @property
    def reads(self) -> Literal["triples", "texts"]:
        """What an entity must have to be an answer, or to be asked about."""
        ...

    def on(self, graph: KnowledgeGraph, context: Triples) -> HasScores:
        """Scores of the entities of `graph`, whose triples `context [triple 3]` may be read."""
        ...

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        """What made the entity in the slot of `direction` the answer, the largest change first."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """What goes to `model.safetensors`."""
        ...

    def described(self) -> dict[str, Any]:
        """The settings that `model.json` holds, by name; "scorer" is that of its line in
        `SCORERS`."""
        ...

    def save_extra_files(self, folder: Path) -> list[str]:
        """Write further files and return their names."""
        ...
