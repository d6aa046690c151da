"""The choice on dev: what is tried, in which time, and when knowledge is taken."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kept.errors import ConfigError
from kept.lab.fitting.search import (
    LEAST_STEPS,
    MOST_STEPS,
    Candidate,
    Choice,
    Trial,
    as_fields,
    candidates_of,
    choose,
    final_steps,
    sign_test,
    trial_of,
)

N = 40


def runner(n_right: Mapping[str, int], seconds: float = 1.0, log: list[Candidate] | None = None):
    """Trials in which each method is right on the first so many of N items."""

    def run(candidate: Candidate, steps: int) -> Trial:
        if log is not None:
            log.append(candidate)
        if candidate.method not in n_right:
            return Trial(candidate, steps, 0.0, seconds, error="reads nothing")
        n = n_right[candidate.method]
        right = {i: i < n for i in range(N)}
        return Trial(candidate, steps, n / N, seconds, right)

    return run


def test_knowledge_is_taken_where_it_is_better_than_chance() -> None:
    choice = choose(["words", "kbert"], runner({"none": 10, "words": 30, "kbert": 20}), seconds=99)
    assert choice.chosen == Candidate("words")
    assert choice.baseline == Candidate("none")


@pytest.mark.parametrize("scores", [{"none": 30, "words": 31}, {"none": 30, "words": 30}])
def test_a_difference_that_may_be_chance_leaves_the_host_alone(scores: dict[str, int]) -> None:
    choice = choose(["words"], runner(scores), seconds=99)
    assert choice.chosen == Candidate("none")
    assert choice.rival is not None
    assert "no more than chance" in choice.why


def test_methods_that_fail_are_left_out() -> None:
    choice = choose(["words", "kbert"], runner({"none": 10}), seconds=99)
    assert choice.chosen == choice.baseline == Candidate("none")
    assert choice.rival is None


def test_the_better_half_is_tried_with_more_rates_and_a_solved_task_with_none() -> None:
    log: list[Candidate] = []
    scores = {"none": 10, "words": 30, "kbert": 20, "colake": 15}
    choose(["words", "kbert", "colake"], runner(scores, log=log), seconds=99)
    assert Candidate("words", 0.3) in log
    assert Candidate("colake", 0.3) not in log
    log.clear()
    choose(["words", "kbert"], runner({"none": 10, "words": N}, log=log), seconds=99)
    assert log == [Candidate("none"), Candidate("words")]


def test_a_short_budget_tries_the_first_methods_and_says_which_it_left_out() -> None:
    log: list[Candidate] = []
    lines: list[str] = []
    choose(
        ["words", "kbert", "colake"], runner({"none": 10, "words": 20}, 5.0, log), seconds=16,
        announce=lines.append,
    )  # fmt: skip
    assert {c.method for c in log} == {"none", "words"}
    assert any("kbert, colake" in line for line in lines)


def test_further_rates_are_tried_only_within_the_time() -> None:
    log: list[Candidate] = []
    choose(["words"], runner({"none": 10, "words": 20}, 5.0, log), seconds=11)
    assert log == [Candidate("none"), Candidate("words")]


@pytest.mark.parametrize("seconds", [0.001, 1.0, 1000.0])
def test_steps_are_within_bounds_whatever_the_time(seconds: float) -> None:
    steps: list[int] = []
    run = runner({"none": 10, "words": 12})

    def counted(candidate: Candidate, n: int) -> Trial:
        steps.append(n)
        return run(candidate, n)

    choice = choose(["words"], counted, seconds=seconds)
    assert min(steps) >= LEAST_STEPS
    assert max(steps) <= 2 * MOST_STEPS
    final = final_steps(choice, 0.1, seconds, n_seeds=1)
    assert all(80 <= n <= 300 for n in final.values())


@pytest.mark.parametrize(("seconds", "of_words", "of_none"), [(0.0, 40, 40), (1e6, 80, 300)])
def test_a_choice_that_solved_dev_is_not_trained_for_longer_than_it_needs(
    seconds: float, of_words: int, of_none: int
) -> None:
    words, none = Candidate("words"), Candidate("none")
    trials = (Trial(none, 40, 0.2, 4.0), Trial(words, 40, 1.0, 4.0))
    choice = Choice(words, none, words, trials, "")
    assert final_steps(choice, 0.1, seconds, n_seeds=1) == {words: of_words, none: of_none}
    alone = Choice(none, none, words, (Trial(none, 40, 1.0, 4.0), trials[1]), "")
    assert final_steps(alone, 0.1, seconds, n_seeds=1) == {none: of_words}


def test_the_sign_test_counts_items_where_one_is_right() -> None:
    ours, theirs = dict.fromkeys(range(10), True), {i: i < 5 for i in range(10)}
    assert sign_test(ours, theirs) == pytest.approx(0.5**5)
    assert sign_test(ours, ours) == 1.0
    assert sign_test(theirs, ours) == 1.0


def test_names_are_known_and_ordered() -> None:
    assert candidates_of("ERNIE, words") == ["words", "ernie"]
    with pytest.raises(ConfigError, match="did you mean words"):
        candidates_of("wordz")
    assert candidates_of("none") == []


def test_a_trial_survives_its_file() -> None:
    trial = Trial(Candidate("words", 0.3), 40, 0.5, 1.5, {0: True, 3: False})
    assert trial_of(as_fields(trial)) == trial


def test_a_candidate_names_its_rates_where_they_are_others() -> None:
    assert str(Candidate("kbert")) == "kbert"
    assert str(Candidate("kbert", 0.3)) == "kbert, rates x 0.3"


def test_the_course_of_a_choice_line_by_line() -> None:
    """Of equals, the method that a short budget leaves out first is not tried for longer."""
    lines: list[str] = []
    scores = {"none": 10, "words": 30, "colake": 15, "kbert": 20, "ernie": 20}
    methods = ["words", "kbert", "colake", "ernie"]
    choice = choose(methods, runner(scores), seconds=99, announce=lines.append)
    none, words, kbert, colake, ernie = (
        f"{name}: {score} on dev"
        for name, score in (
            ("none (no graph)", "0.250"), ("words", "0.750"), ("kbert", "0.500"),
            ("colake", "0.375"), ("ernie", "0.500"),
        )
    )  # fmt: skip
    longer = [f"{each} (160 steps, 1 s)" for each in (none, words, kbert)]
    assert lines == [
        f"{none} (40 steps, 1 s)",
        *(f"{each} (80 steps, 1 s)" for each in (words, kbert, colake, ernie)),
        *longer,
        *(line.replace(":", ", rates x 0.3:") for line in longer),
    ]
    assert choice.why == ("on dev 0.750 with words, 0.250 without the graph (p = 9.5e-07)"), (
        "one-sided: 20 items that only words has right"
    )
    steps = [choice.trial_of(Candidate(name)) for name in ("words", "colake", "knowbert")]
    assert [trial and trial.steps for trial in steps] == [160, 80, None]
    assert choice.solved_in() is None


def test_a_method_is_taken_where_training_without_the_graph_failed() -> None:
    choice = choose(["words", "kbert"], runner({"words": 10}), seconds=99)
    words, none = Candidate("words"), Candidate("none")
    assert (choice.chosen, choice.baseline, choice.rival) == (words, none, words)
    assert choice.why == "training without the graph failed"
    assert choice.trial_of(none) is None, "it failed"


def test_a_forecast_scales_the_steps_alone() -> None:
    trial = Trial(Candidate("words"), 40, 0.5, 10.0, in_steps=8.0)
    assert [trial.forecast(steps) for steps in (0, 40, 100)] == [2.0, 10.0, 22.0]
