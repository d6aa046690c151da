"""The table of what was tried and what was caught."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import mutants_of, sample
from tests.mutation.targets import Group
from tests.mutation.trial import State, holds

HEAD = """\
# What the tests catch

Printed by `make mutate`: small faults, one at a time, in the functions of each module. *Ended* are
those whose tests ran into a limit of time or memory, or crashed; they count as caught. *Equivalent*
are those of `accepted.json`, which no test can tell from the original; they do not count. *Untried*
are those that this run did not come to; they do not count either.

| module | of | tried | caught | ended | equivalent | survived | untried | score |
|---|---|---|---|---|---|---|---|---|
"""


def told(
    root: Path, groups: Sequence[Group], n: int, state: State, accepted: dict[str, str]
) -> tuple[str, int]:
    """The table in Markdown with the survivors below it, and how many these are."""
    rows, left, total = [], [], [0] * 7
    for group in groups:
        for module in group.modules:
            mutants = mutants_of((root / module).read_text(encoding="utf-8"), module)
            results = {"caught": 0, "ended": 0, "equivalent": 0, "survived": 0, "untried": 0}
            for mutant in sample(mutants, n):
                record = state.known.get(mutant.name)
                is_known = record is not None and holds(record, module, group.tests, root)
                result = record["result"] if record is not None and is_known else "untried"
                if result == "survived" and mutant.name in accepted:
                    result = "equivalent"
                if result == "survived":
                    left.append(f"- `{mutant.name}`")
                results[result] += 1
            counts = [len(mutants), sum(results.values()) - results["untried"], *results.values()]
            total = [a + b for a, b in zip(total, counts, strict=True)]
            rows.append(_row(f"`{module}`", counts))
    rows.append(_row("**all**", total))
    survivors = ["", "## Survivors", "", *(left or ["None."]), ""]
    return HEAD + "\n".join([*rows, *survivors]), len(left)


def _row(name: str, counts: list[int]) -> str:
    _, tried, caught, ended, equivalent, *_ = counts
    judged = tried - equivalent
    score = f"{100 * (caught + ended) / judged:.0f} %" if judged else "–"
    return f"| {name} | {' | '.join(map(str, counts))} | {score} |"
