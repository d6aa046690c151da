"""`Mix`: a weighted sum of scorers, and the weights of the linker that needs no training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scorer, Scores
from entity_linking.scorers.candidate_rows import CandidateRows
from entity_linking.scorers.features import (
    NeighbourScorer,
    PopularityScorer,
    PriorScorer,
)
from kg_loaders import KnowledgeGraph

Normalisation = Literal["none", "z", "log-softmax"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
Shares = dict[str, Scores]

DEFAULT_WEIGHTS: dict[str, float] = {
    "prior": 0.5,
    "popularity": 0.6,
    "name": 4.0,
    "overlap": 10.0,
    "neighbour": 2.0,
}
"""Weights for raw scores (normalisation "none"), found without any linking benchmark.

A conditional logit (the gold among several candidates, entities weighing alike) on 10,000 texts of
T-REx gave 0.49, 0.93, 0.98, 9.2, 2.2; on the texts of Wiki80 dev without test entities 0.14, 0.49,
6.3, 10.8, 1.8; these are in between, rounded. The graph had 152,752 labels of Wikidata, aliases,
and triples of CoDEx-M, T-REx and LPAQA, without half of the facts that the texts state
(`benchmarks/linking/linking_rerankers.py --weights`). It had no counts of names, so the prior
distinguished labels from aliases and parts of names only: with counts from annotated text its
weight should be near 1.
Agreement of types (`TypeScorer`) got -0.1 and 1.0 and changed nothing; it is left out.
"""


class Mix:
    """`score(c) = sum over scorers s of weight_s * normalised(score_s)(c)`.

    `normalisation` is taken within the mention, of every scorer alike: "none" leaves scores as they
    are; "z" subtracts the mean and divides by the standard deviation (0 where all are equal), so a
    weight says how much a scorer counts however flat it is; "log-softmax" makes each a log
    probability over the candidates. Both of the latter give a lone candidate 0.
    """

    def __init__(
        self, scorers: Mapping[str, tuple[Scorer, float]], *, normalisation: Normalisation = "none"
    ) -> None:
        if not scorers:
            raise LinkingError("a mix needs a scorer; give {name: (scorer, weight)}")
        if normalisation not in NORMALISATIONS:
            raise LinkingError(
                f"normalisation is {normalisation!r}; choose one of {', '.join(NORMALISATIONS)}"
            )
        for name, (_, weight) in scorers.items():
            if not np.isfinite(weight):
                raise LinkingError(f"weight of {name!r} is {weight}; give a finite number")
        self._scorers, self._normalisation = dict(scorers), normalisation

    def __repr__(self) -> str:
        weights = ", ".join(f"{name}={weight:g}" for name, (_, weight) in self._scorers.items())
        return f"Mix({weights}, normalisation={self._normalisation!r})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`: the sum of `parts`, in the order of the scorers."""
        return [[_sum(shares) for shares in links] for links in self.parts(texts)]

    def parts(self, texts: Sequence[LinkedText]) -> list[list[Shares]]:
        """For each link what each scorer adds to each candidate, weighted and normalised."""
        rows = CandidateRows.of(texts)
        weighted = {
            name: rows.split(
                weight * normalised(rows, scorer_column(rows, name, scorer), self._normalisation)
            )
            for name, (scorer, weight) in self._scorers.items()
        }
        return [
            [
                {name: values[i][j] for name, values in weighted.items()}
                for j in range(len(text.links))
            ]
            for i, text in enumerate(texts)
        ]


def normalised(rows: CandidateRows, values: Scores, normalisation: Normalisation) -> Scores:
    """One number a row, brought to the scale of its mention as `Mix` says."""
    if normalisation == "none":
        return values
    if normalisation == "z":
        n = np.maximum(rows.sizes, 1)
        centred = values - (_per_mention(rows, values) / n)[rows.mention_of]
        deviation = np.sqrt(_per_mention(rows, centred**2) / n)[rows.mention_of]
        flat = deviation <= 1e-9 * np.maximum(1.0, np.abs(values))
        return np.where(flat, 0.0, centred / np.where(flat, 1.0, deviation))
    values = values - rows.best(values)[rows.mention_of]
    total: Scores = np.log(np.maximum(_per_mention(rows, np.exp(values)), 1.0))
    return values - total[rows.mention_of]


def scorer_column(rows: CandidateRows, name: str, scorer: Scorer) -> Scores:
    """The scores of a scorer as one number per row; `LinkingError` if they do not fit."""
    per_link = [scores for text in scorer.scores(rows.texts) for scores in text]
    if [len(scores) for scores in per_link] != rows.sizes.tolist():
        raise LinkingError(f"scorer {name!r} does not give one score to every candidate")
    values = np.concatenate([*per_link, np.zeros(0)]).astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise LinkingError(
            f"scorer {name!r} gives {values[wrong[0]]} to {rows.entities[wrong[0]]!r}; "
            "scores must be finite"
        )
    return values


def default_scorers(graph: KnowledgeGraph) -> dict[str, Scorer]:
    """The scorers that need nothing but a graph, by the names of `DEFAULT_WEIGHTS`."""
    from entity_linking.scorers.likeness import NameScorer  # scipy is slow to import
    from entity_linking.scorers.overlap import OverlapScorer

    return {
        "prior": PriorScorer(),
        "popularity": PopularityScorer(graph),
        "name": NameScorer(graph),
        "overlap": OverlapScorer(graph),
        "neighbour": NeighbourScorer(graph),
    }


def default_mix(graph: KnowledgeGraph) -> Mix:
    """The linker's scorer that needs no training: `default_scorers` with `DEFAULT_WEIGHTS`."""
    scorers = default_scorers(graph)
    return Mix({name: (scorers[name], weight) for name, weight in DEFAULT_WEIGHTS.items()})


def _per_mention(rows: CandidateRows, values: Scores) -> Scores:
    total = np.bincount(rows.mention_of, values, minlength=rows.n_mentions)
    return total.astype(np.float64)


def _sum(shares: Shares) -> Scores:
    total: Scores = np.sum(list(shares.values()), axis=0)
    return total
