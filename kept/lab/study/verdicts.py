"""The results of a comparison: rows, pairs, gains, the primary contrast, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kept.evaluation.crossed import Effect
from kept.evaluation.statistics import Interval
from kept.graphs.coverage import caution
from kept.inputs.controls.conditions import Knowledge
from kept.lab.study.design import Plan
from kept.lab.study.store import RunRecord
from kept.methods import BASELINE
from kg_loaders.counting import counted

LARGEST, SMALLEST = 1.0, 0.0005
"""No two scores are further apart, and no page shows less: effects beyond are not worth naming."""
LOW = 0.5
"""Share of texts with something of the graph below which it can decide little."""


@dataclass(frozen=True)
class ComparedRow:
    """A method with one kind of knowledge: the mean of its seeds' scores.

    `score`: over seeds and groups of items, both drawn. `n` items, each evaluated once per seed;
    the others of `n_asked` were cut off with their texts.
    """

    method: str
    knowledge: Knowledge
    score: Interval
    seeds: tuple[float, ...]
    n: int
    n_asked: int
    records: tuple[RunRecord, ...]

    @property
    def record(self) -> RunRecord:
        """Of the first seed."""
        return self.records[0]


def verdict_sign(effect: Effect, p: float) -> int:
    """Return 1 for a gain that is shown at 5 %, -1 for a loss, else 0; always 0 of one seed.

    `p`: that of the effect, corrected where several were tested.
    """
    interval = effect.interval()
    if p >= 0.05 or effect.of_seeds is None or interval.low <= 0 <= interval.high:
        return 0
    return 1 if effect.estimate > 0 else -1


def limits(effect: Effect) -> str:
    """Return the smallest visible effect and the effects that are ruled out, in words.

    >>> limits(Effect(0.01, of_seeds=0.0001, of_items=0.0001, n_seeds=3, n_items=500))
    'more than ±0.044 is ruled out, effects below 0.060 are not visible with 3 seeds'
    >>> limits(Effect(0.0, of_seeds=0.0, of_items=0.0, n_seeds=3, n_items=40))
    'equal in each of 40 groups of items: less than 0.075 is not ruled out'
    """
    if effect.of_seeds is None:
        return "one seed: other seeds may give another result"
    if not (effect.estimate or effect.standard_error):
        return (
            f"equal in each of {effect.n_items} groups of items: less than "
            f"{min(3 / effect.n_items, 1):.3f} is not ruled out"
        )
    ruled_out = f"more than ±{effect.ruled_out:.3f} is ruled out, "
    return (
        f"{ruled_out if effect.ruled_out < LARGEST else ''}{invisible(effect.visible())} with "
        f"{counted(effect.n_seeds, 'seeds')}"
    )


def invisible(smallest: float) -> str:
    """What cannot be seen, in words; `smallest` is the smallest visible effect.

    >>> invisible(1.33), invisible(0.0001)
    ('no effect is visible', 'every effect is visible')
    """
    if smallest < SMALLEST:
        return "every effect is visible"
    if smallest >= LARGEST:
        return "no effect is visible"
    return f"effects below {smallest:.3f} are not visible"


def other_side(plan: Plan, ours: tuple[str, Knowledge], theirs: tuple[str, Knowledge]) -> str:
    """The other side of a pair, as tables call it."""
    if theirs[0] == BASELINE:
        return BASELINE
    rival = "" if theirs[0] == ours[0] else f"{plan.title(theirs[0])}, "
    return f"{rival}knowledge {theirs[1]}"


@dataclass(frozen=True)
class ComparedPair:
    """A method with true knowledge minus `theirs`, which tables call `against`.

    `holm` is p corrected over the whole table.
    """

    method: str
    title: str
    theirs: tuple[str, Knowledge]
    against: str
    effect: Effect
    holm: float

    @property
    def is_better(self) -> bool:
        """By the interval and the corrected p, at 5 %, over seeds and items."""
        return verdict_sign(self.effect, self.holm) > 0

    @property
    def is_worse(self) -> bool:
        """The other way round."""
        return verdict_sign(self.effect, self.holm) < 0

    @property
    def in_words(self) -> str:
        """The verdict on this pair, with the smallest effect that could have been seen."""
        if self.is_better or self.is_worse:
            smallest = invisible(self.effect.visible())
            return f"{self.title if self.is_better else self.against} is better; {smallest}"
        return f"not shown; {limits(self.effect)}"


@dataclass(frozen=True)
class Gain:
    """A method's gain over `theirs` on a slice of the items: `kind` of slice, its `name`, n items.

    `effect` is None where a slice has fewer than two independent items.
    """

    method: str
    theirs: tuple[str, Knowledge]
    kind: str
    name: str
    n: int
    effect: Effect | None


@dataclass(frozen=True)
class PrimaryResult:
    """The contrast that the experiment's file names, of one method.

    `on` and `against`: the gain on either side; `effect`: their difference. `before`: whether every
    run was recorded when the file already named this contrast. `holm`: p corrected over methods.
    """

    method: str
    title: str
    on: Gain
    against: Gain
    effect: Effect
    margin: float | None
    before: bool
    holm: float

    @property
    def in_words(self) -> str:
        """The verdict, with the gains that it compares and what could have been seen."""
        effects = ", ".join(
            f"{gain.effect.estimate:+.3f} on {gain.name}"
            for gain in (self.on, self.against)
            if gain.effect is not None
        )
        return f"{self.title}: {self.word}: {effects}; {limits(self.effect)}"

    @property
    def word(self) -> str:
        """The verdict alone."""
        if self.is_equivalent:
            return f"the same gain to within ±{self.margin:g}"
        return {
            1: "the gain is where facts are",
            -1: "the gain is larger where no facts are",
            0: "no more gain where facts are is shown",
        }[self.verdict_sign]

    @property
    def verdict_sign(self) -> int:
        """1 where the gain is shown to be larger with a fact, -1 where smaller, else 0."""
        return verdict_sign(self.effect, self.holm)

    @property
    def is_equivalent(self) -> bool:
        """Whether the declared margin is ruled out (two one-sided tests at 5 %)."""
        if self.margin is None or self.effect.of_seeds is None:
            return False
        return self.effect.p_equivalent(self.margin) < 0.05


@dataclass(frozen=True)
class Compared:
    """Everything that tables and reports read.

    `missing`: requested runs that are not finished. `left_out`: runs that would be no control, or
    get nothing from the graph, with why. `baseline`: the majority's score. `n_regrouped`: runs that
    were stored with other groups. `gains`: on slices of the items. `primary`: what the file names,
    by method.
    """

    experiment: Plan
    rows: tuple[ComparedRow, ...]
    pairs: tuple[ComparedPair, ...]
    missing: tuple[str, ...]
    left_out: Mapping[str, str]
    baseline: float | None
    n_regrouped: int = 0
    gains: tuple[Gain, ...] = ()
    primary: tuple[PrimaryResult, ...] = ()
    rates: tuple[tuple[str, ...], ...] = ()

    def coverage(self, name: str, knowledge: str = "true") -> dict[str, Any] | None:
        """`Coverage.as_json` of a row's evaluation split; None where it is not recorded."""
        for row in self.rows:
            if (row.method, row.knowledge) == (name, knowledge):
                scores: Mapping[str, Any] = row.record.scores[self.experiment.asked]
                return scores.get("coverage")
        return None

    @property
    def cautions(self) -> list[str]:
        """One line for each row with true knowledge that reads the graph in few texts."""
        names = [row.method for row in self.rows if row.knowledge == "true"]
        lines = (caution(self.coverage(n), self.experiment.title(n)) for n in names)
        return [line for line in lines if line is not None]

    @property
    def shortfalls(self) -> list[str]:
        """One line for each row that is no better than always the most frequent answer, or is shown
        to be worse than the host alone: with the likeliest cause and what to do."""
        lines = []
        for row in self.rows:
            name, score = self.experiment.title(row.method), row.score.estimate
            if row.knowledge not in ("true", "off") or (row.knowledge == "off") != (
                row.method == BASELINE
            ):
                continue
            if self.baseline is not None and score <= self.baseline:
                lines.append(
                    f"{name}: {score:.3f} is no better than always the most frequent answer "
                    f"({self.baseline:.3f}): {self._cause(row)}"
                )
            elif any(p.is_worse for p in self.pairs if self._is_against_none(p, row.method)):
                lines.append(f"{name}: worse than the host alone: {self._cause(row)}")
        return lines

    @staticmethod
    def _is_against_none(pair: ComparedPair, name: str) -> bool:
        return (pair.method, pair.theirs) == (name, (BASELINE, "off"))

    def _cause(self, row: ComparedRow) -> str:
        """The likeliest cause of a low score, with what to do."""
        plan, again = self.experiment, "then the same kept compare"
        share = (self.coverage(row.method) or {"shares": {"read": None}})["shares"]["read"]
        if row.method != BASELINE and share is not None and share < LOW:
            return (
                f"something of the graph is shown in {share:.0%} of the texts; add names and facts "
                f"(kept kg build --aliases FILE), {again}"
            )
        if "-limit-" in plan.name:
            return "few examples were read; give a higher --limit, or leave it out"
        return f"{plan.remedy(row.method)}, {again}"

    def does_not_read(self, name: str) -> str:
        """That a method reads no fact, and in what budget, by the reading controls; else ""."""
        true = (row for row in self.rows if (row.method, row.knowledge) == (name, "true"))
        words = (self.experiment.does_not_read(name, row.record) for row in true)
        return next(filter(None, words), "")

    def conclusion(self, name: str) -> str:
        """Return the conclusion from a method's pairs: is it better, and do true facts matter?"""
        method_pairs = [pair for pair in self.pairs if pair.method == name]
        pairs = {pair.theirs: pair for pair in method_pairs if pair.theirs[0] in (name, BASELINE)}
        base = pairs.pop((BASELINE, "off"), None)
        if base is None:
            return "not compared with none"
        if not base.is_better:
            word = "worse than none" if base.is_worse else "not shown to differ from none"
            if not base.is_worse and (unread := self.does_not_read(name)):
                word = unread
            elif base.effect.of_seeds is None:
                return f"no verdict from {limits(base.effect)}"
            return f"{word}; {limits(base.effect)}"
        equal = {kind: pair for (_, kind), pair in pairs.items() if not pair.is_better}
        if equal:
            least = max(equal.values(), key=lambda pair: pair.effect.ruled_out)
            names = " or ".join(equal)
            return f"better than none, not shown to be better than {names}; {limits(least.effect)}"
        if any(run.startswith((f"{name}, ", f"{BASELINE}, ")) for run in self.missing):
            return "better than none so far; not every run is finished"
        visible_effect = max(pair.effect.visible() for pair in (base, *pairs.values()))
        limit = f"{invisible(visible_effect)} with {counted(base.effect.n_seeds, 'seeds')}"
        return f"{'knowledge helps' if pairs else 'better than none; no control was run'}; {limit}"


