"""Relations that people often ask about, and the questions in which they do.

Each line of `common_relations.tsv` is a relation that many graphs have: its other names, questions
about it ("who wrote it"), and questions that read it backwards ("what did it write"). A question
that is like one of these asks for the relation of the graph with one of its names. Where the graph
has none, it probably asks for what the graph does not contain.

Axis legend: common, relation, phrase, width.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder

Numbers = NDArray[np.float64]
SAME = 0.8
"""Mean similarity of phrases from which on a common relation is one that the graph has, too."""
SAME_NAME = 0.95
"""Similarity of two names that are the same but for their spelling."""
LEAST_ALIKE = 0.5
"""Similarity of names below which a common relation has nothing to do with one of the graph."""
KINSHIP = 0.4
"""What a common relation loses for its kinship with the graph's own: it may be another word."""
DETOUR, QUESTION_DETOUR = 0.3, 0.6
"""What a match by way of a common relation's name, or of its questions, loses where its names are
not the same as that of the graph's relation."""
TEMPERATURE = 0.05
"""Of the probabilities of common relations, and of their questions."""


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


def similarity(phrases: NDArray[np.float32], question: NDArray[np.float32]) -> Numbers:
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

    `scores [common]` are the similarities of their phrases, `forwards` and `backwards [common]` of
    the most similar of their questions. `known [common relation]` says which relations of the graph
    they are; `alike [common relation]`, at most 1, compares their names with those of the graph's
    relations; `kin [common common]`, from 0 to 1, compares their questions with each other;
    `symmetric [common]` are those that hold in both directions.
    """

    labels: Sequence[str]
    scores: Numbers
    forwards: Numbers
    backwards: Numbers
    known: NDArray[np.bool_]
    alike: NDArray[np.float32]
    kin: NDArray[np.float32]
    symmetric: NDArray[np.bool_]

    def with_relations(self, relations: Sequence[int]) -> CommonMatch:
        """Return the match for a graph that has only these of the relations."""
        known, alike = self.known[:, relations], self.alike[:, relations]
        return dataclasses.replace(self, known=known, alike=alike)

    def is_symmetric(self, relation: int) -> bool:
        """Whether number `relation` of the graph has a name of a common relation that is."""
        return bool((self.alike[self.symmetric, relation] >= SAME_NAME).any())

    @cached_property
    def best(self) -> Numbers:
        """The highest similarity of each common relation, `[common]`."""
        return np.maximum(self.scores, self.forwards)

    def most_likely_missing(self) -> tuple[str, float]:
        """Return the label of the one most like the question that the graph does not have."""
        scores = np.where(self.known.any(1), -np.inf, self.best)
        index = int(scores.argmax())
        return self.labels[index], float(scores[index])

    def through_names(self) -> Numbers:
        """Return how like the question each relation of the graph is by way of a common one.

        "What is her job?" is like the common relation *job*, which graphs also call "works as".
        """
        return self._through(self.scores, DETOUR)

    def through_questions(self, is_inverse: NDArray[np.bool_]) -> Numbers:
        """Return the same by way of the questions; those backwards for inverse relations."""
        forwards, backwards = (
            self._through(each, QUESTION_DETOUR) for each in (self.forwards, self.backwards)
        )
        return np.where(is_inverse, backwards, forwards)

    def probabilities(self, is_inverse: NDArray[np.bool_]) -> Numbers:
        """Return what the common questions, competing with each other, give each relation."""
        scores = np.concatenate([self.forwards, self.backwards])
        shares = np.exp((scores - scores.max()) / TEMPERATURE)
        forwards, backwards = np.split(shares / shares.sum(), 2)
        likeness = self._likeness**2
        return np.where(is_inverse, backwards @ likeness, forwards @ likeness)

    def lead(self, relation: int, score: float) -> float:
        """Return what number `relation` of the graph, with its `score`, is ahead of all others.

        A common one whose questions are like those about the relation competes less: who asks for
        the manager of a company means what the graph calls `ceo`. 0 where the graph has every
        common relation.
        """
        less = KINSHIP * (self.kin * np.clip(self.alike[:, relation], 0, 1)).max(1)
        most = float(np.where(self.known.any(1), -np.inf, self.best - less).max())
        return score - most if np.isfinite(most) else 0.0

    def _through(self, scores: Numbers, detour: float) -> Numbers:
        return np.asarray((scores[:, None] - detour * (1 - self._likeness)).max(0), np.float64)

    @cached_property
    def _likeness(self) -> Numbers:
        return np.asarray(
            np.clip(self.alike - LEAST_ALIKE, 0, None) / (1 - LEAST_ALIKE), np.float64
        )


class CommonRelations:
    """The relations of `common_relations.tsv`; they are encoded at the first question.

    `names` are those that graphs give a relation ("works as" for *job*), its label first.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        source = files("kept.decoders.answering").joinpath("common_relations.tsv")
        lines = source.read_text(encoding="utf-8").splitlines()[1:]
        columns = list(zip(*(line.split("\t") for line in lines), strict=True))
        self.labels, kinds = list(columns[0]), columns[1]
        names, forwards, backwards = (
            [list(filter(None, cell.split("; "))) for cell in column] for column in columns[2:]
        )
        self.names = [[label, *others] for label, others in zip(self.labels, names, strict=True)]
        self.questions = [[f"{each}?" for each in cell] for cell in forwards + backwards]
        self._phrases = [
            phrase
            for label, kind in zip(self.labels, kinds, strict=True)
            for phrase in phrases_of(label, kind)
        ]

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of names and questions: "language", "play", "wife"."""
        texts = [text for cells in (self.names, self.questions) for cell in cells for text in cell]
        return frozenset(re.findall(r"[a-z]+", " ".join(texts).lower()))

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """`[common phrase width]`."""
        vectors = self._encode("phrases-of-common-relations", self._phrases)
        return vectors.reshape(len(self.labels), -1, self.encoder.width)

    @cached_property
    def _vectors_of_names(self) -> NDArray[np.float32]:
        return self._encode("names-of-common-relations", [n for names in self.names for n in names])

    @cached_property
    def _vectors_of_questions(self) -> NDArray[np.float32]:
        questions = [each for cell in self.questions for each in cell]
        return self._encode("common-questions", questions)

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
        n_phrases = phrases.shape[1]
        flat = phrases.transpose(1, 2, 0).reshape(-1, len(phrases))
        same = self.vectors.reshape(len(self.labels), -1) @ flat / n_phrases
        alike = _maxima(self._vectors_of_names @ names.T, self.names)
        by_question = _maxima(self._vectors_of_questions @ question[0], self.questions)
        forwards, backwards = np.split(by_question.astype(np.float64), 2)
        scores = similarity(self.vectors, question)
        return CommonMatch(
            self.labels, scores, forwards, backwards, same >= SAME, alike, self.kin,
            self._symmetric,
        )  # fmt: skip

    @cached_property
    def kin(self) -> NDArray[np.float32]:
        """The similarity of the most similar questions of each two, 1 with itself; `[common
        common]`."""
        questions = self.questions[: len(self.labels)]
        vectors = self._vectors_of_questions[: sum(map(len, questions))]
        to_each = _maxima(vectors @ vectors.T, questions)
        kin = np.clip(_maxima(to_each.T, questions), 0, 1)
        np.fill_diagonal(kin, 1)
        return kin

    @cached_property
    def _symmetric(self) -> NDArray[np.bool_]:
        """Whether a relation has one question in both directions, `[common]`."""
        n = len(self.labels)
        pairs = zip(self.questions[:n], self.questions[n:], strict=True)
        return np.array([not set(forwards).isdisjoint(backwards) for forwards, backwards in pairs])


def _maxima(rows: NDArray[np.float32], cells: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """The largest number of the rows of each cell; 0 for an empty cell."""
    sizes = np.array([len(cell) for cell in cells])
    starts = np.cumsum(sizes) - sizes
    maxima = np.zeros((len(cells), *rows.shape[1:]), rows.dtype)
    maxima[sizes > 0] = np.maximum.reduceat(rows, starts[sizes > 0], axis=0)
    return maxima
