"""The table of a study, over seeds and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.distillation.study import ASKED, ROWS, Study, Told
from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import Counts, f1_value


def page(study: Study, told: Sequence[Told], spent: Mapping[str, float], command: str) -> str:
    """Accuracies, what the transfer of true facts is worth, and the cost of a text."""
    lines = [
        "# A plain host taught by one that reads the graph",
        "",
        f"`{command}`",
        "",
        f"Accuracy, 95 % intervals over {len(study.seeds)} seeds and people; by chance .125.",
        "",
        f"| | {' | '.join(ASKED)} | |",
        "|---|---|---|---|",
        *(
            f"| {row} | {' | '.join(_cell(effect(counts(told, row, a), f1_value)) for a in ASKED)} "
            f"| {says} |"
            for row, says in ROWS.items()
        ),
        "",
    ]
    for asked in ASKED:
        gain = difference(
            list(counts(told, "taught", asked)),
            list(counts(told, "taught by another", asked)),
            f1_value,
        )
        lines.append(f"{asked}: taught − taught by another {_cell(gain)}")
        lines.append("")
    ratio = spent["teacher"] / spent["student"]
    lines.append(
        "Processor milliseconds a text, from linked text to answer: teacher "
        f"{spent['teacher']:.2f}, student {spent['student']:.2f} (÷ {ratio:.2f})."
    )
    return "\n".join(lines) + "\n"


def counts(told: Sequence[Told], row: str, asked: str) -> Counts:
    """`[seed person count]`: rightly answered, predicted, asked."""
    right = np.array([seed[row][asked] for seed in told], np.float64)
    return np.stack([right, np.ones_like(right), np.ones_like(right)], axis=-1)


def _cell(found: Effect) -> str:
    interval = found.interval()
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
