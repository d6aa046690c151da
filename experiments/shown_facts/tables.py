"""The answers of all arms as a table: P@1 under each condition, with an interval over relations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from experiments.shown_facts.settings import ShownFactsStudy
from kept.evaluation.statistics import bootstrap_interval
from kept.lab.study.cells import page_of
from kept.lab.study.tables import NOTHING, Table, with_interval
from kept.randomness import generator

CONDITIONS = ("alone", "shown", "edited", "hidden", "untrained")
"""The asked fact is in the graph and no other fact is; with the entity's other facts; there with
another object of its relation; left out; there, for a model without the reading stage."""
RANKINGS = {"words": "LAMA's words", "objects": "objects of the relation"}
Folds = Mapping[int, Mapping[str, Any]]


def page(study: ShownFactsStudy, cells: Mapping[str, Folds], world: str) -> str:
    """Return the page of the arms that are there."""
    rows = [
        [name, title, str(len(_ranks(folds, "shown", ranking))),
         *(_precision(study, folds, condition, name, ranking) for condition in CONDITIONS)]
        for name, folds in cells.items() for ranking, title in RANKINGS.items()
    ]  # fmt: skip
    shares = [
        f"{name} "
        + ", ".join(
            f"{of_fold['share of texts with a stated mention']:.2f}" for of_fold in folds.values()
        )
        for name, folds in cells.items()
    ]
    missing = [f"{name} (fold {fold})" for name in study.arms for fold in range(study.folds)
               if fold not in cells.get(name, {})]  # fmt: skip
    return page_of(
        "LAMA's questions with the fact shown", "", _conditions(study, world),
        Table(("arm", "ranked among", "n", *CONDITIONS), rows).markdown(),
        "Share of training texts that ask for a stated mention: " + "; ".join(shares),
        f"Not run: {', '.join(missing)}." if missing else "",
    )  # fmt: skip


def _conditions(study: ShownFactsStudy, world: str) -> str:
    training = study.reading
    steps = {name: arm.steps for name, arm in study.arms.items() if arm.steps is not None}
    more = "".join(f", {n} for {name}" for name, n in steps.items())
    return (
        f"{training.steps} steps of {training.batch_size} sentences{more}, seed {study.seed}. The "
        "fact in question is *alone* in the graph, or *shown* with the entity's other facts. It is "
        "there with another object of its relation, which is then the right answer (*edited*), or "
        "*hidden*. *untrained*: it is shown to the same model without the reading stage. Questions "
        "whose fact was not among those shown count in all columns."
    )


def _ranks(folds: Folds, condition: str, ranking: str) -> list[tuple[str, float]]:
    """Return the relation and the rank of each answer that is a candidate."""
    answers: Iterable[Any] = (answer for of_fold in folds.values() for answer in of_fold[condition])
    return [(a["relation"], a[ranking]) for a in answers if a[ranking] is not None]


def _precision(
    study: ShownFactsStudy, folds: Folds, condition: str, name: str, ranking: str
) -> str:
    ranks = _ranks(folds, condition, ranking)
    hits, relations = [float(rank < 2) for _, rank in ranks], [relation for relation, _ in ranks]
    if not ranks:
        return NOTHING
    if len({*relations}) < 2:
        return f"{fmean(hits):.3f}"
    draws = generator(study.seed, "interval", name, ranking, condition)
    return with_interval(bootstrap_interval(hits, clusters=relations, generator=draws))
