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
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder

SAME = 0.8
"""Mean similarity of phrases from which on a common relation is one that the graph has, too."""
LEAST_ALIKE = 0.5
"""Similarity of names below which a common relation has nothing to do with one of the graph."""
KINSHIP = 0.6
"""What a common relation loses for its likeness with the graph's own: it may be another word."""
DETOUR = 0.3
"""What a match by way of a common relation loses where the names are not the same."""


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


@runtime_checkable
class KeepsVectors(Protocol):
    """An encoder that computes the vectors of texts once, and keeps them under a name."""

    def encode_once(self, name: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of `texts`, `[text width]`."""
        ...


@dataclass(frozen=True, eq=False)
class CommonMatch:
    """Common relations by `labels`, with their similarities with a question.

    `scores [common]` are their similarities with the question, `is_known [common]` says which of
    them the graph has; `alike [common known]`, between 0 and 1, compares their names with those of
    the graph's relations.
    """

    labels: Sequence[str]
    scores: NDArray[np.float64]
    is_known: NDArray[np.bool_]
    alike: NDArray[np.float32]

    def most_likely_missing(self) -> tuple[str, float]:
        """Return the label of the one most like the question that the graph does not have."""
        scores = np.where(self.is_known, -np.inf, self.scores)
        index = int(scores.argmax())
        return self.labels[index], float(scores[index])

    def through(self) -> NDArray[np.float64]:
        """Return how like the question each relation of the graph is by way of a common one.

        "What is her job?" is like the common relation *job*, which graphs also call "works as".
        """
        detours = self.scores[:, None] - DETOUR * (1 - self._likeness(LEAST_ALIKE))
        return np.asarray(detours.max(0), np.float64)

    def lead(self, known: int, score: float) -> float:
        """Return what relation number `known` of the graph, with its `score`, is ahead of all.

        0 where the graph has every common relation.
        """
        less = KINSHIP * np.clip(self.alike[:, known], 0, 1)
        most = float(np.where(self.is_known, -np.inf, self.scores - less).max())
        return score - most if np.isfinite(most) else 0.0

    def _likeness(self, least: float) -> NDArray[np.float64]:
        return np.asarray(np.clip(self.alike - least, 0, None) / (1 - least), np.float64)


class CommonRelations:
    """The relations of `common_relations.tsv`; they are encoded at the first question.

    `forms` are other names of a relation, as graphs have them ("works as" for *job*).
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        text = (
            files("kept.decoders.answering")
            .joinpath("common_relations.tsv")
            .read_text(encoding="utf-8")
        )
        rows = [line.split("\t") for line in text.splitlines()[1:]]
        self.labels = [label for label, _, _ in rows]
        self.forms = [[label, *filter(None, forms.split("; "))] for label, _, forms in rows]
        self._phrases = [phrase for label, kind, _ in rows for phrase in phrases_of(label, kind)]

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """`[relation phrase width]`."""
        vectors = self._encode("phrases-of-common-relations", self._phrases)
        return vectors.reshape(len(self.labels), -1, self.encoder.width)

    @cached_property
    def _form_vectors(self) -> NDArray[np.float32]:
        forms = [form for forms in self.forms for form in forms]
        return self._encode("names-of-common-relations", forms)

    def _encode(self, name: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts that are the same for every graph."""
        if isinstance(self.encoder, KeepsVectors):
            return self.encoder.encode_once(name, texts)
        return self.encoder.encode(texts)

    def compare(
        self,
        question: NDArray[np.float32],
        phrases: NDArray[np.float32],
        names: NDArray[np.float32],
    ) -> CommonMatch:
        """Return how like a question, and how like the graph's relations, the common ones are.

        The graph's relations are given by their `phrases [relation phrase width]` and by their
        `names [relation width]`.
        """
        same = np.einsum("cpw,kpw->ck", self.vectors, phrases, optimize=True) / phrases.shape[1]
        starts = np.cumsum([0, *(len(forms) for forms in self.forms[:-1])])
        alike = np.maximum.reduceat(self._form_vectors @ names.T, starts, axis=0)
        scores = similarity(self.vectors, question)
        return CommonMatch(self.labels, scores, same.max(1) >= SAME, alike)
