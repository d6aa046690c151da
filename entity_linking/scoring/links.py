"""Precision, recall and F1 of whole links; axis legend: text."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError, ScoreError
from entity_linking.mentions import LinkedText, Mention

Match = Literal["strong", "weak"]
Known = Container[str] | Callable[[str], bool]
"""Which entities the graph knows, such as `graph.entities` or a predicate."""


@dataclass(frozen=True, slots=True)
class LinkScore:
    """Micro-averaged counts; a ratio with nothing below the line is 0."""

    n_gold: int
    n_predicted: int
    n_correct: int

    @property
    def precision(self) -> float:
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        return self.n_correct / self.n_gold if self.n_gold else 0.0

    @property
    def f1(self) -> float:
        both = self.n_gold + self.n_predicted
        return 2 * self.n_correct / both if both else 0.0


@dataclass(frozen=True, slots=True)
class MacroScore:
    """Means over texts; a text with nothing to find and nothing found counts 1."""

    precision: float
    recall: float
    f1: float
    n_texts: int


def score_links(
    gold: Sequence[LinkedText],
    predicted: Sequence[LinkedText],
    *,
    match: Match = "strong",
    known: Known | None = None,
) -> LinkScore:
    """Precision, recall and F1 end to end, micro-averaged."""
    n_gold, n_predicted, n_correct = count_links(gold, predicted, match=match, known=known).sum(0)
    return LinkScore(int(n_gold), int(n_predicted), int(n_correct))


def count_links(
    gold: Sequence[LinkedText],
    predicted: Sequence[LinkedText],
    *,
    match: Match,
    known: Known | None = None,
) -> NDArray[np.int64]:
    """Gold, predicted and rightly predicted links of every text, `[text 3]`."""
    if match not in ("strong", "weak"):
        raise ScoreError(f"match is {match!r}; give 'strong' or 'weak'")
    knows = predicate(known)
    counts = np.zeros((len(gold), 3), np.int64)
    for i, (expected, linked) in enumerate(paired(gold, predicted)):
        gold_spans, answered = _spans(expected, knows), _spans(linked, knows)
        n_correct = sum(
            _n_matched(spans, answered.get(entity, []), match)
            for entity, spans in gold_spans.items()
        )
        counts[i] = sum(map(len, gold_spans.values())), sum(map(len, answered.values())), n_correct
    return counts


def ratios(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Precision, recall and F1 of every text from `count_links`, `[text 3]`."""
    gold, predicted, correct = np.asarray(counts, np.float64).T
    above = np.stack([correct, correct, 2 * correct], 1)
    below = np.stack([predicted, gold, gold + predicted], 1)
    rates: NDArray[np.float64] = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    rates[gold + predicted == 0] = 1.0
    return rates


def macro_scores(counts: NDArray[np.int64]) -> MacroScore:
    """Of the counts of `count_links`, `[text 3]`.

    >>> macro_scores(np.array([[0, 0, 0], [2, 1, 1]]))
    MacroScore(precision=1.0, recall=0.75, f1=0.8333333333333333, n_texts=2)
    """
    if not len(counts):
        return MacroScore(0.0, 0.0, 0.0, 0)
    precision, recall, f1 = ratios(counts).mean(0).tolist()
    return MacroScore(precision, recall, f1, len(counts))


def on_gold_spans(gold: Sequence[LinkedText], predicted: Sequence[LinkedText]) -> list[LinkedText]:
    """Predictions without links whose span is not a gold span, for texts marked only in part."""
    kept = []
    for expected, linked in paired(gold, predicted):
        spans = {link.mention for link in expected.links}
        links = tuple(link for link in linked.links if link.mention in spans)
        kept.append(replace(linked, links=links))
    return kept


def paired(
    gold: Sequence[LinkedText], predicted: Sequence[LinkedText]
) -> Iterator[tuple[LinkedText, LinkedText]]:
    """Gold and predicted texts by position; LinkingError unless they are the same texts."""
    if len(gold) != len(predicted):
        raise LinkingError(f"{len(gold)} gold texts but {len(predicted)} predicted ones")
    for i, (expected, linked) in enumerate(zip(gold, predicted, strict=True)):
        if expected.text != linked.text:
            raise LinkingError(
                f"text {i} differs: gold {expected.text[:40]!r}, predicted {linked.text[:40]!r}"
            )
        yield expected, linked


def predicate(known: Known | None) -> Callable[[str], bool]:
    """Whether the graph knows an entity, asked once for each."""
    answers: dict[str, bool] = {}

    def is_in_graph(entity: str) -> bool:
        if known is None:
            return True
        if entity not in answers:
            is_known = known(entity) if callable(known) else entity in known
            answers[entity] = bool(is_known)
        return answers[entity]

    return is_in_graph


def _spans(text: LinkedText, knows: Callable[[str], bool]) -> dict[str, list[Mention]]:
    """The distinct spans of every entity of a text."""
    by_entity: dict[str, dict[Mention, None]] = {}
    for link in text.links:
        if link.entity is not None and knows(link.entity):
            by_entity.setdefault(link.entity, {})[link.mention] = None
    return {entity: list(spans) for entity, spans in by_entity.items()}


def _n_matched(gold: list[Mention], predicted: list[Mention], match: Match) -> int:
    if match == "strong":
        return len({*gold} & {*predicted})
    overlaps = np.array(
        [[a.start < b.end and b.start < a.end for b in predicted] for a in gold], np.int64
    ).reshape(len(gold), len(predicted))
    if min(overlaps.shape) < 2:
        return int(overlaps.any())
    from scipy.optimize import linear_sum_assignment  # slow to import and rarely needed

    return int(overlaps[linear_sum_assignment(overlaps, maximize=True)].sum())
