"""From stored outcomes to the page: scores with intervals, slices, and where the gain is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from experiments.command import write_results
from experiments.popular_questions.questions import POPULARITY
from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import accuracy_counts, f1_value
from kept.lab.questions.answering import ARTICLE, CHOSEN, EXACT, REFUSED, is_right
from kept.lab.study.cells import page_of
from kept.lab.study.tables import Table, with_interval

ROWS = {
    "none": "no graph",
    "kept": "kept: its links, its facts",
    "gold-fact": "right link, right fact",
    "gold-link": "right link, kept's facts",
    "bm25": "passages by BM25",
    "minilm": "passages by MiniLM",
    "ask": "`kept ask` without a decoder",
}
WRONG = ("random-entity", "shuffled")
CONDITIONS = {
    "none": ("off",),
    "kept": ("true", "edited", *WRONG, "absent"),
    "gold-fact": ("true",),
    "gold-link": ("true",),
    "bm25": ("true",),
    "minilm": ("true",),
    "ask": ("true", "edited", "absent"),
}
PARTS = re.compile(r", and |,| and | or ")
Arm = tuple[str, str]
T = TypeVar("T")
Values = np.ndarray
Mask = np.ndarray
KEPT, NONE = ("kept", "true"), ("none", "off")
LINK, FACT = ("gold-link", "true"), ("gold-fact", "true")
ARMS = [(row, condition) for row, conditions in CONDITIONS.items() for condition in conditions]


@dataclass(frozen=True)
class Outcome:
    """The answers of a row under a condition to the questions of a seed, and what they count.

    `shows_right`: the fact that is asked for is among those shown; `pieces`: word pieces shown.
    """

    row: str
    condition: str
    seed: int
    written: list[str]
    exact: list[float]
    chosen: list[float]
    refused: list[float]
    f1: list[float]
    shows_right: list[bool]
    pieces: list[int]


@dataclass(frozen=True)
class SeedQuestions:
    """The questions of a seed; `edited` answers; `coincides`: shuffled values that are right."""

    seed: int
    questions: list[str]
    entities: list[str]
    relations: list[str]
    answers: list[list[str]]
    edited: list[list[str]]
    coincides: list[float]
    chance: list[float]
    thirds: list[int]
    degrees: list[int]
    n_facts: list[int]
    linked: list[str]


def refusal_counts() -> dict[str, float]:
    """Return the counts of a question to which nothing is written."""
    return {EXACT: 0.0, CHOSEN: 0.0, REFUSED: 1.0}


def values_in(written: str) -> list[str]:
    """Return the values that the first sentence lists.

    >>> values_in("singer, actor and film director. He was")
    ['singer', 'actor', 'film director']
    """
    sentence = re.split(r"\.\s|\.$|\n|;", written.strip(), maxsplit=1)[0]
    return [part.strip() for part in PARTS.split(sentence) if part.strip()]


def set_f1(values: Iterable[str], right: Sequence[str]) -> float:
    """Return the F1 of a set of values against the right set.

    >>> set_f1(["the Singer", "actor"], ["singer"])
    0.6666666666666666
    """
    arguments, wanted = (
        {ARTICLE.sub("", v.casefold()) for v in elements} for elements in (values, right)
    )
    return 2 * len(arguments & wanted) / max(len(arguments) + len(wanted), 1)


# ---- all seeds together --------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Results:
    """Stored outcomes; the questions of all seeds in `asked` follow one another."""

    of_seeds: list[SeedQuestions]
    outcomes: dict[tuple[str, str, int], Outcome]

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read what is stored."""
        of_seeds = sorted(
            _read(folder.glob("questions-*.json"), SeedQuestions), key=lambda each: each.seed
        )
        paths = (p for p in sorted(folder.glob("*.json")) if not p.name.startswith("questions-"))
        return cls(of_seeds, {(o.row, o.condition, o.seed): o for o in _read(paths, Outcome)})

    def having(self, *arms: Arm) -> Results:
        """Return the results of the seeds that have all these rows and conditions."""
        kept_seeds = [
            a for a in self.of_seeds if all((*arm, a.seed) in self.outcomes for arm in arms)
        ]
        return Results(kept_seeds, self.outcomes)

    def of(self, arm: Arm, measure: str) -> Values:
        """A measure of each question."""
        of_seed = [getattr(self.outcomes[(*arm, a.seed)], measure) for a in self.of_seeds]
        return np.array([value for seed in of_seed for value in seed], np.float64)

    def traits(self, name: str) -> np.ndarray:
        """A trait of each question."""
        return np.array([value for a in self.of_seeds for value in getattr(a, name)])

    def score(self, arm: Arm, measure: str, mask: Mask | None = None) -> Effect:
        """The mean over questions, resampled by subject or by relation, whichever is wider."""
        return self._wider(
            lambda groups, chosen: effect(
                accuracy_counts(self.of(arm, measure)[chosen], groups)[None], f1_value
            ),
            mask,
        )

    def gain(self, ours: Arm, theirs: Arm, measure: str, mask: Mask | None = None) -> Effect:
        """The difference of two means."""

        def of(groups: list[str], chosen: Mask) -> Effect:
            left, right = (
                accuracy_counts(self.of(arm, measure)[chosen], groups) for arm in (ours, theirs)
            )
            return difference([left], [right], f1_value)

        return self._wider(of, mask)

    def _wider(self, of: Callable[[list[str], Mask], Effect], mask: Mask | None) -> Effect:
        chosen = np.ones(len(self.traits("thirds")), np.bool_) if mask is None else mask
        groups = [self.traits(kind)[chosen].tolist() for kind in ("entities", "relations")]
        effects = [of(keys, chosen) for keys in groups if len({*keys}) > 1]
        return max(effects, key=lambda each: each.standard_error)


