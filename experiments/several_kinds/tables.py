"""The tables of the study: accuracy of each probe, and what one kind costs the others.

Axis legend: seed, group (questions that are not independent), count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.several_kinds.kinds import KINDS
from kept.evaluation.paired import Counts, accuracy_counts
from kept.lab.study.cells import NONE, mean_effect, page_of, paired_effect
from kept.lab.study.tables import Table, with_interval

HOST, NEW, ALL = "host", "new", "all"
ROWS = {
    HOST: "the host as it comes",
    f"+ {NEW}": "host + an adapter before training",
    **{f"+ {kind}": "host + this adapter" for kind in KINDS},
    f"+ three {NEW}": "host + three adapters before training",
    f"+ {ALL}": "host + all three",
    f"beside three {NEW}": "host and three adapters before training, concatenated",
    f"beside {ALL}": "host and all three, concatenated",
}
"""Rows of the probes of adapters. Before training every adapter returns the sum of the states that
it reads, but for its small random weights."""
SEQUENCE = {
    f"one host: {', '.join(KINDS[: n + 1])}": "all of its weights, one kind after the other"
    for n in range(len(KINDS))
}
RowAnswers = dict[str, dict[str, list[bool]]]
"""By row and kind: whether each answer is right."""
Groups = Mapping[str, Sequence[str]]


def page(
    settings: Any, answers: Sequence[RowAnswers], groups: Groups, data: Sequence[str], command: str
) -> str:
    """Return accuracies by row and kind, then the differences that the study is about."""
    rows = {
        row: says for row, says in {**ROWS, **SEQUENCE}.items() if any(row in s for s in answers)
    }
    n_last = sum([*SEQUENCE][-1] in seed for seed in answers)
    accuracies = [
        [row, *(with_interval(mean_effect(counts(answers, row, kind, groups).values()))
                for kind in KINDS), says]
        for row, says in rows.items()
    ]  # fmt: skip
    differences = [
        [name, *(_difference(answers, groups, pair, kind) for kind in KINDS)]
        for name, pair in contrasts().items()
    ]
    return page_of(
        "Three kinds of knowledge in one host", command,
        _about(settings, len(answers), n_last),
        Table(("states read by the probe", *KINDS, ""), accuracies),
        Table(("difference", *KINDS), differences),
        "Data: " + "; ".join(data) + ".",
    )  # fmt: skip


def _about(settings: Any, n_seeds: int, n_last: int) -> str:
    return (
        f"Accuracy of a linear probe, 95 % intervals over {n_seeds} seeds and groups of questions "
        f"(subjects, sentences, terms); each kind learned for {settings.adapter_steps} steps of "
        f"{settings.batch_size}. Chance is .5 for the lexicon. Sums are what `fusion: sum` gives "
        "a task; *concatenated*: what the linear layers of `fusion: concat` can read. Rows of "
        "one "
        f"host that learns all: {n_last} of {n_seeds} seeds (of one seed, intervals are "
        "over questions alone)."
    )


def contrasts() -> dict[str, tuple[str, str]]:
    """Return two rows by name; `OWN` is the kind that is asked, `THEN` the host that has just
    learned it."""
    three = f"three {NEW}"
    return {
        "an adapter before training − host": (f"+ {NEW}", HOST),
        "own adapter − before training": ("+ OWN", f"+ {NEW}"),
        "all three, added − own adapter": (f"+ {ALL}", "+ OWN"),
        "all three, added − before training": (f"+ {ALL}", f"+ {three}"),
        "all three, concatenated − own adapter": (f"beside {ALL}", "+ OWN"),
        "all three, concatenated − before training": (f"beside {ALL}", f"beside {three}"),
        "one host after its own kind − host": ("THEN", HOST),
        "one host after all three − after its own": ([*SEQUENCE][-1], "THEN"),
        "one host after all three − all three adapters, added": ([*SEQUENCE][-1], f"+ {ALL}"),
    }


def counts(answers: Sequence[RowAnswers], row: str, kind: str, groups: Groups) -> dict[int, Counts]:
    """Return counts of a row `[group count]` by seed, of the seeds that have it."""
    return {
        seed: accuracy_counts(of_seed[row][kind], groups[kind])
        for seed, of_seed in enumerate(answers)
        if row in of_seed
    }


def _difference(
    answers: Sequence[RowAnswers], groups: Groups, pair: tuple[str, str], kind: str
) -> str:
    learned = [*SEQUENCE][KINDS.index(kind)]
    rows = [learned if row == "THEN" else row.replace("OWN", kind) for row in pair]
    both = [of_seed for of_seed in answers if all(row in of_seed for row in rows)]
    if rows[0] == rows[1] or not both:
        return NONE
    sides = (counts(both, row, kind, groups) for row in rows)
    return with_interval(paired_effect(*sides), "+")
