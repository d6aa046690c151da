"""The page of `kept check analogies`."""

from __future__ import annotations

from collections.abc import Mapping

from kept.lab.probing.words.analogies import RULES, AnalogyScores, InductionScores
from kept.lab.study.tables import with_interval

RANDOM = "random vectors"
Rows = Mapping[str, tuple[AnalogyScores, InductionScores]]


def to_markdown(rows: Rows, command: str) -> str:
    """Two tables, a row a space, with 95 % intervals; then the sections, a row each."""
    first, induced = next(iter(rows.values()))
    lines = [
        "# Analogies, and relations of pairs",
        "",
        f"`{command}`",
        "",
        "Share of correct answers (intervals over pairs a, b). Pairs separated: mean over",
        "relations of the average precision in separating true pairs from three false ones each",
        f"(chance {induced.chance:g}; intervals over relations).",
        "",
        f"| space | questions | left out | candidates | {' | '.join(RULES)} | pairs separated |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (answers, pairs) in rows.items():
        cells = [with_interval(answers.shares[rule]) for rule in RULES]
        lines.append(
            f"| {name} | {answers.n:,} | {answers.n_left_out:,} | {answers.candidates:,} | "
            f"{' | '.join(cells)} | {with_interval(pairs.mean)} |"
        )
    head = " | ".join(f"{name}: 3CosAdd | {name}: pairs" for name in rows)
    lines += ["", f"| section | {head} |", "|---" * (1 + 2 * len(rows)) + "|"]
    for section in first.sections:
        cells = [
            text
            for answers, pairs in rows.values()
            for text in (
                _share(answers.sections.get(section, {}).get("3CosAdd")),
                _share(pairs.relations.get(section)),
            )
        ]
        lines.append(f"| {section} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shortfalls(rows: Rows) -> list[str]:
    """Return a warning for each space whose analogies are no better than a rule without any."""
    lines = []
    for name, (answers, _) in rows.items():
        rule = max(RULES[:-1], key=lambda each, scores=answers: scores.shares[each].estimate)  # type: ignore[misc]
        ours = answers.shares[rule].estimate
        others = {RULES[-1]: answers.shares[RULES[-1]].estimate}
        if RANDOM in rows:
            others[RANDOM] = rows[RANDOM][0].shares[rule].estimate
        best = max(others, key=others.__getitem__)
        if name != RANDOM and ours <= others[best]:
            lines.append(
                f"{name}: {ours:.3f} of the analogies by {rule} is no better than {best} "
                f"({others[best]:.3f}): the space places no relation there; train it on more text "
                "(kept vectors train), or ask about words that it has met often"
            )
    return lines


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
