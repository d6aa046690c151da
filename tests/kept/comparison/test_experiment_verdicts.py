"""What a comparison concludes from its pairs, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from kept.comparison.compare import Compared, ComparedPair, ComparedRow
from kept.comparison.experiment import Experiment, RunRecord
from kept.controls.conditions import Knowledge
from kept.evaluation.statistics import Interval
from kept.methods import BASELINE

BETTER, WORSE, OPEN = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.3)


def pair_of(
    knowledge: Knowledge, limits: tuple[float, float], *, p: float = 0.001, holm: float = 0.002
) -> ComparedPair:
    """A pair against a control of the method, or against the baseline where that is "off"."""
    theirs = BASELINE if knowledge == "off" else "kbert"
    low, high = limits
    interval = Interval((low + high) / 2, low, high, 0.95, 9, "bootstrap")
    return ComparedPair("kbert", "K-BERT", (theirs, knowledge), interval, p, holm)


def compared(*pairs: ComparedPair, seeds: tuple[int, int] = (2, 2), missing: Any = ()) -> Compared:
    """`seeds`: of the baseline and of the method."""
    record = RunRecord("r", "e", "kbert", "true", 0, {}, {}, {})
    rows = [
        ComparedRow(name, knowledge, pairs[0].difference, (0.5,) * n, None, 9, 9, (record,))
        for (name, knowledge), n in zip(((BASELINE, "off"), ("kbert", "true")), seeds, strict=True)
    ]
    experiment = Experiment(name="e", task={"task": "relation"}, methods={"kbert": {}})
    return Compared(experiment, tuple(rows), pairs, tuple(missing), {}, None)


def said(*pairs: ComparedPair, **more: Any) -> str:
    return compared(*pairs, **more).conclusion("kbert")


@pytest.mark.parametrize(("limits", "word"), [(BETTER, "K-BERT"), (WORSE, "none")])
def test_a_pair_is_judged_by_the_corrected_p(limits: tuple[float, float], word: str) -> None:
    pair = pair_of("off", limits, p=0.01, holm=0.049)
    assert pair.in_words == f"{word} is better"
    assert (pair.is_better, pair.is_worse) == (limits == BETTER, limits == WORSE)
    for holm in (0.05, 0.8):
        pair = pair_of("off", limits, p=0.01, holm=holm)
        assert pair.in_words == "no difference is shown"
        assert not pair.is_better
        assert not pair.is_worse


def test_a_pair_needs_its_interval_too() -> None:
    pair = pair_of("off", OPEN)
    assert (pair.is_better, pair.is_worse) == (False, False)
    assert pair.in_words == "no difference is shown"


def test_against_none() -> None:
    shuffled = pair_of("shuffled", BETTER)
    assert said(pair_of("off", OPEN), shuffled) == "no difference to none is shown"
    assert said(pair_of("off", WORSE), shuffled) == "worse than none"
    assert said(pair_of("off", WORSE, p=0.01, holm=0.06)) == "no difference to none is shown"
    assert said(pair_of("off", BETTER, p=0.01, holm=0.06)) == "no difference to none is shown"
    assert said(shuffled) == "not compared with none"
    assert said(pair_of("off", BETTER)) == "better than none; no control was run"


def test_knowledge_helps_only_if_every_control_is_beaten() -> None:
    base, shuffled = pair_of("off", BETTER), pair_of("shuffled", BETTER)
    assert said(base, shuffled) == "knowledge helps"
    not_beaten = "better than none, not shown to be better than random-entity"
    for control in (
        pair_of("random-entity", OPEN),
        pair_of("random-entity", WORSE),
        pair_of("random-entity", BETTER, p=0.04, holm=0.08),
    ):
        assert said(base, shuffled, control) == not_beaten
    both = said(base, pair_of("shuffled", OPEN), pair_of("random-entity", OPEN))
    assert both.endswith("better than shuffled or random-entity")


@pytest.mark.parametrize(
    ("seeds", "verdict"),
    [
        ((2, 2), "knowledge helps"),
        ((1, 2), "knowledge helps, by one seed"),
        ((2, 1), "knowledge helps, by one seed"),
        ((1, 1), "knowledge helps, by one seed"),
    ],
)
def test_one_seed_of_either_arm_is_told(seeds: tuple[int, int], verdict: str) -> None:
    assert said(pair_of("off", BETTER), pair_of("shuffled", BETTER), seeds=seeds) == verdict


@pytest.mark.parametrize(
    ("run", "waits"),
    [
        ("kbert, knowledge shuffled, seed 0", True),
        (f"{BASELINE}, knowledge off, seed 1", True),
        ("ernie, knowledge true, seed 0", False),
    ],
)
def test_runs_that_are_missing(run: str, waits: bool) -> None:
    expected = "better than none so far; not every run is finished" if waits else "knowledge helps"
    assert said(pair_of("off", BETTER), pair_of("shuffled", BETTER), missing=[run]) == expected
