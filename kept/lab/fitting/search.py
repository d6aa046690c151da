"""Choosing method and learning rates on dev, by successive halving within a time.

First every candidate is trained for a few steps, then the better half for twice as many with
further rates. The choice sees dev alone, never a control: what a candidate would score without its
facts, or with others, does not enter. A method with knowledge is taken only if it is better than
the host alone by more than chance (a sign test on the items where just one of them is right).

Axis legend: item (an example).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kept.methods import BASELINE, METHODS, method_key
from kg_loaders.counting import counted

ORDER = ("words", "kbert", "colake", "ebert", "ernie", "knowbert", "ktnet")
"""Methods in the order in which a short budget leaves them out, the last first."""
FACTORS = (1.0, 0.3)
"""Learning rates, as shares of a recipe's."""
ROUNDS, GROWTH = 2, 2
LEAST_STEPS, MOST_STEPS = 40, 80
"""Of the first round: below, hardly any method reads a fact; above, all that ever will do."""
FINAL_STEPS = (80, 300)
SEARCH_SHARE = 0.55
"""Of the time that is for choosing; the rest is for the final trainings."""
SOLVED = 0.98
"""A score on dev with which the choice ends."""
SURE = 0.05


@dataclass(frozen=True)
class Candidate:
    """A method with its recipe, whose rates are multiplied by `factor`."""

    method: str
    factor: float = 1.0

    def __str__(self) -> str:
        name = "none (no graph)" if self.method == BASELINE else self.method
        return name if self.factor == 1 else f"{name}, rates x {self.factor:g}"


@dataclass(frozen=True)
class Trial:
    """What a training of so many steps gave on dev; `error` says why there was none.

    `seconds` are those of the whole trial, `in_steps` those of the training alone. `right` says of
    each item of dev, by its number, whether the answer was right.
    """

    candidate: Candidate
    steps: int
    score: float
    seconds: float
    right: Mapping[int, bool] = field(default_factory=dict)
    error: str = ""
    in_steps: float = 0.0

    def forecast(self, steps: int) -> float:
        """Seconds of as long a training and its evaluation, at `steps` steps."""
        return self.seconds - self.in_steps + self.in_steps / self.steps * steps


Run = Callable[[Candidate, int], Trial]


@dataclass(frozen=True)
class Choice:
    """The chosen candidate, the best of the host alone, and the best with knowledge, if any."""

    chosen: Candidate
    baseline: Candidate
    rival: Candidate | None
    trials: tuple[Trial, ...]
    why: str

    def trial_of(self, candidate: Candidate) -> Trial | None:
        """The longest trial of a candidate that did not fail."""
        trials = [t for t in self.trials if t.candidate == candidate and not t.error]
        return max(trials, key=lambda trial: trial.steps, default=None)

    def solved_in(self) -> int | None:
        """Steps in which the chosen candidate solved dev; None if it did not."""
        steps = [t.steps for t in self.trials if t.candidate == self.chosen and t.score >= SOLVED]
        return min(steps, default=None)


def candidates_of(names: str) -> list[str]:
    """Methods to choose among beside the host alone; raises `ConfigError` for an unknown name.

    >>> candidates_of("K-BERT,words")
    ['words', 'kbert']
    """
    if names.strip() == "all":
        return list(ORDER)
    keys = [method_key(name.strip()) for name in names.split(",") if name.strip()]
    ordered = [name for name in ORDER if name in keys]
    return ordered + [name for name in METHODS if name in keys and name not in (*ORDER, BASELINE)]


def choose(
    methods: Sequence[str],
    run: Run,
    *,
    seconds: float,
    announce: Callable[[str], None] = lambda line: None,
) -> Choice:
    """Return the choice among the host alone and `methods`, in about `seconds` of trainings."""
    search = _Search(run, announce)
    first = search.trial(Candidate(BASELINE), LEAST_STEPS)
    left = max(0.0, seconds - first.seconds)
    n_first = affordable(len(methods), first.seconds, left / ROUNDS)
    if n_first < len(methods):
        dropped = ", ".join(methods[n_first:])
        announce(f"the budget is short for {dropped}; a longer one (--budget) tries them too")
    steps = steps_of(n_first, first, left / ROUNDS)
    for name in methods[:n_first]:
        search.trial(Candidate(name), steps)
        if search.is_solved(BASELINE) or search.is_solved(name):
            break
    survivors = search.better_half()
    if not any(search.is_solved(each.candidate.method) for each in search.scored()):
        longer = steps * GROWTH
        for candidate in [Candidate(name, factor) for factor in FACTORS for name in survivors]:
            if search.seconds + GROWTH * search.seconds_of(candidate.method) > seconds:
                announce("the budget for choosing is used up; a longer one tries more rates")
                break
            search.trial(candidate, longer)
    return search.choice()


def affordable(n_methods: int, seconds: float, left: float) -> int:
    """How many methods can be tried in the time `left`, one at least, each for `seconds`.

    >>> affordable(7, 4.0, 20.0)
    5
    """
    return max(1, min(n_methods, int(left / max(seconds, 1e-6)))) if n_methods else 0


