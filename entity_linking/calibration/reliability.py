"""How well confidences keep what they promise; axis legend: answer, bin.

`confidences` in [0, 1] and `correct` (bool or 0/1) are `[answer]`. Among answers given with
confidence c a share c should be right. Bins of equal width are (low, high], the first holds 0, too
(Guo et al. 2017, ICML, section 2); bins of equal mass lie between quantiles, so that answers with
one confidence stay in one bin, and are fewer where many are equal (Nixon et al. 2019, CVPR
workshops, cut at ranks instead). Empty bins are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entity_linking.errors import ScoreError
from kg_loaders.disk.writing import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Equal = Literal["width", "mass"]
N_BINS = 15
LEAST = 1e-12
"""Probabilities are held this far from 0 and 1 in logarithms."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Answers with a confidence in (low, high]: how many, how sure, how often right."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float

    @property
    def gap(self) -> float:
        return abs(self.accuracy - self.confidence)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Confidence and accuracy by bin; the numbers behind a reliability diagram."""

    bins: tuple[ReliabilityBin, ...]
    equal: Equal
    n_bins: int

    @property
    def n(self) -> int:
        return sum(each.n for each in self.bins)

    @property
    def expected_error(self) -> float:
        """Mean gap, weighted by the answers in the bins (ECE; Naeini et al. 2015, AAAI)."""
        return sum(each.n * each.gap for each in self.bins) / self.n

    @property
    def maximum_error(self) -> float:
        """The widest gap (MCE, same place)."""
        return max(each.gap for each in self.bins)


@dataclass(frozen=True, slots=True)
class CalibrationScore:
    """Every measure of calibration of one set of answers.

    `ece_width`, `ece_mass`: expected calibration error with `n_bins` bins of equal width and of
    equal mass; `mce`: the maximum, equal width; `brier`: mean squared difference of confidence and
    outcome; `nll`: mean negative log-likelihood, in nats.
    """

    n: int
    accuracy: float
    confidence: float
    ece_width: float
    ece_mass: float
    mce: float
    brier: float
    nll: float
    n_bins: int

    def __str__(self) -> str:
        return (
            f"ECE {self.ece_width:.4f} ({self.n_bins} bins of equal width), {self.ece_mass:.4f} "
            f"(equal mass), MCE {self.mce:.4f}, Brier {self.brier:.4f}, NLL {self.nll:.4f}; "
            f"{self.n} answers, accuracy {self.accuracy:.4f}, mean confidence {self.confidence:.4f}"
        )


def reliability(
    confidences: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS, *, equal: Equal = "width"
) -> Reliability:
    """Answers by bin of confidence.

    >>> [(b.n, b.accuracy) for b in reliability([0.1, 0.9, 0.95], [0, 1, 1], 2).bins]
    [(1, 0.0), (2, 1.0)]
    """
    sure, right = _answers(confidences, correct)
    if n_bins < 1 or equal not in ("width", "mass"):
        raise ScoreError(f"{n_bins} bins of equal {equal}: give 1 or more, of 'width' or 'mass'")
    edges = np.linspace(0, 1, n_bins + 1)
    if equal == "mass":
        edges = np.quantile(sure, edges)
    which = np.searchsorted(edges[1:-1], sure)
    sizes = np.bincount(which, minlength=n_bins)
    sums = [np.bincount(which, values, n_bins).tolist() for values in (sure, right)]
    return Reliability(
        tuple(
            ReliabilityBin(float(edges[i]), float(edges[i + 1]), n, sums[0][i] / n, sums[1][i] / n)
            for i, n in enumerate(sizes.tolist())
            if n
        ),
        equal,
        n_bins,
    )


def brier_score(confidences: ArrayLike, correct: ArrayLike) -> float:
    """Mean squared difference of confidence and outcome (Brier 1950, for one class)."""
    sure, right = _answers(confidences, correct)
    return float(((sure - right) ** 2).mean())


def negative_log_likelihood(confidences: ArrayLike, correct: ArrayLike) -> float:
    """Mean of -log p(outcome) in nats; confidences are held 1e-12 from 0 and 1."""
    sure, right = _answers(confidences, correct)
    sure = np.clip(sure, LEAST, 1 - LEAST)
    return float(-np.where(right > 0, np.log(sure), np.log1p(-sure)).mean())


def calibration_score(
    confidences: ArrayLike, correct: ArrayLike, *, n_bins: int = N_BINS
) -> CalibrationScore:
    """All measures at once."""
    sure, right = _answers(confidences, correct)
    width = reliability(sure, right, n_bins, equal="width")
    mass = reliability(sure, right, n_bins, equal="mass")
    return CalibrationScore(
        n=len(sure),
        accuracy=float(right.mean()),
        confidence=float(sure.mean()),
        ece_width=width.expected_error,
        ece_mass=mass.expected_error,
        mce=width.maximum_error,
        brier=brier_score(sure, right),
        nll=negative_log_likelihood(sure, right),
        n_bins=n_bins,
    )


def draw_reliability(
    before: Reliability,
    after: Reliability,
    path: str | Path,
    *,
    title: str = "",
    force: bool = False,
) -> None:
    """Two diagrams side by side as PNG, counts beneath; the file appears when it is whole.

    `force` replaces a file that is there. Raises `WriteError`.
    """

    figure = figure_of({"before": before, "after": after}, title)
    with whole_file(path, force=force) as part:
        figure.savefig(part, format="png", dpi=120)


def _answers(
    confidences: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sure, right = np.asarray(confidences, np.float64), np.asarray(correct, np.float64)
    if sure.ndim != 1 or sure.shape != right.shape or not len(sure):
        raise ScoreError(
            f"give one confidence and one outcome per answer, at least one; shapes are "
            f"{sure.shape} and {right.shape}"
        )
    if not ((sure >= 0) & (sure <= 1)).all():
        raise ScoreError(f"confidences reach from {sure.min()} to {sure.max()}, outside [0, 1]")
    if not np.isin(right, (0, 1)).all():
        raise ScoreError("outcomes are right (1) or wrong (0), nothing else")
    return sure, right


BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


def figure_of(curves: Mapping[str, Reliability], title: str) -> Figure:
    """A column each: accuracy by confidence above, numbers of answers beneath, equal axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: who measures draws nothing
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(curves), 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        2, len(curves), squeeze=False, sharex=True, sharey="row", height_ratios=[3, 1]
    )
    for column, (name, curve) in enumerate(curves.items()):
        _draw(axes[0, column], curve, name)
        _count(axes[1, column], curve)
    axes[0, 0].set_ylabel("share right")
    axes[1, 0].set_ylabel("answers")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    if title:
        figure.suptitle(title)
    return figure


