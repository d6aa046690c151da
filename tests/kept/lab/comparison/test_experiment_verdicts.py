"""What a comparison concludes from its pairs, case by case."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kept.evaluation.crossed import Effect
from kept.inputs.controls.conditions import Knowledge
from kept.lab.comparison.experiment import Experiment
from kept.lab.reading.measures import DOES_NOT_READ
from kept.lab.study.comparison_tables import conditions
from kept.lab.study.store import RunRecord
from kept.lab.study.verdicts import (
    Compared,
    ComparedPair,
    ComparedRow,
    Gain,
    PrimaryResult,
    headline,
    limits,
)
from kept.methods import BASELINE

BETTER, WORSE, OPEN = 0.2, -0.2, 0.05


def pair_of(
    knowledge: Knowledge, estimate: float, *, holm: float = 0.002, n_seeds: int = 3
) -> ComparedPair:
    """A pair against a control of the method, or against the baseline where that is "off".

    Its interval is .1 to either side, or .042 of items alone where there is one seed.
    """
    theirs = BASELINE if knowledge == "off" else "kbert"
    of_seeds = None if n_seeds == 1 else 0.0234**2
    effect = Effect(estimate, of_seeds, 0.0002 if n_seeds == 1 else 0.0, n_seeds, 500)
    against = BASELINE if theirs == BASELINE else f"knowledge {knowledge}"
    return ComparedPair("kbert", "K-BERT", (theirs, knowledge), against, effect, holm)


def compared(*pairs: ComparedPair, missing: Any = ()) -> Compared:
    record = RunRecord("r", "e", "kbert", "true", 0, {"dev": {}}, {}, {})
    rows = [
        ComparedRow("none", "off", pairs[0].effect.interval(), (0.5,) * 3, 9, 9, (record,)),
        ComparedRow("kbert", "true", pairs[0].effect.interval(), (0.5,) * 3, 9, 9, (record,)),
    ]
    experiment = Experiment(name="e", task={"task": "relation"}, methods={"kbert": {}})
    return Compared(experiment, tuple(rows), pairs, tuple(missing), {}, None)


def verdict_of(*pairs: ComparedPair, **more: Any) -> str:
    return compared(*pairs, **more).conclusion("kbert")


@pytest.mark.parametrize(("estimate", "word"), [(BETTER, "K-BERT"), (WORSE, "none")])
def test_a_pair_is_judged_by_the_corrected_p(estimate: float, word: str) -> None:
    pair = pair_of("off", estimate, holm=0.049)
    assert pair.in_words.startswith(f"{word} is better; effects below 0.1")
    assert (pair.is_better, pair.is_worse) == (estimate == BETTER, estimate == WORSE)
    for holm in (0.05, 0.8):
        pair = pair_of("off", estimate, holm=holm)
        assert pair.in_words.startswith("not shown; more than ±")
        assert not pair.is_better
        assert not pair.is_worse


def test_a_pair_needs_its_interval_too() -> None:
    pair = pair_of("off", OPEN)
    assert (pair.is_better, pair.is_worse) == (False, False)


def test_a_verdict_says_what_could_have_been_seen() -> None:
    """Of seeds alone: 2.92 and 5.65 standard errors at two degrees of freedom (tables of t)."""
    pair = pair_of("off", OPEN)
    error = 0.0234
    assert pair.in_words == (
        f"not shown; more than ±{0.05 + 2.92 * error:.3f} is ruled out, effects below "
        f"{5.6535 * error:.3f} are not visible with 3 seeds"
    )


def test_against_none() -> None:
    shuffled = pair_of("shuffled", BETTER)
    beginning = "not shown to differ from none; more than ±"
    assert verdict_of(pair_of("off", OPEN), shuffled).startswith(beginning)
    assert verdict_of(pair_of("off", WORSE), shuffled).startswith("worse than none; more than ±")
    assert verdict_of(pair_of("off", WORSE, holm=0.06)).startswith(beginning)
    assert verdict_of(pair_of("off", BETTER, holm=0.06)).startswith(beginning)
    assert verdict_of(shuffled) == "not compared with none"
    assert verdict_of(pair_of("off", BETTER)).startswith(
        "better than none; no control was run; effects"
    )


def test_knowledge_helps_only_if_every_control_is_beaten() -> None:
    base, shuffled = pair_of("off", BETTER), pair_of("shuffled", BETTER)
    assert verdict_of(base, shuffled).startswith("knowledge helps; effects below 0.1")
    not_beaten = "better than none, not shown to be better than random-entity; more than ±"
    for control in (
        pair_of("random-entity", OPEN),
        pair_of("random-entity", WORSE),
        pair_of("random-entity", BETTER, holm=0.08),
    ):
        assert verdict_of(base, shuffled, control).startswith(not_beaten)
    both = verdict_of(base, pair_of("shuffled", OPEN), pair_of("random-entity", OPEN))
    assert "better than shuffled or random-entity; " in both


def test_one_seed_shows_nothing_of_others() -> None:
    pair = pair_of("off", BETTER, n_seeds=1)
    assert pair.effect.interval().low > 0
    assert not pair.is_better
    assert pair.in_words == "not shown; one seed: other seeds may give another result"
    assert verdict_of(pair, pair_of("shuffled", BETTER, n_seeds=1)) == (
        "no verdict from one seed: other seeds may give another result"
    )
    assert limits(pair.effect).startswith("one seed")


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
    verdict = verdict_of(pair_of("off", BETTER), pair_of("shuffled", BETTER), missing=[run])
    assert verdict.partition("; effects")[0] == expected


def test_no_page_says_that_effects_below_nothing_were_not_visible() -> None:
    """Pairs whose answers are equal have no smallest visible effect; one number is said once."""
    equal = pair_of("off", 0.0)
    equal = dataclasses.replace(
        equal, effect=Effect(0.0, of_seeds=0.0, of_items=0.0, n_seeds=3, n_items=40)
    )
    assert "visible" not in headline(compared(equal))
    one, other = pair_of("shuffled", OPEN), pair_of("random-entity", OPEN)
    line = headline(compared(equal, one, other))
    assert line.endswith(f" Effects below {one.effect.visible():.3f} were not visible.")
    assert " to " not in line.rpartition(" Effects ")[2]


def test_a_method_that_reads_no_fact_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control of 400 steps says so of a row that has as many, and of no longer one."""
    row = {"arm": "kbert-published", "host": "minilm", "steps": 400, "until_good": None,
           "n_layers": 3, "seeds": 1}  # fmt: skip
    stored = ({**row, "verdict": DOES_NOT_READ},)
    monkeypatch.setattr("kept.lab.reading.verdicts.stored", lambda: stored)

    def concluded(estimate: float, steps: int) -> str:
        comparison = compared(pair_of("off", estimate))
        record = RunRecord("r", "e", "kbert", "true", 0, {}, {"steps": steps}, {})
        rows = tuple(dataclasses.replace(each, records=(record,)) for each in comparison.rows)
        experiment = comparison.experiment.model_copy(update={"as_published": True})
        comparison = dataclasses.replace(comparison, rows=rows, experiment=experiment)
        return comparison.conclusion("kbert").partition(";")[0]

    budget = "in 400 steps (first 3 layers of minilm, 1 seed)"
    assert concluded(OPEN, 400) == f"{DOES_NOT_READ} {budget}"
    assert concluded(OPEN, 401) == "not shown to differ from none"
    assert concluded(WORSE, 400) == "worse than none"
    assert concluded(BETTER, 400) == "better than none"


