"""The parts that a linker is put together from; any of them can be swapped.

    text ─ Linker ─► mentions ─ CandidateSource ─► candidates ─ Scorer ─► scores ─ Decision ─► links

`Pipeline` joins them. All read `LinkedText`, so each sees the whole text, its other mentions
and their candidates. What an implementation returns depends on the texts alone, in any order and
in batches of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import Candidate, LinkedText

Candidates = tuple[Candidate, ...]
Scores = NDArray[np.float64]


class CandidateSource(Protocol):
    """Entities that mentions may mean."""

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, best first; none if nothing is known.

        The candidates that the links bear already are not read.
        """
        ...


class Scorer(Protocol):
    """How well each candidate of a link fits."""

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """For each link of each text one finite number per candidate, in their order.

        Read as log-odds: a `Decision` takes the softmax over the candidates of a link.
        """
        ...


class SentenceEncoder(Protocol):
    """Turns texts into vectors whose inner products say how alike the texts are."""

    @property
    def name(self) -> str:
        """What made the vectors; vectors of encoders with different names do not compare."""
        ...

    @property
    def width(self) -> int: ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Rows of length 1, `[text width]`."""
        ...


class Disambiguator(Protocol):
    """A linker that also takes the mentions of others."""

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """Finds the mentions itself."""
        ...

    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The mentions of `texts`, linked anew; what they were linked to is not read."""
        ...