def steps_of(n_methods: int, first: Trial, left: float) -> int:
    """Steps of the first round: as many as the time `left` has for each method."""
    if not n_methods:
        return LEAST_STEPS
    steps = int(left / n_methods / max(first.seconds, 1e-6) * first.steps)
    return max(LEAST_STEPS, min(MOST_STEPS, steps))


def final_steps(
    choice: Choice, per_step: float, seconds: float, *, n_seeds: int
) -> dict[Candidate, int]:
    """Steps of the final trainings of the choice and of the host alone, in about `seconds`.

    A choice that solved dev in n steps is trained for 2 n at most, and for n where time is short;
    the host alone is trained for at least as many.
    """
    least, most = FINAL_STEPS
    finals = dict.fromkeys([choice.chosen, choice.baseline])
    affordable_steps = int(seconds / max(per_step, 1e-6) / (len(finals) * n_seeds))
    solved = choice.solved_in()
    if solved is not None:
        least = min(least, solved)
    steps = max(least, min(most, affordable_steps))
    if solved is None:
        return dict.fromkeys(finals, steps)
    return dict.fromkeys(finals, steps) | {choice.chosen: min(steps, GROWTH * solved)}


class _Search:
    """Trials so far."""

    def __init__(self, run: Run, announce: Callable[[str], None]) -> None:
        self.run, self.announce = run, announce
        self.trials: dict[tuple[Candidate, int], Trial] = {}

    def trial(self, candidate: Candidate, steps: int) -> Trial:
        if (candidate, steps) not in self.trials:
            trial = self.trials[candidate, steps] = self.run(candidate, steps)
            outcome = trial.error or f"{trial.score:.3f} on dev"
            self.announce(
                f"{candidate}: {outcome} ({counted(steps, 'steps')}, {trial.seconds:.0f} s)"
            )
        return self.trials[candidate, steps]

    @property
    def seconds(self) -> float:
        """What all trials took."""
        return sum(trial.seconds for trial in self.trials.values())

    def seconds_of(self, method: str) -> float:
        """What the first trial of a method took."""
        return next(t.seconds for t in self.trials.values() if t.candidate.method == method)

    def scored(self) -> list[Trial]:
        return [trial for trial in self.trials.values() if not trial.error]

    def best(self, of: Callable[[str], bool]) -> Trial | None:
        """The best trial of the methods `of`; of equals the one that a short budget keeps."""
        trials = [trial for trial in self.scored() if of(trial.candidate.method)]
        return max(
            trials,
            key=lambda t: (t.score, -_rank(t.candidate.method), t.candidate.factor),
            default=None,
        )

    def is_solved(self, name: str) -> bool:
        best = self.best(lambda each: each == name)
        return best is not None and best.score >= SOLVED

    def better_half(self) -> list[str]:
        """The host alone, and the better half of the methods."""
        best = {t.candidate.method: t for t in self.scored() if t.candidate.method != BASELINE}
        ranked = sorted(best, key=lambda name: (-best[name].score, _rank(name)))
        return [BASELINE, *ranked[: math.ceil(len(ranked) / 2)][:3]]

    def choice(self) -> Choice:
        base = self.best(lambda name: name == BASELINE)
        rival = self.best(lambda name: name != BASELINE)
        baseline = Candidate(BASELINE) if base is None else base.candidate
        trials = tuple(self.trials.values())
        if rival is None:
            return Choice(baseline, baseline, None, trials, "no method can read this graph")
        if base is None:
            return Choice(
                rival.candidate,
                baseline,
                rival.candidate,
                trials,
                "training without the graph failed",
            )
        chance = sign_test(rival.right, base.right)
        scores = f"{rival.score:.3f} with {rival.candidate}, {base.score:.3f} without the graph"
        if rival.score > base.score and chance < SURE:
            why = f"on dev {scores} (p = {chance:.2g})"
            return Choice(rival.candidate, baseline, rival.candidate, trials, why)
        why = f"on dev {scores}: no more than chance (p = {chance:.2g})"
        return Choice(baseline, baseline, rival.candidate, trials, why)


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def sign_test(ours: Mapping[int, bool], theirs: Mapping[int, bool]) -> float:
    """Return the chance of as many more right answers of ours, were both equally good.

    One-sided, on the items where just one of them is right.

    >>> sign_test({0: True, 1: True, 2: True}, {0: False, 1: False, 2: True})
    0.25
    """
    both = [(ours[i], theirs[i]) for i in ours if i in theirs]
    wins = sum(a and not b for a, b in both)
    n = wins + sum(b and not a for a, b in both)
    n_ways = sum(math.comb(n, k) for k in range(wins, n + 1))
    return float(n_ways / 2**n)


def as_fields(trial: Trial) -> dict[str, Any]:
    """A trial as JSON values."""
    fields = dataclasses.asdict(trial)
    return fields | {"right": {str(item): right for item, right in trial.right.items()}}


def trial_of(fields: Mapping[str, Any]) -> Trial:
    """The trial that `as_fields` wrote."""
    right = {int(item): bool(value) for item, value in fields["right"].items()}
    return Trial(**{**fields, "candidate": Candidate(**fields["candidate"]), "right": right})