def test_a_row_below_a_baseline_says_so_with_a_cause_and_a_command() -> None:
    """Below the majority, or shown to be worse than the host alone; controls are not meant."""
    low = dataclasses.replace(compared(pair_of("off", OPEN)), baseline=0.9)
    lines = low.shortfalls
    assert len(lines) == 2
    assert lines[1].startswith("K-BERT: 0.050 is no better than always the most frequent answer")
    assert "task.training more steps" in lines[0]
    assert "the same kept compare" in lines[0]
    assert dataclasses.replace(low, baseline=0.01).shortfalls == []
    worse = dataclasses.replace(compared(pair_of("off", WORSE)), baseline=-1.0)
    assert [line.partition(":")[0] for line in worse.shortfalls] == ["K-BERT"]
    assert "worse than the host alone" in worse.shortfalls[0]
    published = worse.experiment.model_copy(update={"as_published": True})
    assert "as_published: false" in dataclasses.replace(worse, experiment=published).shortfalls[0]
    limited = worse.experiment.model_copy(update={"name": "e-limit-5"})
    assert "--limit" in dataclasses.replace(worse, experiment=limited).shortfalls[0]


def test_a_page_says_where_runs_were_computed_in_different_precisions() -> None:
    comparison = compared(pair_of("off", OPEN))

    def page(*precisions: str | None) -> str:
        records = [
            RunRecord("r", "e", "kbert", "true", 0, {"dev": {}}, {"precision": p} if p else {}, {})
            for p in precisions
        ]
        rows = [dataclasses.replace(row, records=tuple(records)) for row in comparison.rows[:1]]
        return conditions(dataclasses.replace(comparison, rows=tuple(rows)))

    assert "2 in bf16, 1 in fp32" in page("bf16", "fp32", "bf16")
    for alike in (("bf16", "bf16"), ("fp32", None), (None,)):
        assert "precisions" not in page(*alike)


