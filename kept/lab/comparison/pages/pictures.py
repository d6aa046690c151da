"""Pictures of a comparison as files: scores under conditions with their seeds, curves of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kept.evaluation.statistics import Interval
from kept.lab.comparison.compared import Compared
from kept.plotting import require_plotting
from kept.training.log import COLOURS, read_log
from kg_loaders.disk.writing import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {"true": "-", "off": ":", "shuffled": "--"}


def draw_conditions(
    scores: Mapping[str, tuple[Interval, Sequence[float]]],
    png: Path,
    *,
    label: str,
    lines: Mapping[str, float],
    force: bool = False,
) -> None:
    """A score between 0 and 1 under each condition with every seed; `lines` by name."""
    require_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: most draw nothing
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for y, (interval, seeds) in enumerate(scores.values()):
        _point(axis, y, interval, seeds, COLOURS[y % len(COLOURS)], "")
    for name, height in lines.items():
        axis.axhline(height, color="0.6", linewidth=0.8, linestyle="--")
        axis.annotate(name, (1.01, height), xycoords=("axes fraction", "data"), va="center")
    axis.set_ylim(-0.03, 1.06)
    axis.set_ylabel(label)
    axis.set_xticks(range(len(scores)), list(scores))
    axis.set_xlim(-0.6, len(scores) - 0.4)
    axis.spines[["top", "right"]].set_visible(False)
    with whole_file(png, force=force) as part:
        figure.savefig(part, format="png", dpi=120)


def _point(
    axis: Axes, x: float, score: Interval, seeds: Sequence[float], colour: str, label: str
) -> None:
    """A mean with its interval, and beside it every seed."""
    axis.plot([x, x], [score.low, score.high], color=colour, linewidth=1.5)
    axis.plot([x], [score.estimate], "o", color=colour, markersize=7, label=label)
    axis.plot(
        [x + 0.05] * len(seeds),
        seeds,
        "o",
        color=colour,
        markersize=3,
        alpha=0.6,
        markeredgewidth=0,
    )


def draw_all_curves(compared: Compared, folder: Path, png: Path, *, force: bool = False) -> None:
    """The task's loss over steps, one line per arm (its first seed); dashes are controls."""
    require_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: most draw nothing
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    methods = list(dict.fromkeys(row.method for row in compared.rows))
    for row in compared.rows:
        steps = [r for r in read_log(folder / row.record.run / "log.jsonl") if r["kind"] == "step"]
        axis.plot(
            [r["step"] for r in steps],
            [r["total_loss"] for r in steps],
            STYLES.get(row.knowledge, "-."),
            color=COLOURS[methods.index(row.method) % len(COLOURS)],
            label=f"{compared.experiment.title(row.method)}, {row.knowledge}",
            linewidth=1.2,
        )
    axis.set(xlabel="step", ylabel="loss of the task")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=7, ncols=2)
    with whole_file(png, force=force) as part:
        figure.savefig(part, format="png", dpi=120)
