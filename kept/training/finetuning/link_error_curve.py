"""The link-error curve: a trained model's score as a function of how many links are wrong.

The model stays as it is; only the evaluated texts change. A flat curve means that the model does
not depend on its links. To train on wrong links as well, give `link_errors`
to `FinetuneConfig`.

Axis legend: item (an example).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kept.csv_text import csv_text
from kept.errors import ConfigError
from kept.evaluation.statistics import paired_bootstrap_interval
from kept.inputs.controls.link_errors import KINDS, Kind, LinkErrors
from kept.plotting import require_plotting
from kept.randomness import generator
from kept.tasks.datasets.example import clusters
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.scores.counts import Answers, item_counts
from kept.training.finetuning.run import FinetuneRun, Set
from kept.training.log import COLOURS
from kg_loaders.disk.writing import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Scores with a share of the links corrupted, and what was lost against clean links.

    `lost` is the mean over examples of the share of right answers (one per example, for tagging one
    per word) with clean links, minus that with corrupted ones, on the same examples.
    """

    kind: Kind
    share: float
    n_links: int
    n_spoilt: int
    n_scored: int
    accuracy: float
    accuracy_low: float | None
    accuracy_high: float | None
    micro_f1: float
    micro_f1_low: float | None
    micro_f1_high: float | None
    lost: float
    lost_low: float | None
    lost_high: float | None


def link_error_curve(
    run: FinetuneRun,
    *,
    name: Set = "dev",
    kinds: Sequence[Kind] = KINDS,
    shares: Sequence[float] = SHARES,
    spread: float | None = None,
) -> list[CurvePoint]:
    """Return the curve of a trained run on its split `name`, by kind and share; nothing is trained.

    With a `spread` links have the confidences of a calibrated linker (`LinkErrors`).
    Link errors of `run` itself are left out: the curve starts at clean links.
    Raises `ConfigError` for a run without links: nothing could be corrupted.
    """
    if name not in run.evaluation:
        raise ConfigError(f"the run has no set {name!r}; it has {list(run.evaluation)}")
    clean, report = run.with_link_errors(name, LinkErrors())
    if not clean.kind.has_right_answers:
        raise ConfigError("the curve is of right answers; a regression has none, give another task")
    if run.config.knowledge == "off" or not report.n_links:
        raise ConfigError(f"no text of {name} has a link to corrupt; give a run with links")
    answers, scores = run.score(name, clean)
    right = right_shares(answers, clean.examples, clean.problem_type)
    points = []
    for kind in kinds:
        for share in shares:
            data, report = run.with_link_errors(
                name, LinkErrors(kind=kind, share=share, spread=spread)
            )
            answers, scores = run.score(name, data)
            corrupted = right_shares(answers, data.examples, data.problem_type)
            lost = _lost(right, corrupted, data.examples, run, kind, share)
            n_spoilt = report.n_dropped + report.n_swapped
            points.append(_point(kind, share, report.n_links, n_spoilt, scores, lost))
    return points


def right_shares(
    answers: Answers, examples: Sequence[TaskExample], problem_type: str
) -> NDArray[np.float64]:
    """`[item]`: share of right answers, per example (a set of labels) or, in tagging, per word."""
    gold = [example.labels for example in examples]
    counts = item_counts(answers, gold, problem_type=problem_type, no_relation=None)["accuracy"]
    return np.asarray(counts[:, 0] / counts[:, 1])


def _lost(
    clean: NDArray[np.float64],
    corrupted: NDArray[np.float64],
    examples: Sequence[TaskExample],
    run: FinetuneRun,
    kind: Kind,
    share: float,
) -> tuple[float, float | None, float | None]:
    groups = clusters(examples)
    estimate = float((clean - corrupted).mean())
    if len(set(groups)) < 2:
        return estimate, None, None
    interval = paired_bootstrap_interval(
        clean,
        corrupted,
        clusters=groups,
        generator=generator(run.config.training.seed, "link errors", kind, str(share)),
    )
    return estimate, interval.low, interval.high


def _point(
    kind: Kind,
    share: float,
    n_links: int,
    n_spoilt: int,
    scores: dict[str, Any],
    lost: tuple[float, float | None, float | None],
) -> CurvePoint:
    accuracy, interval = scores["accuracy"], scores["micro"]["f1_interval"]
    return CurvePoint(
        kind=kind,
        share=share,
        n_links=n_links,
        n_spoilt=n_spoilt,
        n_scored=scores["n_scored"],
        accuracy=accuracy["estimate"],
        accuracy_low=accuracy["low"],
        accuracy_high=accuracy["high"],
        micro_f1=scores["micro"]["f1"],
        micro_f1_low=interval["low"],
        micro_f1_high=interval["high"],
        lost=lost[0],
        lost_low=lost[1],
        lost_high=lost[2],
    )


# ---- out ----------------------------------------------------------------------------------------
def write_csv(points: Sequence[CurvePoint], path: Path, *, force: bool = False) -> None:
    """Write one line per point; missing bounds are empty. `force` replaces a file."""
    rows = [asdict(point).values() for point in points]
    write_text(path, csv_text([f.name for f in fields(CurvePoint)], rows), force=force)


def as_markdown(points: Sequence[CurvePoint]) -> str:
    """The points as a table."""
    lines = [
        "| links | share | corrupted | accuracy | micro F1 | lost |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for p in points:
        cells = (
            _number(p.accuracy, p.accuracy_low, p.accuracy_high),
            _number(p.micro_f1, p.micro_f1_low, p.micro_f1_high),
            _number(p.lost, p.lost_low, p.lost_high),
        )
        lines.append(
            f"| {p.kind} | {p.share:.0%} | {p.n_spoilt} of {p.n_links} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"


def _number(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.4f}" + ("" if low is None else f" [{low:.4f}, {high:.4f}]")


def draw_curve(points: Sequence[CurvePoint], title: str = "") -> Figure:
    """Draw accuracy and micro F1 over the share of corrupted links, one line per kind."""
    require_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: most draw nothing
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharex=True)
    for axis, score, label in zip(
        axes, ("accuracy", "micro_f1"), ("accuracy", "micro F1"), strict=True
    ):
        for colour, (kind, of_kind) in zip(COLOURS, _by_kind(points), strict=False):
            shares = [point.share for point in of_kind]
            values = [getattr(point, score) for point in of_kind]
            axis.plot(shares, values, "o-", color=colour, label=kind, markersize=4)
            lows = [getattr(point, f"{score}_low") for point in of_kind]
            highs = [getattr(point, f"{score}_high") for point in of_kind]
            if None not in lows:
                axis.fill_between(shares, lows, highs, color=colour, alpha=0.15, linewidth=0)
        axis.set(xlabel="share of corrupted links", ylabel=label)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _by_kind(points: Sequence[CurvePoint]) -> Iterator[tuple[Kind, list[CurvePoint]]]:
    for kind in dict.fromkeys(point.kind for point in points):
        yield kind, [point for point in points if point.kind == kind]
