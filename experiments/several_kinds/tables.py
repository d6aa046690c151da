"""The tables of the study: accuracy of each probe, and what one kind costs the others.

Axis legend: seed, group (questions that are not independent), count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.several_kinds.kinds import KINDS
from experiments.several_kinds.study import ALL, HOST, NEW, ROWS, SEQUENCE, RowAnswers, Settings
from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import Counts, accuracy_counts, f1_value
from kept.lab.study.tables import Table, with_interval

Groups = Mapping[str, Sequence[str]]


def page(
    settings: Settings,
    told: Sequence[RowAnswers],
    groups: Groups,
    data: Sequence[str],
    command: str,
) -> str:
    """Accuracies by row and kind, then the differences that the study is about."""
    rows = {row: says for row, says in {**ROWS, **SEQUENCE}.items() if any(row in s for s in told)}
    n_last = sum([*SEQUENCE][-1] in seed for seed in told)
    accuracies = [
        [row, *(with_interval(of(told, row, kind, groups)) for kind in KINDS), says]
        for row, says in rows.items()
    ]
    differences = [[name, *_difference(told, groups, pair)] for name, pair in contrasts().items()]
    parts = (
        "# Three kinds of knowledge in one host",
        f"`{command}`",
        _about(settings, len(told), n_last),
        Table(("states read by the probe", *KINDS, ""), accuracies).compact(),
        Table(("difference", *KINDS), differences).compact(),
        "Data: " + "; ".join(data) + ".",
    )
    return "\n\n".join(parts) + "\n"


def _about(settings: Settings, n_seeds: int, n_last: int) -> str:
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
    """By name two rows; `OWN` stands for the kind that is asked, `THEN` for the host that has just
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


def of(told: Sequence[RowAnswers], row: str, kind: str, groups: Groups) -> Effect:
    """The accuracy of a row, over the seeds that have it."""
    has = [seed for seed in told if row in seed]
    return effect(np.stack(counts(has, row, kind, groups)), f1_value)


def counts(told: Sequence[RowAnswers], row: str, kind: str, groups: Groups) -> list[Counts]:
    """By seed, `[group count]`: rightly answered, predicted, asked."""
    return [accuracy_counts(seed[row][kind], groups[kind]) for seed in told]


def _difference(told: Sequence[RowAnswers], groups: Groups, pair: tuple[str, str]) -> list[str]:
    cells = []
    for place, kind in enumerate(KINDS):
        rows = [[*SEQUENCE][place] if row == "THEN" else row.replace("OWN", kind) for row in pair]
        if rows[0] == rows[1]:
            cells.append("–")
            continue
        has = [seed for seed in told if all(row in seed for row in rows)]
        if not has:
            cells.append("–")
            continue
        ours, theirs = (counts(has, row, kind, groups) for row in rows)
        cells.append(with_interval(difference(ours, theirs, f1_value), "+"))
    return cells
