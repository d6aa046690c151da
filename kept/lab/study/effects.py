"""From finished runs to rows, pairs, gains on slices and the primary contrast.

Axis legend: item (an example of the evaluation split), cluster (items of one group), seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import minus, paired
from kept.evaluation.statistics import holm
from kept.lab.study.design import OFF, Arm, Plan, PrimaryContrast
from kept.lab.study.judge import Floats, Judge
from kept.lab.study.run import RunOutcome, Study, stored_outcome
from kept.lab.study.slices import FACT, KNOWLEDGE, NO_FACT, Mask, no_fact
from kept.lab.study.store import RunRecord
from kept.lab.study.verdicts import (
    Compared,
    ComparedPair,
    ComparedRow,
    Gain,
    PrimaryResult,
    other_side,
)
from kept.methods import BASELINE

Records = Mapping[int, RunRecord]
"""By seed."""


def finished(study: Study[Any]) -> Compared:
    """Return the finished runs of a study, compared; EvaluationError where there are none."""
    return summarise(study, stored_outcome(study))


def summarise(
    study: Study[Any], outcome: RunOutcome, left_out: Mapping[str, str] | None = None
) -> Compared:
    """Return rows and pairs of finished runs; a pair has the seeds that both sides have.

    Without a finished run there are no rows. `left_out`: the reasons, where they are not those of
    the outcome. Raises EvaluationError where two runs answered different items.
    """
    plan, done = study.plan, outcome.done
    reasons = outcome.reasons if left_out is None else dict(left_out)
    missing = tuple(outcome.missing)
    if not done:
        return Compared(
            experiment=plan, rows=(), pairs=(), missing=missing, left_out=reasons, baseline=None
        )
    judge, arms = Judge(study), dict[Arm, dict[int, RunRecord]]()
    judge.require_same_items(done.values())
    for key, record in done.items():
        arms.setdefault((key.method, key.knowledge), {})[key.seed] = record
    sheets = _Sheets(judge, arms)
    return Compared(
        experiment=plan,
        rows=tuple(_row(sheets, arm) for arm in arms),
        pairs=tuple(_pairs(sheets, plan)),
        missing=missing,
        left_out=reasons,
        baseline=next(map(judge.majority, done.values()), None),
        n_regrouped=judge.n_regrouped(done.values()),
        gains=tuple(_gains(sheets)),
        primary=tuple(_corrected(list(_primary(sheets, plan)))),
    )


@dataclass(eq=False)
class _Sheets:
    """The counts of all arms, read once for each slice."""

    judge: Judge
    arms: Mapping[Arm, Records]
    _read: dict[tuple[Arm, int, bytes], Floats] = field(default_factory=dict)

    @cached_property
    def slices(self) -> dict[str, dict[str, Mask]]:
        """Slices of the evaluation split, the same for every run."""
        return self.judge.slices(next(iter(next(iter(self.arms.values())).values())))

    def counts(self, arm: Arm, seeds: Sequence[int], mask: Mask | None = None) -> list[Floats]:
        sheets = []
        for seed in seeds:
            key = arm, seed, b"" if mask is None else mask.tobytes()
            if key not in self._read:
                self._read[key] = self.judge.counts(self.arms[arm][seed], mask)
            sheets.append(self._read[key])
        return sheets

    def both(self, ours: Arm, theirs: Arm) -> list[int]:
        """Seeds that both arms have."""
        return [seed for seed in self.arms[ours] if seed in self.arms.get(theirs, {})]

    def pairs(self) -> Iterator[tuple[Arm, Arm, list[int]]]:
        """True knowledge beside none, the method's own controls that are no copies, and rivals."""
        for name in dict.fromkeys(method for method, kind in self.arms if kind == "true"):
            other_arms = [arm for arm in self.arms if arm[0] == name and arm[1] != "true"]
            other_arms = [arm for arm in other_arms if not _is_copy(self.arms[arm])]
            for theirs in [(BASELINE, OFF), *other_arms, *self.judge.study.trial.rivals(name)]:
                if seeds := self.both((name, "true"), theirs):
                    yield (name, "true"), theirs, seeds