def _draw(axis: Any, curve: Reliability, name: str) -> None:
    lows = [each.low for each in curve.bins]
    widths = [each.high - each.low for each in curve.bins]
    sure = [each.confidence for each in curve.bins]
    right = [each.accuracy for each in curve.bins]
    axis.bar(lows, right, widths, align="edge", label="share right",
             color=BLUE, alpha=0.35, edgecolor=BLUE)  # fmt: skip
    axis.vlines(sure, sure, right, color=ORANGE, linewidth=2, label="gap to mean confidence")
    axis.plot(sure, right, "o", color=BLUE, markersize=4, clip_on=False, zorder=3)
    axis.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1, label="as promised")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    errors = f"ECE {curve.expected_error:.3f}, MCE {curve.maximum_error:.3f}"
    axis.set_title(f"{name}: {errors}\n{curve.n_bins} bins of equal {curve.equal}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)


def _count(axis: Any, curve: Reliability) -> None:
    lows = [each.low for each in curve.bins]
    widths = [each.high - each.low for each in curve.bins]
    numbers = [each.n for each in curve.bins]
    axis.bar(lows, numbers, widths, align="edge", color=GREY, alpha=0.6, edgecolor=GREY)
    axis.set(xlabel="confidence")
    axis.spines[["top", "right"]].set_visible(False)
