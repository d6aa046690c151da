"""The answers of all arms as a table: P@1 under each condition, with an interval over relations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.shown_facts.study import CONDITIONS, RESULT, Asked, origin_of
from kept.evaluation.statistics import bootstrap_interval
from kept.lab.study.origins import read_stored
from kept.lab.study.tables import Table, with_interval
from kept.randomness import generator
from kg_loaders.disk.writing import write_json, write_text

HEAD = ("arm", "ranked among", "n", *CONDITIONS)
RANKINGS = {"words": "LAMA's words", "objects": "objects of the relation"}


def write_tables(asked: Asked, out: Path) -> str:
    """Write results.json and results.md from what is stored in `out`; returns the page."""
    stored = {name: _stored(asked, name, out) for name in asked.study.arms}
    folds = {name: found for name, found in stored.items() if found}
    missing = [
        f"{name} (fold {k})"
        for name in asked.study.arms
        for k in range(asked.study.folds)
        if k not in [values["fold"] for values in stored[name]]
    ]
    rows = [
        [name, title, *_cells(asked, found, name, ranking)]
        for name, found in folds.items()
        for ranking, title in RANKINGS.items()
    ]
    shares = {
        name: [values["share of texts with a stated mention"] for values in found]
        for name, found in folds.items()
    }
    page = "\n\n".join(
        [
            "# LAMA's questions with the fact shown",
            _conditions(asked),
            Table(HEAD, rows).markdown().rstrip(),
            "Share of training texts that ask for a stated mention: "
            + "; ".join(f"{n} {', '.join(f'{s:.2f}' for s in v)}" for n, v in shares.items()),
            *([f"Not run: {', '.join(missing)}."] if missing else []),
        ]
    )
    write_json(out / "results.json", {"arms": folds}, force=True)
    write_text(out / "results.md", page + "\n", force=True)
    return page


def _conditions(asked: Asked) -> str:
    training = asked.study.reading
    steps = {name: arm.steps for name, arm in asked.study.arms.items() if arm.steps is not None}
    own = "".join(f", {n} for {name}" for name, n in steps.items())
    return (
        f"P@1 with 95 % intervals (bootstrap over relations); {asked.world}. "
        f"{training.steps} steps of {training.batch_size} sentences{own}, seed "
        f"{asked.study.seed}. The fact in question is *alone* in the graph, or *shown* with the "
        "entity's other facts. It is there with another object of its relation, which is then "
        "the right answer (*edited*), or *hidden*. *untrained*: it is shown to the same model "
        "without the reading stage. Questions whose fact was not among those shown count in all "
        "columns."
    )


def _stored(asked: Asked, name: str, out: Path) -> list[dict[str, Any]]:
    origin = origin_of(asked, name)
    every = [read_stored(out / f"{name}-{k}" / RESULT, origin) for k in range(asked.study.folds)]
    return [values for values in every if values is not None]


def _cells(asked: Asked, found: Sequence[dict[str, Any]], name: str, ranking: str) -> list[str]:
    n = [a for values in found for a in values["shown"] if a[ranking] is not None]
    return [
        str(len(n)),
        *(_precision(asked, found, condition, name, ranking) for condition in CONDITIONS),
    ]


def _precision(
    asked: Asked, found: Sequence[dict[str, Any]], condition: str, name: str, ranking: str
) -> str:
    answers = [a for values in found for a in values[condition] if a[ranking] is not None]
    if not answers:
        return "—"
    hits = [float(a[ranking] < 2) for a in answers]
    if len({a["relation"] for a in answers}) < 2:
        return f"{fmean(hits):.3f}"
    draws = generator(asked.study.seed, "interval", name, ranking, condition)
    interval = bootstrap_interval(
        hits,
        clusters=[a["relation"] for a in answers],
        generator=draws,
    )
    return with_interval(interval)
