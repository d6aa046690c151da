"""Relations that people often ask about, for questions about something the graph has no word for.

A graph of homes and jobs has no relation that "How old is she?" asks about, yet one of its two is
always the nearest. What many graphs say about people, places, works and firms stands in
`common_relations.tsv`; a question that is more like one of those than like any relation of the
graph probably asks for what the graph does not hold.

Axis legend: relation, phrase, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder

SAME = 0.8
"""Mean similarity of phrases from which on a common relation is one that the graph has, too."""
KINSHIP = 0.2
"""What a common relation loses for its likeness with the graph's own: it may be another word."""


def phrases_of(label: str, kind: str) -> tuple[str, str, str, str]:
    """Return four ways to speak of a relation whose values are of a kind.

    The first and third are compared with the question about "it", the others with the question
    about "the person" or whatever the entity is.

    >>> phrases_of("capital", "city")[:2]
    ('What is the capital?', 'Which city is the capital?')
    """
    return (
        f"What is the {label}?",
        f"Which {kind} is the {label}?",
        f"the {label} of it, a {kind}",
        f"{label}: {kind}",
    )


def similarity(phrases: NDArray[np.float32], question: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean similarity of relations `[... phrase width]` with a question `[2 width]`."""
    plain, typed = question
    means = (phrases[..., ::2, :] @ plain).mean(-1) + (phrases[..., 1::2, :] @ typed).mean(-1)
    return np.asarray(means / 2, np.float64)


@dataclass(frozen=True, eq=False)
class CommonMatch:
    """Common relations by `labels`, with their similarities with a question.

    `scores [common]` are -inf for those that the graph has; `alike [common known]` compares them
    with the graph's relations.
    """

    labels: Sequence[str]
    scores: NDArray[np.float64]
    alike: NDArray[np.float32]

    def likeliest(self) -> tuple[str, float]:
        """Return the label of the one most like the question, and its similarity."""
        index = int(self.scores.argmax())
        return self.labels[index], float(self.scores[index])

    def lead(self, known: int, score: float) -> float:
        """Return what relation number `known` of the graph, with its `score`, is ahead of all.

        0 where the graph has every common relation.
        """
        most = float((self.scores - KINSHIP * self.alike[:, known]).max())
        return score - most if np.isfinite(most) else 0.0


class CommonRelations:
    """The relations of `common_relations.tsv`; their phrases are encoded at the first question."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        text = (
            files("kept.decoders.answering")
            .joinpath("common_relations.tsv")
            .read_text(encoding="utf-8")
        )
        rows = [line.split("\t") for line in text.splitlines()[1:]]
        self.labels = [label for label, _ in rows]
        self._phrases = [phrase for label, kind in rows for phrase in phrases_of(label, kind)]

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """`[relation phrase width]`."""
        vectors = self.encoder.encode(self._phrases)
        return vectors.reshape(len(self.labels), -1, self.encoder.width)

    def compare(self, question: NDArray[np.float32], known: NDArray[np.float32]) -> CommonMatch:
        """Return how like a question the common relations are that the graph does not have.

        `known` are the phrases of the graph's relations, `[relation phrase width]`.
        """
        alike = np.einsum("cpw,kpw->ck", self.vectors, known, optimize=True) / known.shape[1]
        scores = np.where(alike.max(1) < SAME, similarity(self.vectors, question), -np.inf)
        return CommonMatch(self.labels, scores, alike)
