"""Pictures of a comparison: scores as dots with their seeds, gains on slices, curves of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kept.comparison.compared import Compared, ComparedRow, Gain
from kept.comparison.strata import BARE, FACT, KNOWLEDGE, NOTHING
from kept.evaluation.statistics import Interval
from kept.methods import BASELINE
from kept.training.log import COLOURS, read_log
from kg_loaders.disk.writing import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {"true": "-", "off": ":", "shuffled": "--"}
FIRST = "true", "shuffled", "off"
SHADES = {FACT: COLOURS[0], BARE: COLOURS[1], NOTHING: COLOURS[2]}


def draw_dots(compared: Compared, png: Path, *, force: bool = False) -> None:
    """Scores of each method by knowledge, one point per seed; beneath, the gains on slices.

    A dot is the mean of the seeds, its line the interval over seeds and items.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: most draw nothing
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(row.method for row in compared.rows))
    kinds: list[str] = list(
        dict.fromkeys(row.knowledge for row in compared.rows if row.method != BASELINE)
    )
    kinds.sort(key=lambda kind: FIRST.index(kind) if kind in FIRST else len(FIRST))
    gains = [g for g in compared.gains if g.kind == KNOWLEDGE and g.effect is not None]
    figure = Figure(figsize=(max(6, 1.5 * len(methods) + 2.5), 6 if gains else 3.5))
    figure.set_layout_engine("constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1 + bool(gains), squeeze=False)[:, 0]
    for row in compared.rows:
        _dot(axes[0], row, methods.index(row.method), kinds)
    names = [compared.experiment.title(method) for method in methods]
    _finish(axes[0], f"{compared.experiment.metric} on {compared.experiment.asked}", names)
    if gains:
        against = _shown_against(gains)
        for gain in gains:
            if gain.theirs[1] == against or (against == "off" and gain.theirs[0] == BASELINE):
                _gain(axes[1], gain, methods.index(gain.method))
        axes[1].axhline(0, color="0.6", linewidth=0.8)
        theirs = "none" if against == "off" else f"knowledge {against}"
        _finish(axes[1], f"true minus {theirs}", names)
    with whole_file(png, force=force) as part:
        figure.savefig(part, format="png", dpi=120)


def draw_conditions(
    scores: Mapping[str, tuple[Interval, Sequence[float]]],
    png: Path,
    *,
    label: str,
    lines: Mapping[str, float],
    force: bool = False,
) -> None:
    """A score between 0 and 1 under each condition as `draw_dots` draws it; `lines` by name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: most draw nothing
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for place, (interval, seeds) in enumerate(scores.values()):
        _point(axis, place, interval, seeds, COLOURS[place % len(COLOURS)], "")
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


def _shown_against(gains: list[Gain]) -> str:
    return "shuffled" if any(gain.theirs[1] == "shuffled" for gain in gains) else "off"


def _dot(axis: Axes, row: ComparedRow, place: int, kinds: list[str]) -> None:
    is_base = row.method == BASELINE
    shift = 0.0 if is_base else 0.16 * (kinds.index(row.knowledge) - (len(kinds) - 1) / 2)
    colour = "0.4" if is_base else COLOURS[kinds.index(row.knowledge) % len(COLOURS)]
    label = "no knowledge (none)" if is_base else f"knowledge {row.knowledge}"
    _point(axis, place + shift, row.score, row.seeds, colour, label)


def _point(
    axis: Axes, x: float, score: Interval, seeds: Sequence[float], colour: str, label: str
) -> None:
    """A mean with its interval, and beside it every seed."""
    axis.plot([x, x], [score.low, score.high], color=colour, linewidth=1.5)
    axis.plot([x], [score.estimate], "o", color=colour, markersize=7, label=label)
    axis.plot(
        [x + 0.05] * len(seeds), seeds, "o", color=colour, markersize=3, alpha=0.6,
        markeredgewidth=0,
    )  # fmt: skip


def _gain(axis: Axes, gain: Gain, place: int) -> None:
    assert gain.effect is not None
    names = list(SHADES)
    x = place + 0.2 * (names.index(gain.name) - 1)
    interval = gain.effect.interval()
    axis.plot([x, x], [interval.low, interval.high], color=SHADES[gain.name], linewidth=1.5)
    axis.plot(
        [x], [interval.estimate], "s", color=SHADES[gain.name], markersize=6,
        label=f"{gain.name} ({gain.n})",
    )  # fmt: skip


def _finish(axis: Axes, label: str, names: list[str]) -> None:
    axis.set_ylabel(label)
    axis.set_xticks(range(len(names)), names)
    axis.set_xlim(-0.6, len(names) - 0.4)
    axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axis.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axis.legend(once.values(), once.keys(), frameon=False, fontsize=8, loc="upper left",
                bbox_to_anchor=(1, 1))  # fmt: skip


def draw_all_curves(compared: Compared, folder: Path, png: Path, *, force: bool = False) -> None:
    """The task's loss over steps, one line per arm (its first seed); dashes are controls."""
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
