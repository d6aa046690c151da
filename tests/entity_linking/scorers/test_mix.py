from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from entity_linking import DictionaryLinker, LinkedText, LinkingError
from entity_linking.parts import Scores
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.mix import (
    DEFAULT_WEIGHTS,
    Mix,
    Normalisation,
    default_mix,
    default_scorers,
)
from kg_loaders import KnowledgeGraph
from tests.rerank_worlds import flat, linked

TEXT = linked(
    "one two six",
    ("one", [("a", 0.5), ("b", 0.3), ("c", 0.2)], None),
    ("two", [("a", 1.0)], None),
    ("six", [], None),
)


class _Reading:
    """The same numbers for every text."""

    def __init__(self, *values: list[float]) -> None:
        self._values = values

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        return [[np.array(v, np.float64) for v in self._values] for _ in texts]


@pytest.mark.parametrize("normalisation", ["none", "z", "log-softmax"])
def test_mix_against_loops(normalisation: Normalisation) -> None:
    raw = {"x": [[1.0, 4.0, 7.0], [3.0], []], "y": [[2.0, 2.0, 2.0], [-1.0], []]}
    weights = {"x": 0.5, "y": -2.0}
    mix = Mix({n: (_Reading(*raw[n]), weights[n]) for n in raw}, normalisation=normalisation)

    def scaled(values: list[float], value: float) -> float:
        if normalisation == "none":
            return value
        if normalisation == "log-softmax":
            return value - math.log(sum(math.exp(v) for v in values))
        deviation = float(np.std(values))
        return (value - float(np.mean(values))) / deviation if deviation else 0.0

    (links,) = mix.parts([TEXT])
    for i in range(3):
        assert list(links[i]) == ["x", "y"]
        for name in raw:
            expected = [weights[name] * scaled(raw[name][i], v) for v in raw[name][i]]
            np.testing.assert_allclose(links[i][name], expected, atol=1e-12)
        total = mix.scores([TEXT])[0][i]
        np.testing.assert_allclose(total, links[i]["x"] + links[i]["y"], atol=1e-12)


def test_wrong_mixes_are_told() -> None:
    with pytest.raises(LinkingError, match="needs a scorer"):
        Mix({})
    with pytest.raises(LinkingError, match="normalisation is 'softmax'"):
        Mix({"x": (PriorScorer(), 1.0)}, normalisation="softmax")  # type: ignore[arg-type]
    with pytest.raises(LinkingError, match="weight of 'x' is nan"):
        Mix({"x": (PriorScorer(), math.nan)})
    with pytest.raises(LinkingError, match="'x' gives inf to 'b'"):
        Mix({"x": (_Reading([0.0, math.inf, 0.0], [0.0], []), 1.0)}).scores([TEXT])
    with pytest.raises(LinkingError, match="one score to every candidate"):
        Mix({"x": (_Reading([0.0], [0.0], []), 1.0)}).scores([TEXT])


def test_context_beats_the_prior(small_graph: KnowledgeGraph) -> None:
    texts = DictionaryLinker(small_graph).link(["Paris is a city in Texas", "Paris, France"])
    mix = default_mix(small_graph)
    best = [
        text.links[0].candidates[int(np.argmax(scores[0]))].entity
        for text, scores in zip(texts, mix.scores(texts), strict=True)
    ]
    assert best == ["Q830149", "Q90"]
    assert flat(mix.scores(texts)) == [flat(mix.scores([text]))[0] for text in texts]
    assert list(default_scorers(small_graph)) == list(DEFAULT_WEIGHTS)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e9, 1e9 + 2e-7, 1e9], [0.0, 0.0, 0.0]),  # the last digits of large numbers
        ([1e-12, 3e-12, 2e-12], [0.0, 0.0, 0.0]),
        ([1e-3, 3e-3, 2e-3], [-(1.5**0.5), 1.5**0.5, 0.0]),
        ([1e9 - 100, 1e9 + 100, 1e9], [-(1.5**0.5), 1.5**0.5, 0.0]),
    ],
)
def test_rounding_of_equal_scores_is_no_difference(
    values: list[float], expected: list[float]
) -> None:
    """Brought to a deviation of 1, it would decide as if one candidate were far better."""
    mix = Mix({"x": (_Reading(values, [3.0], []), 1.0)}, normalisation="z")
    np.testing.assert_allclose(mix.scores([TEXT])[0][0], expected, atol=1e-6)
