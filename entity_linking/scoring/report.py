"""All scores of a linker in one result, with intervals; axis legend: text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import ScoreError
from entity_linking.mentions import LinkedText
from entity_linking.randomness import generator
from entity_linking.scoring.intervals import Interval, paired_ratio_interval, ratio_interval
from entity_linking.scoring.links import Known, Match, count_links, on_gold_spans, ratios
from entity_linking.scoring.spans import Outcome, SpanScore, outcomes

RECALL_AT = (1, 5, 30)
WEAK: Match = "weak"


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A score as a ratio of sums over texts, so that texts can be resampled.

    `numerators` and `denominators` are `[text]`; a macro score has ones below the line.
    """

    name: str
    numerators: NDArray[np.float64]
    denominators: NDArray[np.float64]

    @property
    def value(self) -> float:
        """0 with nothing below the line."""
        below = float(self.denominators.sum())
        return float(self.numerators.sum()) / below if below else 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """One number; `n` is what it divides by (texts for macro scores). No interval under 2 texts."""

    name: str
    value: float
    n: int
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What `report` found; `bins` holds `(kind, ((bin, score), ...))`, such as "type"."""

    n_texts: int
    gold_spans_only: bool
    scores: tuple[Score, ...]
    bins: tuple[tuple[str, tuple[tuple[str, SpanScore], ...]], ...] = ()

    def __getitem__(self, name: str) -> Score:
        for score in self.scores:
            if score.name == name:
                return score
        names = ", ".join(score.name for score in self.scores)
        raise ScoreError(f"no score is called {name!r}; there are: {names}")

    def to_markdown(self) -> str:
        """A table of the scores and one of each kind of bins."""
        lines = ["| score | value | 95 % interval | n |", "|---|---|---|---|"]
        for score in self.scores:
            between = score.interval if score.n else None
            value = f"{score.value:.3f}" if score.n else "–"
            interval = f"{between.low:.3f} to {between.high:.3f}" if between else ""
            lines.append(f"| {score.name} | {value} | {interval} | {score.n} |")
        for kind, scores in self.bins:
            lines += ["", f"| {kind} | mentions | accuracy | candidate recall |"]
            lines.append("|---|---|---|---|")
            for name, bin in scores:
                shares = f"{bin.accuracy:.3f} | {bin.candidate_recall:.3f}"
                lines.append(f"| {name} | {bin.n_gold} | {shares} |")
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        """Everything, as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode()


def measures(
    gold: Sequence[LinkedText],
    predicted: Sequence[LinkedText],
    *,
    known: Known | None,
    gold_spans_only: bool,
    recall_at: Sequence[int] = RECALL_AT,
) -> tuple[Measure, ...]:
    """Every score; `known` (None: all) and `gold_spans_only` as the package describes them.

    Names: "strong micro F1" and so on for strong and weak, micro and macro, precision, recall and
    F1; "accuracy, all", "accuracy, in graph"; "recall@5, all", "recall@5, in graph"; "NIL F1".
    """
    if gold_spans_only:
        predicted = on_gold_spans(gold, predicted)
    measured: list[Measure] = []
    for match in ("strong", WEAK):
        counts = count_links(gold, predicted, match=match, known=known)
        measured += _shares(f"{match} micro", *counts.astype(np.float64).T)
        ones = np.ones(len(gold))
        measured += [
            Measure(f"{match} macro {name}", each, ones)
            for name, each in zip(("precision", "recall", "F1"), ratios(counts).T, strict=True)
        ]
    judged = outcomes(gold, predicted, known=known)
    entities = [o for o in judged if o.gold is not None]
    count = _counter(len(gold))
    for where, group in (("all", entities), ("in graph", [o for o in entities if o.in_graph])):
        n = count(group)
        right = count(o for o in group if o.is_correct)
        measured.append(Measure(f"accuracy, {where}", right, n))
        for k in recall_at:
            first = count(o for o in group if o.rank is not None and o.rank < k)
            measured.append(Measure(f"recall@{k}, {where}", first, n))
    nils = [o for o in judged if o.is_answered and o.answer is None]
    right = count(o for o in nils if not o.in_graph)
    return (
        *measured,
        *_shares("NIL", count(o for o in judged if not o.in_graph), count(nils), right),
    )


def report(
    gold: Sequence[LinkedText],
    predicted: Sequence[LinkedText],
    *,
    known: Known | None,
    gold_spans_only: bool,
    bins: Mapping[str, Mapping[str, SpanScore]] | None = None,
    seed: int = 0,
    n_resamples: int = 2000,
) -> LinkReport:
    """Every score of `measures` with its bootstrap interval over texts, and the `bins` given.

    Each score draws the same resamples, by `seed`.
    """
    measured = measures(gold, predicted, known=known, gold_spans_only=gold_spans_only)
    scores = tuple(
        Score(m.name, m.value, round(m.denominators.sum()), _interval(m, seed, n_resamples))
        for m in measured
    )
    named = tuple((kind, tuple(each.items())) for kind, each in (bins or {}).items())
    return LinkReport(len(gold), gold_spans_only, scores, named)


def compare(
    ours: Sequence[Measure], theirs: Sequence[Measure], *, seed: int = 0, n_resamples: int = 2000
) -> dict[str, Interval]:
    """Interval of ours minus theirs by the name of the score; both of `measures` on one gold."""
    names = [[measure.name for measure in side] for side in (ours, theirs)]
    if names[0] != names[1]:
        raise ScoreError(f"two linkers need the same scores in one order, not {names}")
    return {
        a.name: paired_ratio_interval(
            (a.numerators, a.denominators),
            (b.numerators, b.denominators),
            generator=generator(seed, "link scores"),
            n_resamples=n_resamples,
        )
        for a, b in zip(ours, theirs, strict=True)
    }


def to_markdown(reports: Mapping[str, LinkReport], names: Sequence[str]) -> str:
    """A table with one row per linker and one column per score, each with its interval."""
    lines = ["| linker | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for linker, scores in reports.items():
        cells = [_cell(scores[name]) for name in names]
        lines.append(f"| {linker} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(score: Score) -> str:
    between = score.interval
    spread = f" [{between.low:.3f}, {between.high:.3f}]" if between else ""
    return f"{score.value:.3f}{spread}"


def _interval(measure: Measure, seed: int, n_resamples: int) -> Interval | None:
    if len(measure.numerators) < 2:
        return None
    return ratio_interval(
        measure.numerators,
        measure.denominators,
        generator=generator(seed, "link scores"),
        n_resamples=n_resamples,
    )


def _shares(
    name: str,
    gold: NDArray[np.float64],
    predicted: NDArray[np.float64],
    correct: NDArray[np.float64],
) -> list[Measure]:
    return [
        Measure(f"{name} precision", correct, predicted),
        Measure(f"{name} recall", correct, gold),
        Measure(f"{name} F1", 2 * correct, gold + predicted),
    ]


def _counter(n_texts: int) -> Callable[[Iterable[Outcome]], NDArray[np.float64]]:
    def count(group: Iterable[Outcome]) -> NDArray[np.float64]:
        texts = np.array([outcome.text for outcome in group], np.int64)
        return np.bincount(texts, minlength=n_texts).astype(np.float64)

    return count