def primary(
    estimate: float, *, holm: float = 0.002, margin: float | None = None, n_seeds: int = 3
) -> PrimaryResult:
    """A contrast whose 95 % interval is .1 to either side, whose 90 % interval is .068."""
    contrast = pair_of("off", estimate, holm=holm, n_seeds=n_seeds).effect
    gained = dataclasses.replace(contrast, estimate=0.125)
    on = Gain("kbert", (BASELINE, "off"), "what the graph says", "a fact", 40, gained)
    against = dataclasses.replace(on, name="no fact", n=1, effect=None)
    return PrimaryResult("kbert", "K-BERT", on, against, contrast, margin, True, holm)


@pytest.mark.parametrize(
    ("result", "sign", "word"),
    [
        (primary(BETTER), 1, "the gain is where facts are"),
        (primary(WORSE), -1, "the gain is larger where no facts are"),
        (primary(BETTER, holm=0.05), 0, "no more gain where facts are is shown"),
        (primary(OPEN), 0, "no more gain where facts are is shown"),
        (primary(BETTER, n_seeds=1, margin=9.0), 0, "no more gain where facts are is shown"),
        (primary(OPEN, margin=0.11), 0, "no more gain where facts are is shown"),
        (primary(OPEN, margin=0.125), 0, "the same gain to within ±0.125"),
    ],
)
def test_a_primary_contrast_has_one_of_four_verdicts(
    result: PrimaryResult, sign: int, word: str
) -> None:
    """A gain on a slice of one item has no estimate, and is not shown."""
    assert (result.verdict_sign, result.word) == (sign, word)
    assert result.in_words == f"K-BERT: {word}: +0.125 on a fact; {limits(result.effect)}"


def test_a_headline_of_primary_contrasts_names_every_method_by_its_verdict() -> None:
    late = dataclasses.replace(primary(WORSE), title="ERNIE", before=False)
    whole = compared(pair_of("off", OPEN))

    def sentence(*results: PrimaryResult) -> str:
        text = headline(dataclasses.replace(whole, primary=results))
        return text.replace(
            "the gain of true knowledge over a control, on samples with a fact", "…"
        )

    assert sentence(primary(OPEN), late, primary(BETTER)) == (
        "Primary contrast (named after runs were made): … against those without, is larger with a "
        "fact for K-BERT (+0.200); larger without for ERNIE (-0.200); not shown to differ for "
        "K-BERT (+0.050). Effects below 0.132 were not visible."
    )
    assert sentence(primary(BETTER, n_seeds=1)) == (
        "Primary contrast: … against those without, is not shown to differ for K-BERT (+0.200)."
    )


def test_a_row_that_reads_the_graph_in_few_texts_is_told_to_add_names() -> None:
    low = dataclasses.replace(compared(pair_of("off", OPEN)), baseline=0.9)

    def cause(share: float) -> str:
        scores = {"dev": {"coverage": {"shares": {"read": share}}}}
        rows = [
            dataclasses.replace(row, records=(dataclasses.replace(row.record, scores=scores),))
            for row in low.rows
        ]
        lines = dataclasses.replace(low, rows=tuple(rows)).shortfalls
        assert "something of the graph" not in lines[0], "the host alone reads no graph"
        return lines[1].rpartition("(0.900): ")[2]

    assert cause(0.25) == (
        "something of the graph is shown in 25% of the texts; add names and facts "
        "(kept kg build --aliases FILE), then the same kept compare"
    )
    assert "task.training more steps" in cause(0.5)
