"""The reading controls as a page, JSON values and a picture of learning curves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from kept.lab.reading.arms import arm
from kept.lab.reading.cell import Outcome
from kept.lab.reading.conditions import CONDITIONS, TRUE
from kept.lab.reading.measures import Verdict
from kept.lab.reading.study import CEILING, verdict
from kept.lab.reading.verdicts import in_budget
from kept.lab.study.tables import NOTHING, Table, number
from kept.plotting import require_plotting

READING = (
    "arm", "task", *CONDITIONS, "steps until .9", "probe before", "probe after", "moved before",
    "moved after", "verdict",
)  # fmt: skip
PATHS = ("arm", "task", "gradients before", "gradients after", "stopped at", "of steps", "seconds")
EDITS = ("arm", "task", "facts edited", "follow the new fact", "keep the old", "right before")
WAYS = ("arm", "method", "differs from the published method")
PROBE = (
    "Probe: accuracy of a linear probe of the state that the head reads, before and after "
    "training. Moved: how far that state moves when the facts are hidden, as a share of its length."
)


def reading_cells(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row per arm and task: accuracy under every condition, what it cost, the verdict."""
    rows = []
    for (task, name), mine in _by_arm(outcomes):
        by_condition = [[o for o in mine if o.condition == c] for c in CONDITIONS]
        true = [o for o in mine if o.condition == TRUE]
        result = verdict(outcomes, name, task)
        rows.append(
            [
                name,
                task,
                *(_accuracies(part) for part in by_condition),
                _steps(true),
                *(_mean(o.probe[i] for o in true if o.probe is not None) for i in (0, 1)),
                *(_mean(o.moved[i] for o in true if o.moved is not None) for i in (0, 1)),
                NOTHING if result is None else in_budget(_stored(name, task, true, result)),
            ]
        )
    return rows


