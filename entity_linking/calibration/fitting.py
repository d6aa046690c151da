"""Fits a `Decision` on annotated text, so that the confidence of a link means something.

Three steps, each alone or in this order: a temperature with a score for NIL, by maximum likelihood
(temperature: Guo et al. 2017, ICML, section 4.2; NIL is one more class there); an isotonic curve
(Zadrozny and Elkan 2002, KDD); a threshold for NIL by the best F1. What is fitted is
reported on other texts: `cross_validated` does it for those at hand.
`entity_linking.calibration.reliability` measures. Axis legend: answer (a mention), candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from entity_linking.calibration.acceptance import (
    RiskCoverage,
    Wish,
    best_nil_from,
    risk_coverage,
    threshold,
)
from entity_linking.calibration.answers import (
    Answer,
    Floats,
    accepted,
    confidences,
    with_candidates,
)
from entity_linking.calibration.isotonic import isotonic_knots
from entity_linking.calibration.reliability import CalibrationScore, calibration_score
from entity_linking.decision import Decision
from entity_linking.errors import LinkIndexError, ScoreError
from entity_linking.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.seals import rendered, seal_of
from kg_loaders.disk.writing import write_bytes

Step = Literal["temperature", "nil", "curve", "threshold", "nil_from"]
STEPS: tuple[Step, ...] = ("temperature", "nil", "curve", "threshold")
EVERY_STEP: tuple[Step, ...] = (*STEPS, "nil_from")
"""With when to say NIL, for linkers whose mentions have probabilities (`EndToEnd`)."""
FORMAT = 1
N_POINTS = 12
LIMIT = 1e3
"""Temperatures stay between the spread of the scores divided and multiplied by this."""


def fit(
    seen: Sequence[Answer],
    decision: Decision = Decision(),  # noqa: B008 - frozen
    *,
    steps: Sequence[Step] = STEPS,
    n_missed: int = 0,
    wish: Wish = Wish(),  # noqa: B008 - frozen
) -> Decision:
    """The decision with the named steps fitted, always in the order of `STEPS`; the rest stays.

    `n_missed`, `wish`: `fit_threshold`.
    """
    unknown = sorted({*steps} - {*EVERY_STEP})
    if unknown:
        raise ScoreError(f"no steps are called {unknown}; choose among {EVERY_STEP}")
    every, seen = seen, with_candidates(seen)
    lost = sum(each.has_entity for each in every) - sum(each.has_entity for each in seen)
    if "temperature" in steps:
        marked = [each for each in seen if each.is_marked or each.span == 1.0]
        decision = fit_temperature(marked, decision, nil="nil" in steps)
    elif "nil" in steps:
        raise ScoreError("the score of NIL is fitted with the temperature; name both steps")
    if "curve" in steps:
        decision = fit_curve(seen, decision)
    if "threshold" in steps:
        decision = fit_threshold(seen, decision, n_missed=n_missed + lost, wish=wish)
    if "nil_from" in steps:
        decision = fit_nil_from(every, decision, n_missed=n_missed)
    return decision


def fit_temperature(seen: Sequence[Answer], decision: Decision, *, nil: bool) -> Decision:
    """Temperature and, with `nil`, the score of NIL that make the right answers most likely.

    Minimises the sum of -log softmax(scores / T) at the right candidate, or at NIL where no
    candidate is right. In 1 / T and the score of NIL divided by T that is convex, so there is one
    best value. Without `nil` only mentions with a right candidate are read, and `nil_score` becomes
    None; also with `nil` where every mention has a right one. T stays within 1e3 times the spread
    of the scores (when every answer is right the best T would be 0).
    """
    rightful = [each for each in seen if each.right is not None]
    if not rightful:
        raise ScoreError(
            f"none of {len(seen)} mentions has its entity among its candidates, so "
            f"confidences cannot be fitted; give more annotated text"
        )
    used = list(seen) if nil and len(rightful) < len(seen) else rightful
    with_nil = len(used) > len(rightful)
    every = np.concatenate([each.scores for each in used])
    middle, spread = float(every.mean()), float(every.std()) or 1.0
    table, right = _table(used, middle, spread)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        logits = table * parameters[0]
        logits[:, 0] = parameters[1] if with_nil else -np.inf
        whole = logsumexp(logits, axis=1)
        share = np.exp(logits - whole[:, None])
        rows = np.arange(len(table))
        values = np.where(np.isfinite(table), table, 0.0)
        slope = (share * values).sum(1) - values[rows, right]
        slope_nil = share[:, 0] - (right == 0)
        nll = whole - logits[rows, right]
        return float(nll.mean()), np.array([slope.mean(), slope_nil.mean() if with_nil else 0.0])

    bounds = [(1 / LIMIT, LIMIT), (-LIMIT * 10, LIMIT * 10)]
    best = minimize(loss, np.array([1.0, 0.0]), jac=True, bounds=bounds, method="L-BFGS-B",
                    options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 1000}).x  # fmt: skip
    nil_score = float(best[1] / best[0]) * spread + middle if with_nil else None
    return replace(decision, temperature=float(spread / best[0]), nil_score=nil_score)


def _table(
    seen: Sequence[Answer], middle: float, spread: float
) -> tuple[Floats, NDArray[np.int64]]:
    """Scores with mean 0 and deviation 1 `[answer 1+candidate]`, NIL first, -inf for none."""
    table = np.full((len(seen), 1 + max(len(each.scores) for each in seen)), -np.inf)
    for row, each in zip(table, seen, strict=True):
        row[0] = 0.0
        row[1 : 1 + len(each.scores)] = (each.scores - middle) / spread
    right = [0 if each.right is None else 1 + each.right for each in seen]
    return table, np.array(right, np.int64)


def fit_curve(seen: Sequence[Answer], decision: Decision, *, n_points: int = N_POINTS) -> Decision:
    """An isotonic curve from raw confidence to the share of best candidates that are right.

    Values stay 1 / (n + 2) from 0 and 1, as no n answers prove certainty; few answers at an end may
    still look surer than they are, so leave the curve out where there are few in all. The curve is
    thinned to about `n_points` by leaving out, one after the other, the point whose loss costs
    least likelihood; more stay where fewer would be less likely than no curve at all.
    """
    _require(seen)
    sure, right = confidences(seen, replace(decision, curve=()))
    least = 1 / (len(seen) + 2)
    points = isotonic_knots(sure, right, least=least, most=1 - least)
    order = np.argsort(sure)
    thinned = _thin(points, sure[order], right[order], n_points, least)
    return replace(decision, curve=tuple(thinned))


def _thin(
    points: list[tuple[float, float]],
    sure: Floats,
    right: NDArray[np.bool_],
    n_points: int,
    least: float,
) -> list[tuple[float, float]]:
    """Fewer points of a curve over sorted confidences; both ends stay."""
    raw = _likelihood(np.clip(sure, least, 1 - least), right)
    x, y = np.array(points).T
    spare = _likelihood(np.interp(sure, x, y), right) - raw

    def cost(index: int) -> float:
        """The likelihood lost without the point, among the answers between its neighbours."""
        (a, _), (b, _) = around = [points[index - 1], points[index + 1]]
        span = slice(*np.searchsorted(sure, [a, b], side="left").tolist())
        now = np.array([around[0], points[index], around[1]]).T
        ends = np.array(around).T
        part, hits = sure[span], right[span]
        kept = _likelihood(np.interp(part, *now), hits)
        return kept - _likelihood(np.interp(part, *ends), hits)

    costs = [cost(i) for i in range(1, len(points) - 1)]
    while len(points) > max(n_points, 2):
        cheapest = int(np.argmin(costs))
        if costs[cheapest] > spare:
            break
        spare -= costs.pop(cheapest)
        del points[cheapest + 1]
        for i in (cheapest - 1, cheapest):
            if 0 <= i < len(costs):
                costs[i] = cost(i + 1)
    return points


def _likelihood(sure: Floats, right: NDArray[np.bool_]) -> float:
    return float(np.log(np.where(right, sure, 1 - sure)).sum())


def fit_threshold(
    seen: Sequence[Answer],
    decision: Decision,
    *,
    n_missed: int = 0,
    wish: Wish = Wish(),  # noqa: B008 - frozen
) -> Decision:
    """The `nil_below` with the best F1 of links, or what else `wish` asks for.

    A link is right when its entity is; every mention with an entity is to be found, also where it
    is not among the candidates, and so are `n_missed` mentions that are not among `seen`, as no
    span was found for them: the more are lost, the more doubtful links pay.
    """
    curve = curve_of(seen, decision, n_missed=n_missed)
    return replace(decision, nil_below=threshold(curve, wish))


def fit_nil_from(seen: Sequence[Answer], decision: Decision, *, n_missed: int = 0) -> Decision:
    """The `nil_from` with the best F1 when NIL is an answer like others.

    Gold that is NIL is to be found and called NIL; a NIL is wrong where gold has an entity, and
    where it marks nothing. Links are those of the decision with NIL competing.
    """
    shares, is_right, n_linked, n_right = [], [], 0, 0
    for each in seen:
        nil = decision.nil_share(each.scores, each.span)
        sure = decision.confidence(each.scores, each.span) if len(each.scores) else -1.0
        if sure >= decision.nil_below and not decision.nil_wins(each.scores):
            n_linked, n_right = n_linked + 1, n_right + each.best_is_right
        else:
            shares.append(nil)
            is_right.append(each.is_marked and not each.has_entity)
    n_gold = n_missed + sum(each.is_marked for each in seen)
    best = best_nil_from(np.array(shares), np.array(is_right, np.bool_), n_linked, n_right, n_gold)
    return replace(decision, nil_from=best)


def f1_of(seen: Sequence[Answer], decision: Decision, *, n_missed: int = 0) -> float:
    """F1 of the links of a decision that was not fitted on these answers; `n_missed` as there.

    What `CrossValidated.f1` is for decisions that are fitted.
    """
    n_gold = sum(each.has_entity for each in seen) + n_missed
    seen = with_candidates(seen)
    _require(seen)
    kept, (_, correct) = accepted(seen, decision), confidences(seen, decision)
    return 2 * int((kept & correct).sum()) / max(int(kept.sum()) + n_gold, 1)


def curve_of(seen: Sequence[Answer], decision: Decision, *, n_missed: int = 0) -> RiskCoverage:
    """What each threshold would give on these answers, `n_missed` as in `fit_threshold`."""
    _require(seen)
    if n_missed < 0:
        raise ScoreError(f"n_missed is {n_missed}; it counts mentions, give 0 or more")
    n_gold = sum(each.has_entity for each in seen) + n_missed
    return risk_coverage(*confidences(seen, decision), n_gold)


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidated:
    """Confidences of the best candidates, fitted and measured on different texts.

    `raw`, `calibrated`, `correct`, `accepted` (by the threshold of its fold) and `fold` are
    `[answer]`; `n_gold` counts the mentions with an entity, those without an answer among them.
    """

    raw: Floats
    calibrated: Floats
    correct: NDArray[np.bool_]
    accepted: NDArray[np.bool_]
    fold: NDArray[np.int64]
    n_gold: int
    before: CalibrationScore
    after: CalibrationScore

    @property
    def f1(self) -> float:
        """Of the accepted links."""
        n_right = int((self.accepted & self.correct).sum())
        return 2 * n_right / max(int(self.accepted.sum()) + self.n_gold, 1)

    @property
    def curve(self) -> RiskCoverage:
        """Risk and coverage by calibrated confidence."""
        return risk_coverage(self.calibrated, self.correct, self.n_gold)


def cross_validated(
    seen: Sequence[Answer],
    decision: Decision = Decision(),  # noqa: B008 - frozen
    *,
    n_folds: int = 5,
    seed: int = 0,
    steps: Sequence[Step] = STEPS,
    n_missed: int = 0,
    wish: Wish = Wish(),  # noqa: B008 - frozen
) -> CrossValidated:
    """Calibration as it will be on new text: every answer by a decision fitted without its text.

    All mentions of a text are in one fold; `seed` deals the texts out. `n_missed`, `wish`:
    `fit_threshold`; a fold bears its share of the missed.
    """
    n_missed += sum(each.has_entity for each in seen if not len(each.scores))
    seen = with_candidates(seen)
    texts = np.unique([each.text for each in seen])
    if not 2 <= n_folds <= len(texts):
        raise ScoreError(
            f"{n_folds} folds of {len(texts)} texts; give 2 folds or more, a text each"
        )
    dealt = generator(seed, "calibration folds").permutation(len(texts)) % n_folds
    fold = dealt[np.searchsorted(texts, [each.text for each in seen])].astype(np.int64)
    raw, correct = confidences(seen, decision)
    calibrated, kept = np.empty(len(seen)), np.zeros(len(seen), np.bool_)
    for k in range(n_folds):
        rest = [each for each, number in zip(seen, fold, strict=True) if number != k]
        held = [each for each, number in zip(seen, fold, strict=True) if number == k]
        missed = round(n_missed * len(rest) / len(seen))
        fitted = fit(rest, decision, steps=steps, n_missed=missed, wish=wish)
        calibrated[fold == k], _ = confidences(held, fitted)
        kept[fold == k] = accepted(held, fitted)
    n_gold = sum(each.has_entity for each in seen) + n_missed
    before, after = calibration_score(raw, correct), calibration_score(calibrated, correct)
    return CrossValidated(raw, calibrated, correct, kept, fold, n_gold, before, after)


# ---- on disk ---------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class FittedDecision:
    """A decision with the graph (content hash), the scorer and the text that it was fitted on.

    `instead_of`: the scorer that was asked for, where names + prior did better on that text and
    `scorer` is theirs; "" where what was asked for is used. `tagger`: what found the mentions; ""
    where names alone or marks did. `above_linked`: of a decision for other kinds of text, how much
    greater the share of right links is than that of linked names (`calibration.other_kinds`).
    """

    decision: Decision
    graph_hash: str
    scorer: str
    fitted_on: str
    n_answers: int
    format: int = FORMAT
    instead_of: str = ""
    tagger: str = ""
    above_linked: float | None = None


def save_decision(
    fitted: FittedDecision,
    path: str | Path,
    *,
    force: bool = False,
    inputs: Iterable[str | Path] = (),
) -> None:
    """Write JSON; the file appears when it is whole.

    `force` replaces a file that is there, but for one of the `inputs`. Raises `WriteError`.
    """
    values = msgspec.to_builtins(fitted)
    content = rendered({**values, "seal": seal_of(values)})
    write_bytes(path, content, force=force, inputs=inputs)


def load_decision(path: str | Path, graph: KnowledgeGraph) -> FittedDecision:
    """Read what `save_decision` wrote; LinkIndexError: damaged, or fitted on another graph."""
    try:
        content = Path(path).read_bytes()
        values = msgspec.json.decode(content, type=dict[str, Any])
        fitted = msgspec.convert(values, FittedDecision)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise LinkIndexError(f"{path} is not a decision: {error}; fit and save it again") from error
    if fitted.format != FORMAT:
        raise LinkIndexError(
            f"{path} has format {fitted.format}, this version reads {FORMAT}; fit it again"
        )
    if values.get("seal") != seal_of(values) or rendered(values) != content:
        raise LinkIndexError(
            f"{path} was altered after it was written (its own checksum); fit and save it again"
        )
    if fitted.graph_hash != graph.content_hash:
        raise LinkIndexError(
            f"{path} was fitted on graph {fitted.graph_hash}, not on {graph}; fit it again, "
            f"as scores differ between graphs"
        )
    return fitted


def _require(seen: Sequence[Answer]) -> None:
    if not seen:
        raise ScoreError("no mention with candidates was annotated; fit on more text")
