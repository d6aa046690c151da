"""Tables of a probe: every score with n, interval and baseline.

Axis legend: item, bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kept.errors import EvaluationError
from kept.evaluation.statistics import Interval, bootstrap_interval, macro_interval
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.results import ProbeAnswer, ProbeResult, Ranking, RankingName
from kg_loaders import KnowledgeGraph

POPULARITY = (0, 1, 2, 5, 20, 100)
"""Lower ends of the bins of degrees."""
Scored = list[tuple[ProbeAnswer, Ranking]]


ALL = "all"
"""The line of all items together."""


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One line of a table: `name` is a relation, a bin, or what the line is about.

    `p_at_1` is None where no item was scored; an interval needs two independent items.
    `calibration_error` as `calibration_error`; `majority` as `Majority.score`, None without one.
    """

    name: str
    n_asked: int
    n_scored: int
    p_at_1: float | None
    interval: Interval | None
    p_at_10: float | None
    reciprocal: float | None
    calibration_error: float | None
    majority: float | None = None


@dataclass(frozen=True)
class Majority:
    """The baseline that ignores the subject: objects of each relation by frequency.

    `ranked`: relation to objects, most frequent first, of equal counts the first by name. Counted
    in the items themselves (`source`) it has seen the answers. `also_right`: relation and id of
    each item to its other right answers, which do not compete, as in a model's ranking. Objects of
    several pieces count in the restricted ranking, too.
    """

    source: Literal["items", "training"]
    ranked: Mapping[str, Sequence[str]]
    also_right: Mapping[tuple[str, str], Sequence[str]]

    def first(self, answer: ProbeAnswer) -> str | None:
        """Its answer to the same item, None to a relation of which it knows no other object."""
        key = answer.relation, answer.id
        if key not in self.also_right:
            raise EvaluationError(
                f"{answer.id!r} of {answer.relation} is not an item of the baseline; make it "
                f"with majority(items) of the items that were ranked"
            )
        names = self.ranked.get(answer.relation, ())
        return next((name for name in names if name not in self.also_right[key]), None)

    def score(self, answers: Iterable[ProbeAnswer]) -> float | None:
        """P@1: share of the answers that are its first; raises `EvaluationError` for others."""
        hits = [self.first(answer) == answer.answer for answer in answers]
        return float(np.mean(hits)) if hits else None


def majority(
    items: Iterable[ClozeItem], training: Iterable[tuple[str, str]] | None = None
) -> Majority:
    """The baseline for `items`, from `training`, pairs (relation, object), or from themselves."""
    all_items = list(items)
    pairs = training
    if pairs is None:
        pairs = [(item.relation, item.answer) for item in all_items]
    counts: dict[str, dict[str, int]] = {}
    for relation, name in pairs:
        of_relation = counts.setdefault(relation, {})
        of_relation[name] = of_relation.get(name, 0) + 1
    ranked = {
        relation: sorted(n_by_answer, key=lambda name: (-n_by_answer[name], name))
        for relation, n_by_answer in counts.items()
    }
    others = {(item.relation, item.id): item.also_right for item in all_items}
    return Majority("items" if training is None else "training", ranked, others)


def total_row(
    result: ProbeResult,
    ranking: RankingName,
    *,
    generator: np.random.Generator,
    baseline: Majority | None = None,
) -> ProbeRow:
    """All items, each counting the same."""
    return _row(ALL, result.answers, ranking, generator, baseline)


def macro_row(
    result: ProbeResult,
    ranking: RankingName,
    *,
    generator: np.random.Generator,
    baseline: Majority | None = None,
) -> ProbeRow:
    """The mean over relations of what each scores: LAMA's number (Petroni et al. 2019, table 2).

    The interval resamples facts, and averages each resample in the same way (`macro_interval`).
    """
    groups = _by_relation(result)
    rows = [_row(name, part, ranking, None, baseline) for name, part in groups.items()]
    rows = [row for row in rows if row.n_scored]
    scored = result.scored(ranking)
    relations = [answer.relation for answer, _ in scored]
    clusters = [answer.group for answer, _ in scored]
    interval = None
    if len(frozenset(clusters)) > 1:
        hits = [answer_ranking.hit(1) for _, answer_ranking in scored]
        interval = macro_interval(hits, relations, generator=generator, clusters=clusters)
    return ProbeRow(
        f"mean of {len(rows)} relations",
        len(result.answers),
        len(scored),
        _mean([row.p_at_1 for row in rows]),
        interval,
        _mean([row.p_at_10 for row in rows]),
        _mean([row.reciprocal for row in rows]),
        _mean([row.calibration_error for row in rows]),
        _mean([row.majority for row in rows]),
    )