def _row(sheets: _Sheets, arm: Arm) -> ComparedRow:
    records, judge = sheets.arms[arm], sheets.judge
    counts = sheets.counts(arm, list(records))
    scores = [record.scores[judge.study.plan.asked] for record in records.values()]
    return ComparedRow(
        method=arm[0],
        knowledge=arm[1],
        score=effect(np.stack(counts), judge.value).interval(),
        seeds=tuple(judge.score(each) for each in counts),
        n=int(scores[0]["n_scored"]),
        n_asked=int(scores[0]["n_asked"]),
        records=tuple(records.values()),
    )


def _pairs(sheets: _Sheets, experiment: Plan) -> list[ComparedPair]:
    pairs = [
        (ours, theirs, _difference(sheets, ours, theirs, seeds))
        for ours, theirs, seeds in sheets.pairs()
    ]
    corrected = holm([each.p for *_, each in pairs])
    return [
        ComparedPair(
            ours[0],
            experiment.title(ours[0]),
            theirs,
            other_side(experiment, ours, theirs),
            each,
            p,
        )
        for (ours, theirs, each), p in zip(pairs, corrected, strict=True)
    ]


def _difference(
    sheets: _Sheets, ours: Arm, theirs: Arm, seeds: Sequence[int], mask: Mask | None = None
) -> Effect:
    left, right = (sheets.counts(arm, seeds, mask) for arm in (ours, theirs))
    return difference(left, right, sheets.judge.value)


def _gains(sheets: _Sheets) -> Iterator[Gain]:
    """Of every pair on every slice."""
    for kind, masks in sheets.slices.items():
        for ours, theirs, _ in sheets.pairs():
            for name, mask in masks.items():
                yield _gain(sheets, ours, theirs, kind, name, mask)


def _gain(sheets: _Sheets, ours: Arm, theirs: Arm, kind: str, name: str, mask: Mask) -> Gain:
    seeds = sheets.both(ours, theirs)
    n, n_groups = sheets.judge.answered(sheets.arms[ours][seeds[0]], mask)
    interval = _difference(sheets, ours, theirs, seeds, mask) if n_groups > 1 else None
    return Gain(ours[0], theirs, kind, name, n, interval)


def _primary(sheets: _Sheets, experiment: Plan) -> Iterator[PrimaryResult]:
    """The gain on items with a fact minus that on the others, of every method that has both."""
    plan = experiment.primary
    masks = sheets.slices[KNOWLEDGE]
    if plan is None or FACT not in masks or len(masks) < 2:
        return
    for name in dict.fromkeys(method for method, kind in sheets.arms if kind == "true"):
        ours: Arm = (name, "true")
        theirs = _theirs(plan, name)
        seeds = sheets.both(ours, theirs)
        if not seeds or _is_copy(sheets.arms[theirs]):
            continue
        sides = []
        for mask in (masks[FACT], no_fact(masks)):
            left, right = (np.stack(sheets.counts(arm, seeds, mask)) for arm in (ours, theirs))
            sides.append(paired(left, right, sheets.judge.value))
        (with_fact, value), (without, _) = sides
        whole = np.concatenate([with_fact, without], axis=-1)
        records = [sheets.arms[arm][seed] for arm in (ours, theirs) for seed in seeds]
        yield PrimaryResult(
            method=name,
            title=experiment.title(name),
            on=_gain(sheets, ours, theirs, KNOWLEDGE, FACT, masks[FACT]),
            against=_gain(sheets, ours, theirs, KNOWLEDGE, NO_FACT, no_fact(masks)),
            effect=effect(whole, minus(value, with_fact.shape[-1])),
            margin=plan.margin,
            holm=1.0,
            before=all(record.primary == plan.model_dump(mode="json") for record in records),
        )


def _corrected(results: list[PrimaryResult]) -> Iterator[PrimaryResult]:
    """The contrasts with Holm's correction of p over methods."""
    ps = holm([result.effect.p for result in results])
    for result, p in zip(results, ps, strict=True):
        yield dataclasses.replace(result, holm=p)


def _theirs(plan: PrimaryContrast, name: str) -> Arm:
    return (BASELINE, OFF) if plan.against == "none" else (name, plan.against)


def _is_copy(records: Records) -> bool:
    return all("same_as" in record.costs for record in records.values())
