"""The table of a study, over seeds and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.distillation.study import ASKED, ROWS, DistillationStudy, RowAnswers
from kept.evaluation.crossed import difference, effect
from kept.evaluation.paired import Counts, accuracy_counts, f1_value
from kept.lab.study.tables import Table, with_interval


def page(
    study: DistillationStudy, told: Sequence[RowAnswers], spent: Mapping[str, float], command: str
) -> str:
    """Accuracies, what the transfer of true facts is worth, and the cost of a text."""
    rows = []
    for row, says in ROWS.items():
        shares = [with_interval(effect(counts(told, row, a), f1_value)) for a in ASKED]
        rows.append([row, *shares, says])
    parts = [
        "# A plain host trained by one that reads the graph",
        f"`{command}`",
        f"Accuracy, 95 % intervals over {len(study.seeds)} seeds and people; by chance .125.",
        Table(("", *ASKED, ""), rows).compact(),
    ]
    for asked in ASKED:
        sides = (list(counts(told, row, asked)) for row in ("taught", "taught by another"))
        gain = difference(*sides, f1_value)
        parts.append(f"{asked}: distilled − distilled from another {with_interval(gain)}")
    ratio = spent["teacher"] / spent["student"]
    parts.append(
        "Processor milliseconds a text, from linked text to answer: teacher "
        f"{spent['teacher']:.2f}, student {spent['student']:.2f} (÷ {ratio:.2f})."
    )
    return "\n\n".join(parts) + "\n"


def counts(told: Sequence[RowAnswers], row: str, asked: str) -> Counts:
    """`[seed person count]`: rightly answered, predicted, asked."""
    return accuracy_counts([seed[row][asked] for seed in told])
