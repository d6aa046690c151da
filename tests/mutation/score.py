"""The table of what was tried and what was caught."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutants import mutants_of, sample
from tests.mutation.state import State, is_final

HEAD = """\
# What the tests catch

Printed by `make mutate`: small faults, one at a time, in the functions of each module. *Ended* are
those whose tests ran into a limit of time or memory, or crashed; they count as caught. *Equivalent*
are those of `accepted.json`, which no test can tell from the original; they do not count, and the
kinds of `equivalents.py` are not tried at all. *Stale* are those among all these whose module, or
whose tests, changed since: the next run tries them again. *Untried* are those that no run came to;
they do not count. The row *others* sums up the modules all of whose faults were caught.

| module | of | tried | caught | ended | equivalent | survived | stale | untried | score |
|---|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Score:
    """The table in Markdown with the survivors below it, how many these are, and sums.

    These are over the modules whose mutants were all tried and hold: how many modules, how many
    mutants but for the equivalent ones, and how many of these were caught or ended.
    """

    text: str
    n_left: int
    n_modules: int
    n_judged: int
    n_caught: int


def score_of(
    root: Path, targets: dict[str, tuple[str, ...]], n: int, state: State, accepted: Collection[str]
) -> Score:
    """Return what is known of the first `n` mutants of each module, tried on its test files."""
    rows, left, total, whole, others = [], [], [0] * 8, [0, 0, 0], [0] * 8
    for module, tests in targets.items():
        mutants = mutants_of((root / module).read_text(encoding="utf-8"), module)
        results = {"caught": 0, "ended": 0, "equivalent": 0, "survived": 0}
        results |= {"stale": 0, "untried": 0}
        for mutant in sample(mutants, n):
            record = state.known.get(mutant.name)
            result = record["result"] if record is not None else "untried"
            needed = () if mutant.name in accepted else tests
            is_stale = record is not None and not is_final(record, module, needed, root)
            results["stale"] += is_stale
            if result == "survived" and mutant.name in accepted:
                result = "equivalent"
            if record is not None and result == "survived":
                marks = " (no test reaches it)" if not record["n_tests"] else ""
                marks += " (stale)" if is_stale else ""
                left.append(f"- `{mutant.name}`{marks}")
            results[result] += 1
        n_tried = sum(results.values()) - results["untried"] - results["stale"]
        counts = [len(mutants), n_tried, *results.values()]
        total = _sums(total, counts)
        if not results["untried"] + results["stale"]:
            caught = results["caught"] + results["ended"]
            whole = _sums(whole, [1, n_tried - results["equivalent"], caught])
        if results["survived"] + results["stale"] + results["untried"]:
            rows.append(_row(f"`{module}`", counts))
        else:
            others = _sums(others, counts)
    rows += [_row(f"*{len(targets) - len(rows)} others*", others), _row("**all**", total)]
    survivors = ["", "## Survivors", "", *(left or ["None."]), ""]
    return Score(HEAD + "\n".join([*rows, *survivors]), len(left), *whole)


def _sums(these: list[int], those: list[int]) -> list[int]:
    return [a + b for a, b in zip(these, those, strict=True)]


def _row(name: str, counts: list[int]) -> str:
    _, tried, caught, ended, equivalent, *_ = counts
    judged = tried - equivalent
    score = f"{100 * (caught + ended) / judged:.0f} %" if judged else "–"
    return f"| {name} | {' | '.join(map(str, counts))} | {score} |"