def _read(paths: Iterable[Path], form: type[T]) -> list[T]:
    return [msgspec.json.decode(path.read_bytes(), type=form) for path in paths]


# ---- the page ------------------------------------------------------------------------------------
def write_page(folder: Path, answers: Path) -> None:
    """Write `results.md` of what is stored, once a seed has every row."""
    results = Results.read(answers)
    if results.having(*ARMS).of_seeds:
        write_results(folder, page(results))


def page(results: Results) -> str:
    """Return all tables."""
    tables = (_scores, _gains, _slices, _lost, _edits, _wrong, _absent, _by_seed, _relations)
    parts = [_heading(results.having(KEPT, NONE)), *(table(results) for table in tables)]
    return page_of("Questions by popularity of the subject", "", *parts)


def _heading(results: Results) -> str:
    n_all, thirds = len(results.traits("thirds")), results.traits("thirds")
    degrees = results.traits("degrees")
    ranges = "; ".join(
        f"{name}: {(thirds == i).sum()} questions, {degrees[thirds == i].min()} to "
        f"{degrees[thirds == i].max()} triples"
        for i, name in enumerate(POPULARITY)
    )
    n_relations = len({*results.traits("relations").tolist()})
    chance = results.traits("chance").mean()
    return (
        f"{n_all} questions, {len(results.of_seeds)} seeds, {n_relations} relations, each about "
        f"another subject. Popularity is the number of triples that the subject is in, of all "
        f"sources: {ranges}. Chance of *chosen*: {chance:.3f}. Brackets: 95 % intervals, questions "
        "of one subject or of one relation together, whichever is wider.\n"
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Table(columns, rows).markdown()


def _score(score: Effect) -> str:
    interval = score.interval()
    return with_interval(replace(interval, low=max(interval.low, 0), high=min(interval.high, 1)))


def _parts(results: Results) -> list[tuple[str, Mask | None]]:
    """All questions, and each third."""
    thirds = results.traits("thirds")
    return [("all", None), *((name, thirds == i) for i, name in enumerate(POPULARITY))]


def _scores(every: Results) -> str:
    rows = []
    for arm in ARMS:
        results = every.having(arm)
        cells = [_score(results.score(arm, m)) for m in ("exact", "chosen")]
        means = [f"{results.of(arm, m).mean():.3f}" for m in ("f1", "refused")]
        right, pieces = results.of(arm, "shows_right"), results.of(arm, "pieces")
        costs = [f"{x.mean():.{n}f}" if len(x) else "" for x, n in ((right, 3), (pieces, 0))]
        rows.append([ROWS[arm[0]], arm[1], _n(results), *cells, *means, *costs])
    head = ("row", "facts", "seeds, n", "exact", "chosen", "F1 of the set", "refused",
            "shows the fact", "pieces of facts")  # fmt: skip
    return "## Scores\n\n" + _table(head, rows)


def _n(results: Results, mask: Mask | None = None) -> str:
    n = len(results.traits("thirds")) if mask is None else mask.sum()
    return f"{len(results.of_seeds)}, {n}"


def _gains(every: Results) -> str:
    rows = []
    others = {
        NONE: ROWS["none"], ("bm25", "true"): ROWS["bm25"], ("minilm", "true"): ROWS["minilm"],
        ("kept", "random-entity"): "kept, another entity's facts",
        ("kept", "shuffled"): "kept, shuffled facts",
    }  # fmt: skip
    for theirs, title in others.items():
        results = every.having(KEPT, theirs)
        for name, mask in _parts(results):
            gain = results.gain(KEPT, theirs, "exact", mask)
            scores = [f"{results.score(arm, 'exact', mask).estimate:.3f}" for arm in (KEPT, theirs)]
            ends = [with_interval(gain, "+"), f"{gain.visible():.3f}"]
            rows.append([title, name, _n(results, mask), *scores, *ends])
    head = ("kept against", "subjects", "seeds, n", "kept", "the other", "exact, difference",
            "smallest visible effect")  # fmt: skip
    return "## Differences\n\n" + _table(head, rows)


def _slices(every: Results) -> str:
    results = every.having(*((row, conditions[0]) for row, conditions in CONDITIONS.items()))
    facts, linked = results.traits("n_facts"), results.traits("linked")
    slices = {
        **dict(_parts(results)[1:]),
        "2 or 3 facts": facts <= 3, "4 to 12 facts": (facts > 3) & (facts <= 12),
        "more than 12 facts": facts > 12, "link right, no other": linked == "only",
        "link right, others too": linked == "among others", "link wrong or none": linked == "wrong",
    }  # fmt: skip
    rows = []
    for name, mask in slices.items():
        if mask is not None and mask.any():
            cells = [
                f"{results.of((row, conditions[0]), 'exact')[mask].mean():.3f}"
                for row, conditions in CONDITIONS.items()
            ]
            rows.append([name, str(mask.sum()), *cells])
    return "## Exact, by slice\n\n" + _table(("slice", "n", *ROWS.values()), rows)


def _lost(every: Results) -> str:
    rows, arms = [], (NONE, KEPT, LINK, FACT)
    results = every.having(*arms)
    for name, mask in _parts(results):
        none, kept, link, fact = (results.score(arm, "exact", mask).estimate for arm in arms)
        shares = [x / (1 - none) for x in (kept - none, link - kept, fact - link, 1 - fact)]
        rows.append([name, f"{1 - none:.3f}", *(f"{share:.3f}" for share in shares)])
    head = ("subjects", "possible gain", "gained", "lost to links", "lost to the choice of facts",
            "lost to reading")  # fmt: skip
    return (
        "## Where the gain is lost\n\nOf what no graph leaves open, shares: kept's gain, then what "
        "the right link, the right fact and a perfect reader would add.\n\n" + _table(head, rows)
    )


def _edits(every: Results) -> str:
    rows = []
    for row in ("kept", "ask"):
        arm = row, "edited"
        results = every.having((row, "true"), arm)
        before = results.of((row, "true"), "exact") == 1
        old = np.array([
            any(is_right(text, value) for value in values)
            for a in results.of_seeds
            for text, values in zip(
                results.outcomes[(*arm, a.seed)].written, a.answers, strict=True
            )
        ])  # fmt: skip
        for name, mask in (("all", np.ones_like(before)), ("right before the edit", before)):
            if mask.sum() > 1:
                new = [_score(results.score(arm, m, mask)) for m in ("exact", "chosen")]
                cells = [str(mask.sum()), *new, f"{old[mask].mean():.3f}"]
                rows.append([ROWS[row], name, *cells])
    head = ("row", "questions", "n", "the new value is written", "the new value is chosen",
            "the old value is written")  # fmt: skip
    return "## Edited facts\n\nEvery value is another one.\n\n" + _table(head, rows)


def _wrong(every: Results) -> str:
    rows = []
    for condition in WRONG:
        arm = "kept", condition
        results = every.having(arm)
        chance, coincides = results.traits("chance"), results.traits("coincides")
        by_chance = coincides.mean() if condition == "shuffled" else 0.0
        cells = [_score(results.score(arm, measure)) for measure in ("exact", "chosen")]
        rows.append([condition, cells[0], f"{by_chance:.3f}", cells[1], f"{chance.mean():.3f}"])
    head = ("facts", "exact", "values shown that are right", "chosen", "chance of chosen")
    return (
        "## Wrong facts\n\nAnother entity has none of the right values. Shuffled values of a "
        "relation can be right by coincidence.\n\n" + _table(head, rows)
    )


def _absent(every: Results) -> str:
    rows = []
    results = every.having(*((row, c) for row in ("kept", "ask") for c in ("true", "absent")))
    for row in ("kept", "ask", "kept, silent where `kept ask` refuses"):
        base = "ask" if row == "ask" else "kept"
        cells = []
        for condition in ("true", "absent"):
            refused = results.of((base, condition), "refused")
            exact = results.of((base, condition), "exact")
            if row not in ROWS:
                refused = np.maximum(refused, results.of(("ask", condition), "refused"))
                exact = exact * (1 - refused)
            cells += [f"{exact.mean():.3f}", f"{refused.mean():.3f}"]
        rows.append([ROWS.get(row, row), *cells])
    head = ("row", "exact with the fact", "refused with it", "exact without it",
            "refused without it")  # fmt: skip
    return "## The fact missing\n\n" + _table(head, rows)


def _by_seed(every: Results) -> str:
    rows = []
    for arm in ((row, conditions[0]) for row, conditions in CONDITIONS.items()):
        cells = []
        for seed in every.of_seeds:
            outcome = every.outcomes.get((*arm, seed.seed))
            cells.append("" if outcome is None else f"{np.mean(outcome.exact):.3f}")
        rows.append([ROWS[arm[0]], *cells])
    return "## Exact, by seed\n\n" + _table(
        ("row", *(f"seed {a.seed}" for a in every.of_seeds)), rows
    )


def _relations(every: Results) -> str:
    arms = NONE, KEPT, FACT, ("bm25", "true"), ("ask", "true")
    results, rows = every.having(*arms), []
    relations = results.traits("relations")
    for name in sorted({*relations.tolist()}, key=lambda each: int(each[1:])):
        mask = relations == name
        cells = [f"{results.of(arm, 'exact')[mask].mean():.2f}" for arm in arms]
        rows.append([name, str(mask.sum()), *cells])
    head = ("relation", "n", "no graph", "kept", "right fact", "BM25", "`kept ask` alone")
    return "## Exact, by relation\n\n" + _table(head, rows)