def relation_rows(
    result: ProbeResult,
    ranking: RankingName,
    *,
    generator: np.random.Generator,
    baseline: Majority | None = None,
) -> list[ProbeRow]:
    """A row for each relation, in the order of the items."""
    groups = _by_relation(result)
    return [_row(name, part, ranking, generator, baseline) for name, part in groups.items()]


def popularity_rows(
    result: ProbeResult,
    ranking: RankingName,
    degrees: Sequence[int | None],
    *,
    generator: np.random.Generator,
    baseline: Majority | None = None,
    bins: Sequence[int] = POPULARITY,
) -> list[ProbeRow]:
    """A row for each bin of the subject's degree; `degrees` are those of the items, in order.

    None (a subject that the graph does not know) is a row of its own. Bins without items are left
    out.
    """
    if len(degrees) != len(result.answers):
        raise EvaluationError(f"{len(result.answers)} answers have {len(degrees)} degrees")
    parts: dict[int, list[ProbeAnswer]] = {}
    for answer, degree in zip(result.answers, degrees, strict=True):
        bin_index = -1 if degree is None else int(np.searchsorted(bins, degree, side="right")) - 1
        parts.setdefault(bin_index if degree is not None else len(bins), []).append(answer)
    names = {bin_index: _bin_name(bins, bin_index) for bin_index in range(-1, len(bins))}
    names[len(bins)] = "not in the graph"
    return [
        _row(names[bin_index], parts[bin_index], ranking, generator, baseline)
        for bin_index in sorted(parts)
    ]


def subject_degrees(items: Iterable[ClozeItem], graph: KnowledgeGraph) -> list[int | None]:
    """The number of triples with each item's subject, the item's own included; None if unknown."""
    degrees: list[int | None] = []
    for item in items:
        row = graph.entities.find(item.fact[0]) if item.fact else None
        degrees.append(None if row is None else len(graph.outgoing(row)) + len(graph.incoming(row)))
    return degrees


def calibration_error(rankings: Sequence[Ranking], *, n_bins: int = 10) -> float | None:
    """Expected calibration error of the best answers (Guo et al. 2017, ICML, section 2).

    The probability is that among the candidates (Jiang et al. 2021, TACL, section 3); bins have
    equal width. None without any.
    """
    if not rankings:
        return None
    probabilities = np.array([ranking.probability for ranking in rankings])
    right = np.array([ranking.correct for ranking in rankings], np.float64)
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, right - probabilities, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(rankings))


def _row(
    name: str,
    answers: Sequence[ProbeAnswer],
    ranking: RankingName,
    generator: np.random.Generator | None,
    baseline: Majority | None,
) -> ProbeRow:
    """A row; without a generator no interval is made."""
    pairs = ((answer, answer.ranking(ranking)) for answer in answers)
    scored: Scored = [
        (answer, answer_ranking) for answer, answer_ranking in pairs if answer_ranking is not None
    ]
    rankings = [answer_ranking for _, answer_ranking in scored]
    hits = np.array([answer_ranking.hit(1) for answer_ranking in rankings])
    return ProbeRow(
        name,
        len(answers),
        len(scored),
        _mean(hits.tolist()),
        _interval(hits, [answer.group for answer, _ in scored], generator),
        _mean([answer_ranking.hit(10) for answer_ranking in rankings]),
        _mean([answer_ranking.reciprocal for answer_ranking in rankings]),
        calibration_error(rankings),
        baseline.score(answer for answer, _ in scored) if baseline else None,
    )


def _interval(
    hits: np.ndarray[tuple[int], np.dtype[np.float64]],
    groups: Sequence[str],
    generator: np.random.Generator | None,
) -> Interval | None:
    if generator is None or len(frozenset(groups)) < 2:
        return None
    return bootstrap_interval(hits, generator=generator, clusters=groups)


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None


def _by_relation(result: ProbeResult) -> dict[str, list[ProbeAnswer]]:
    answers: dict[str, list[ProbeAnswer]] = {}
    for answer in result.answers:
        answers.setdefault(answer.relation, []).append(answer)
    return answers


def _bin_name(bins: Sequence[int], index: int) -> str:
    if index < 0:
        return f"below {bins[0]}"
    if index + 1 == len(bins):
        return f"{bins[index]} and more"
    low, high = bins[index], bins[index + 1] - 1
    return str(low) if low == high else f"{low}-{high}"
