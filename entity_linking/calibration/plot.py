"""The reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from entity_linking.calibration.reliability import Reliability

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


def figure_of(shown: Mapping[str, Reliability], title: str) -> Figure:
    """A column each: accuracy by confidence above, numbers of answers beneath, equal axes."""
    figure = Figure(figsize=(4.6 * len(shown), 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        2, len(shown), squeeze=False, sharex=True, sharey="row", height_ratios=[3, 1]
    )
    for column, (name, found) in enumerate(shown.items()):
        _draw(axes[0, column], found, name)
        _count(axes[1, column], found)
    axes[0, 0].set_ylabel("share right")
    axes[1, 0].set_ylabel("answers")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    if title:
        figure.suptitle(title)
    return figure


def _draw(axis: Any, found: Reliability, name: str) -> None:
    lows = [each.low for each in found.bins]
    widths = [each.high - each.low for each in found.bins]
    sure = [each.confidence for each in found.bins]
    right = [each.accuracy for each in found.bins]
    axis.bar(lows, right, widths, align="edge", label="share right",
             color=BLUE, alpha=0.35, edgecolor=BLUE)  # fmt: skip
    axis.vlines(sure, sure, right, color=ORANGE, linewidth=2, label="gap to mean confidence")
    axis.plot(sure, right, "o", color=BLUE, markersize=4, clip_on=False, zorder=3)
    axis.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1, label="as promised")
    axis.set(xlim=(0, 1), ylim=(0, 1))
    errors = f"ECE {found.expected_error:.3f}, MCE {found.maximum_error:.3f}"
    axis.set_title(f"{name}: {errors}\n{found.n_bins} bins of equal {found.equal}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)


def _count(axis: Any, found: Reliability) -> None:
    lows = [each.low for each in found.bins]
    widths = [each.high - each.low for each in found.bins]
    numbers = [each.n for each in found.bins]
    axis.bar(lows, numbers, widths, align="edge", color=GREY, alpha=0.6, edgecolor=GREY)
    axis.set(xlabel="confidence")
    axis.spines[["top", "right"]].set_visible(False)