def path_cells(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row per arm and task under true facts: gradient norms by part, steps, time."""
    rows = []
    for (task, name), mine in _by_arm(outcomes):
        true = [o for o in mine if o.condition == TRUE]
        if true:
            rows.append(
                [
                    name,
                    task,
                    *(_norms(true, i) for i in (0, 1)),
                    ", ".join(str(o.stopped_at) for o in true),
                    str(true[0].steps),
                    f"{fmean(o.seconds for o in true):.0f}",
                ]
            )
    return rows


def edit_cells(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row per arm and task: answers after facts were changed, without training."""
    rows = []
    for (task, name), mine in _by_arm(outcomes):
        known = [(o, o.edited) for o in mine if o.edited is not None]
        if known:
            rows.append(
                [
                    name,
                    task,
                    str(int(sum(e["n"] for _, e in known))),
                    *(_mean(e[field] for _, e in known) for field in ("new", "old")),
                    _mean(o.accuracy for o, _ in known),
                ]
            )
    return rows


def way_cells(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A row per arm: what it changes."""
    names = dict.fromkeys(o.arm for o in outcomes)
    return [[name, arm(name).method, arm(name).changes or "as published"] for name in names]


def conditions_line(outcomes: Sequence[Outcome]) -> str:
    """The conditions of the tables' numbers, in one paragraph."""
    first = outcomes[0]
    budget, size = first.settings["budget"], first.settings["size"]
    layers = "all layers" if budget["n_layers"] is None else f"first {budget['n_layers']} layers"
    words = "" if budget["train_words"] else ", its word table frozen"
    steps = sorted({o.steps for o in outcomes if o.condition == TRUE})
    seeds = sorted({o.seed for o in outcomes})
    heads = "each in one text" if size["form"] == "fresh" else f"of {size['n_returning']} heads"
    return (
        f"Host {budget['host']} ({layers}{words}), batches of {budget['batch_size']}, rate "
        f"{budget['learning_rate']:g} unless an arm has its own, at most "
        f"{' or '.join(map(str, steps))} steps. {size['n_train']:,} training texts, {heads}, "
        f"{first.n} test heads that no training text names, {size['n_distractors']} further "
        f"fact(s) per head. Seeds {', '.join(map(str, seeds))}. Classes are equally frequent, "
        f"chance is {first.chance:.3f}, the ceiling {CEILING:.0f}. A "
        "run ends early once two evaluations in turn are at .99; other conditions than true get "
        "the steps that true took. Cells hold accuracies on the test heads, one per seed."
    )


def to_markdown(outcomes: Sequence[Outcome], command: str) -> str:
    """The page; `command` is the one that produced it."""
    parts = [
        "# Reading controls",
        f"`{command}`",
        conditions_line(outcomes),
        Table(READING, reading_cells(outcomes)).markdown(),
        PROBE,
        "## Facts changed after training",
        "Training heads get another class in the graph, and are evaluated again without training.",
        Table(EDITS, edit_cells(outcomes)).markdown(),
        "## Gradients and costs",
        Table(PATHS, path_cells(outcomes)).markdown(),
        "## Arms",
        Table(WAYS, way_cells(outcomes)).markdown(),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def to_values(outcomes: Sequence[Outcome], command: str) -> dict[str, Any]:
    """The study as JSON values: every outcome but for repeated settings, and the verdicts."""
    return {
        "command": command,
        "conditions": conditions_line(outcomes),
        "verdicts": verdict_values(outcomes),
        "outcomes": [
            {f: getattr(o, f) for f in o.__struct_fields__ if f != "settings"} for o in outcomes
        ],
    }


def verdict_values(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The verdicts for comparisons, one mapping per arm and task."""
    values = []
    for (task, name), mine in _by_arm(outcomes):
        result, true = verdict(outcomes, name, task), [o for o in mine if o.condition == TRUE]
        if result is None:
            continue
        values.append(_stored(name, task, true, result))
    return values


def _stored(name: str, task: str, true: Sequence[Outcome], conclusion: Verdict) -> dict[str, Any]:
    """The verdict on an arm in a task, with the budget under which it was found."""
    until = [o.until_good for o in true]
    budget = true[0].settings["budget"]
    return {
        "arm": name,
        "task": task,
        "method": arm(name).method,
        "is_published": arm(name).is_published,
        "host": budget["host"],
        "n_layers": budget["n_layers"],
        "seeds": len(true),
        "until_good": None if None in until else max(u or 0 for u in until),
        **dataclasses.asdict(conclusion),
        "verdict": conclusion.in_words,
    }


def draw_curves(outcomes: Sequence[Outcome], png: Path) -> None:
    """Accuracy over steps under true facts, a picture per task, a line per arm and seed."""
    require_plotting()
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(o.task for o in outcomes))
    figure = Figure(figsize=(7, 3.2 * len(tasks)), layout="constrained")
    for axis, task in zip(figure.subplots(len(tasks), squeeze=False)[:, 0], tasks, strict=True):
        lines = [o for o in outcomes if o.task == task and o.condition == TRUE]
        names = list(dict.fromkeys(o.arm for o in lines))
        for o in lines:
            label = o.arm if o.seed == min(x.seed for x in lines if x.arm == o.arm) else None
            axis.plot(*zip(*o.curve, strict=True), label=label, color=f"C{names.index(o.arm) % 10}",
                      linestyle="-" if arm(o.arm).is_published else "--")  # fmt: skip
        if lines:
            axis.axhline(lines[0].chance, color="0.7", linewidth=0.8)
        axis.set(title=task, xlabel="step", ylabel="accuracy", ylim=(0, 1.02))
        axis.legend(fontsize=7, ncols=2)
    figure.savefig(png, format="png", dpi=120, metadata={"Software": None})


def _by_arm(outcomes: Sequence[Outcome]) -> list[tuple[tuple[str, str], list[Outcome]]]:
    outcomes_of: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        outcomes_of.setdefault((outcome.task, outcome.arm), []).append(outcome)
    return list(outcomes_of.items())


def _accuracies(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"{o.accuracy:.3f}" for o in outcomes) or NOTHING


def _mean(values: Iterable[float]) -> str:
    numbers = list(values)
    return number(fmean(numbers)) if numbers else NOTHING


def _steps(true: Sequence[Outcome]) -> str:
    return (
        ", ".join("never" if o.until_good is None else str(o.until_good) for o in true) or NOTHING
    )


def _norms(true: Sequence[Outcome], when: int) -> str:
    measured = [o.gradients[when] for o in true if o.gradients is not None]
    known = set.intersection(*({*norms} for norms in measured)) if measured else set()
    parts = [name for name in ("host", "knowledge", "injected", "head") if name in known]
    means = ((name, fmean(norms[name] for norms in measured)) for name in parts)
    return ", ".join(f"{name} {value:.2g}" for name, value in means) or NOTHING
