"""Which links to accept: what each threshold gives, and the threshold that a user asks for.

Of answers with confidence `sure` and outcome `correct`, both `[answer]`, those with `sure` at or
above a threshold are accepted. Coverage is their share, risk the share of them that is wrong
(El-Yaniv and Wiener 2010, JMLR 11, section 2); recall is over all `n_gold` mentions that have an
entity, also those that are not among the answers as no span was found for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import ScoreError

Favour = Literal["f1", "precision", "recall"]
FAVOURS: tuple[Favour, ...] = get_args(Favour)
BETA = {"f1": 1.0, "precision": 0.5, "recall": 2.0}
"""F-beta by what is favoured: 0.5 and 2 weigh one of the two twice as much as the other."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a threshold is to give: the best F-beta, or a `target` for what is favoured.

    With a target, the highest recall at a precision of at least `target`, or the highest precision
    at a recall of at least `target`.
    """

    favour: Favour = "f1"
    target: float | None = None

    def __post_init__(self) -> None:
        if self.favour not in FAVOURS:
            raise ScoreError(f"favour is {self.favour!r}; choose one of {', '.join(FAVOURS)}")
        if self.target is None:
            return
        if self.favour == "f1":
            raise ScoreError("a target goes with favour precision or recall")
        if not 0 < self.target <= 1:
            raise ScoreError(f"target is {self.target}; give a share above 0, at most 1")


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverage:
    """What each threshold gives, the lowest first: all arrays are `[threshold]`.

    `n_kept` answers are accepted, `n_right` of them are right.
    """

    thresholds: Floats
    n_kept: Ints
    n_right: Ints
    n_answers: int
    n_gold: int

    @property
    def coverage(self) -> Floats:
        return self.n_kept / self.n_answers

    @property
    def precision(self) -> Floats:
        return self.n_right / self.n_kept

    @property
    def recall(self) -> Floats:
        """0 where there is nothing to find."""
        return self.n_right / max(self.n_gold, 1)

    def f(self, beta: float = 1.0) -> Floats:
        """F-beta of precision and recall (van Rijsbergen 1979)."""
        return (1 + beta**2) * self.n_right / (self.n_kept + beta**2 * self.n_gold)

    @property
    def area(self) -> float:
        """Mean risk over all coverages (AURC; Geifman et al. 2019, ICLR)."""
        widths = -np.diff(self.coverage, append=0.0)
        return float(((1 - self.precision) * widths).sum())


def risk_coverage(sure: Floats, correct: NDArray[np.bool_], n_gold: int) -> RiskCoverage:
    """A row for each confidence that occurs.

    >>> curve = risk_coverage(np.array([0.9, 0.5]), np.array([True, False]), 2)
    >>> curve.precision.tolist(), curve.recall.tolist()
    ([0.5, 1.0], [0.5, 0.5])
    """
    levels = np.unique(sure)
    n_kept = len(sure) - np.searchsorted(np.sort(sure), levels)
    n_right = correct.sum() - np.searchsorted(np.sort(sure[correct]), levels)
    return RiskCoverage(levels, n_kept, n_right, len(sure), n_gold)


def threshold(curve: RiskCoverage, wish: Wish) -> float:
    """The threshold of the wish, midway between two confidences; of equally good ones the lowest.

    `ScoreError`: no threshold reaches the target.
    """
    best = _threshold_index(curve, wish)
    if best == 0:
        return 0.0
    below, level = curve.thresholds[best - 1 : best + 1].tolist()
    middle: float = (below + level) / 2
    return middle if middle > below else level


def _threshold_index(curve: RiskCoverage, wish: Wish) -> int:
    if wish.target is None:
        return int(np.argmax(curve.f(BETA[wish.favour])))
    favoured, other = curve.precision, curve.recall
    if wish.favour == "recall":
        favoured, other = other, favoured
    if not (favoured >= wish.target).any():
        raise ScoreError(
            f"no threshold reaches {wish.favour} {wish.target}: the highest on this text is "
            f"{favoured.max():.3f}; give a lower target"
        )
    return int(np.argmax(np.where(favoured >= wish.target, other, -1.0)))


def best_nil_from(
    shares: Floats, is_right: NDArray[np.bool_], n_linked: int, n_right: int, n_gold: int
) -> float:
    """The share from which saying NIL gives the best F1 over links and NILs, 1 if it never pays.

    `shares` and `is_right` `[answer]` are of the mentions that are not linked; beside them stand
    `n_linked` links, `n_right` of them right, and `n_gold` mentions to be found, NIL among them.

    >>> best_nil_from(np.array([0.9, 0.6, 0.2]), np.array([True, True, False]), 4, 4, 6)
    0.6
    """
    order = np.argsort(-shares, kind="stable")
    right = n_right + np.append(0, np.cumsum(is_right[order]))
    kept = n_linked + np.arange(len(order) + 1)
    f1 = 2 * right / np.maximum(kept + n_gold, 1)
    falling = shares[order]
    f1[1:-1][falling[1:] == falling[:-1]] = -1.0  # equal shares are said together or not at all
    best = int(np.argmax(f1))
    return 1.0 if best == 0 else float(falling[best - 1])