def headline(compared: Compared) -> str:
    """The conclusion of the whole comparison, in a sentence or two: the first thing on a page."""
    if compared.primary:
        return _primary_sentence(compared)
    groups: dict[str, list[str]] = {}
    for row in compared.rows:
        if row.knowledge == "true":
            word = compared.conclusion(row.method).partition(";")[0]
            groups.setdefault(word, []).append(compared.experiment.title(row.method))
    effects = "; ".join(f"{', '.join(names)}: {word}" for word, names in groups.items())
    visible_effects = _smallest_visible(pair.effect for pair in compared.pairs)
    if not visible_effects:
        return f"{effects}." if effects else "No method with true knowledge is finished."
    return f"{effects}.{_invisible_in_words(visible_effects)}"


def _smallest_visible(effects: Iterable[Effect]) -> list[float]:
    """The smallest visible effect of each pair that differs at all, over several seeds.

    Of pairs whose answers are equal it would be zero, which says nothing.
    """
    several = [effect.visible() for effect in effects if effect.of_seeds is not None]
    return [smallest for smallest in several if smallest >= SMALLEST]


def _invisible_in_words(smallest: Sequence[float]) -> str:
    """A sentence on the smallest visible effects of several pairs."""
    least, most = min(smallest), max(smallest)
    if least >= LARGEST:
        return " No effect was visible: give more seeds."
    first, last = f"{least:.3f}", f"{most:.3f}" if most < LARGEST else "any"
    span = first if last == first else f"{first} to {last}"
    return f" Effects below {span} were not visible."


def _primary_sentence(compared: Compared) -> str:
    named = compared.experiment.primary
    late = "" if all(r.before for r in compared.primary) else " (named after runs were made)"
    words = {1: "larger with a fact", -1: "larger without", 0: "not shown to differ"}
    verdicts = [
        f"{word} for " + ", ".join(f"{r.title} ({r.effect.estimate:+.3f})" for r in results)
        for value, word in words.items()
        if (results := [r for r in compared.primary if r.verdict_sign == value])
    ]
    visible_effects = _smallest_visible(r.effect for r in compared.primary)
    limit = _invisible_in_words(visible_effects) if visible_effects else ""
    return (
        f"Primary contrast{late}: the gain of true knowledge over "
        f"{named.against if named else 'a control'}, on samples with a fact against those "
        f"without, is {'; '.join(verdicts)}.{limit}"
    )
