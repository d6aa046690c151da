"""Pairs of texts for objectives over the relation of two texts.

Devlin et al. 2019 (BERT), section 3.1: half of the second texts are the real next ones, half are
random. Lan et al. 2020 (ALBERT), section 3.1: the next one or the same two swapped. Where we
differ: a segment is one text of the file, not as many sentences as fit.

Axis legend: text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kept.batches import IGNORE
from kept.errors import ConfigError
from kept.objectives.base import Pairing


class TextPairs:
    """Which two texts form sample number i, and the class of the pair.

    `documents` are the numbers of texts of each document, in order. Sample i is about text i and
    its successor (the last text of a document: its predecessor and itself). "next_sentence": class
    0, or with probability .5 class 1 with a text of another document instead of the successor (of
    the same one, neither of the two, where there is one document). "sentence_order": class 0, or
    class 1 with the two swapped. A text that is alone in its document stays alone, without a class.
    Raises `ConfigError` where no pair can be made.
    """

    def __init__(self, kind: Pairing, documents: Sequence[int]) -> None:
        self.kind = kind
        self._ends = np.cumsum(documents, dtype=np.int64)
        if max(documents, default=0) < 2:
            raise ConfigError(f"{kind} needs a file of two texts or more, in their order")
        if kind == "next_sentence" and self._ends[-1] < 3:
            raise ConfigError("next_sentence needs three texts or more, to draw a random one")

    @property
    def fingerprint(self) -> str:
        """Changes whenever a pair could."""
        return f"{self.kind} {self._ends.tolist()}"

    def draw(self, index: int, draws: np.random.Generator) -> tuple[int, int | None, int]:
        """First text, second text (None: alone), class."""
        document = int(np.searchsorted(self._ends, index, side="right"))
        start = 0 if document == 0 else int(self._ends[document - 1])
        end = int(self._ends[document])
        if end - start < 2:
            return index, None, IGNORE
        first = min(index, end - 2)
        if draws.random() < 0.5:
            return first, first + 1, 0
        if self.kind == "sentence_order":
            return first + 1, first, 1
        n_texts = int(self._ends[-1])
        if n_texts == end - start:
            other = int(draws.integers(n_texts - 2))
            return first, other + 2 * (other >= first), 1
        other = int(draws.integers(n_texts - (end - start)))
        return first, other + (end - start) * (other >= start), 1


def pair_bounds(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """An upper bound of counts in the two texts of each sample, from each text's, `[text]`."""
    before = np.concatenate([counts[:1], counts[:-1]])  # it stands first at a document's end
    bounds: NDArray[np.int64] = np.maximum(counts, before) + counts.max(initial=0)
    return bounds
