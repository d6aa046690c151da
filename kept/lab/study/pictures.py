"""Pictures of a comparison: dots on a page, and files of scores under conditions and of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kept.evaluation.statistics import Interval
from kept.lab.report.dots import Dot, dots
from kept.lab.study.comparison_tables import is_copy
from kept.lab.study.slices import ENTITY_ALONE, FACT, KNOWLEDGE, NOTHING
from kept.lab.study.verdicts import Compared, ComparedRow, Gain
from kept.methods import BASELINE
from kept.plotting import require_plotting
from kept.training.log import COLOURS, read_log
from kg_loaders.disk.writing import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {"true": "-", "off": ":", "shuffled": "--"}
KINDS = "true", "shuffled", "off"
STRATA = FACT, ENTITY_ALONE, NOTHING
HOW_TO_READ = (
    "A large mark is the mean over seeds, the line through it its 95 % interval, each small dot "
    "one seed; the dashed line is none."
)


def picture_of(compared: Compared) -> tuple[str, ...]:
    """Return the scores as dots and, where slices were scored, the gains on them, as HTML."""
    plan = compared.experiment
    base = [row.score.estimate for row in compared.rows if row.method == BASELINE]
    above = dots(
        _score_dots(compared),
        f"{plan.metric} on {plan.asked}. {HOW_TO_READ}",
        line=base[0] if base else None,
    )
    gains = [g for g in compared.gains if g.kind == KNOWLEDGE and g.effect is not None]
    if not gains:
        return (above,)
    against = "shuffled" if any(gain.theirs[1] == "shuffled" for gain in gains) else "off"
    theirs = "none" if against == "off" else f"knowledge {against}"
    drawn_gains = [
        gain
        for gain in gains
        if gain.theirs[1] == against or (against == "off" and gain.theirs[0] == BASELINE)
    ]
    beneath = dots(
        [_gain_dot(compared, gain) for gain in drawn_gains],
        f"Gain of true knowledge over {theirs}, by what the graph says of an item. A fact can help "
        "only where there is one: a gain without a fact is a placebo.",
        line=0.0,
        signed=True,
    )
    return above, beneath


def _score_dots(compared: Compared) -> list[Dot]:
    """None first; the rows of one method together, true knowledge before its controls."""
    rows = [row for row in compared.rows if not is_copy(row)]
    methods = list(dict.fromkeys(row.method for row in rows))
    kinds = [*KINDS, *(row.knowledge for row in rows)]
    rows.sort(
        key=lambda r: (r.method != BASELINE, methods.index(r.method), kinds.index(r.knowledge))
    )
    return [_score_dot(compared, row) for row in rows]


def _score_dot(compared: Compared, row: ComparedRow) -> Dot:
    is_base = row.method == BASELINE
    return Dot(
        compared.experiment.title(row.method),
        "no knowledge" if is_base else row.knowledge,
        row.score,
        points=row.seeds,
        mark=KINDS.index(row.knowledge) if row.knowledge in KINDS else len(KINDS),
        remark="" if is_base else compared.conclusion(row.method),
    )


def _gain_dot(compared: Compared, gain: Gain) -> Dot:
    assert gain.effect is not None  # for the type: the others were left out
    return Dot(
        compared.experiment.title(gain.method),
        gain.name,
        gain.effect.interval(),
        mark=STRATA.index(gain.name) if gain.name in STRATA else len(STRATA),
        note=f"{gain.n:,} items",
    )


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
