"""Committed verdicts once more, over seeds and items, from what is committed: scores and intervals.

The answers of these runs are not kept, so what a seed does to single items cannot be told from what
items do: the variance of items is taken whole, from the old interval over pooled answers, which
makes it too large. Two p bracket the one that answers would give: over seeds alone (items held
fixed, too small where items matter) and over both (too large). Where both are on one side of 5 %
the verdict is sure; else it is open. Scores are committed to three places.

    python -m experiments.verdicts        # writes NAME.verdicts.md beside NAME.pairs.csv
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import fmean, variance

from kept.evaluation.crossed import Effect
from kept.evaluation.statistics import Interval, holm, verdict
from kept.lab.study.tables import Table
from kg_loaders.disk.writing import write_text

FOLDER = Path(__file__).parent
COLUMNS = (
    "method", "against", "difference", "over seeds and items", "p", "p (Holm)",
    "p, seeds alone", "ruled out beyond", "not visible below", "was", "is",
)  # fmt: skip
ONE_SEED = "not shown: one seed"


def main() -> None:
    for path in sorted(FOLDER.glob("*/*.pairs.csv")):
        name = path.name.removesuffix(".pairs.csv")
        rows = verdicts(path.with_name(f"{name}.scores.csv"), path)
        target = path.with_name(f"{name}.verdicts.md")
        write_text(target, page(name, rows), force=True)
        print(target.relative_to(FOLDER), *sorted({row[-1] for row in rows}), sep="; ")
    completion = FOLDER / "wk_completion"
    write_text(completion / "verdicts.md", one_model(completion / "results.json"), force=True)


def verdicts(scores: Path, pairs: Path) -> list[list[str]]:
    """Cells of each pair: the effect from seeds' scores and the pooled interval, old and new."""
    seeds = {
        (row["method"], row["knowledge"].partition(":")[0]): numbers(row["seeds"])
        for row in read_rows(scores)
        if row["seeds"]
    }
    n_items = {row["method"]: int(row["n"].split()[0]) for row in read_rows(scores) if row["n"]}
    verdict_rows = []
    for row in read_rows(pairs):
        theirs = (
            ("none", "off")
            if row["against"] == "none"
            else (row["method"], row["against"].removeprefix("knowledge "))
        )
        ours = seeds[row["method"], "true"]
        differences = [a - b for a, b in zip(ours, seeds[theirs], strict=True)]
        of_items = interval_variance(row["95 % interval"])
        of_seeds = variance(differences) / len(ours) if len(ours) > 1 else None
        n = n_items[row["method"]]
        both = Effect(fmean(differences), of_seeds, of_items, len(ours), n)
        alone = Effect(both.estimate, of_seeds, 0.0, len(ours), n)
        verdict_rows.append((row, both, alone))
    corrected = [holm([each[i].p for each in verdict_rows]) for i in (1, 2)]  # type: ignore[union-attr]
    return [
        _cells(row, both, alone, sure, least)
        for (row, both, alone), sure, least in zip(verdict_rows, *corrected, strict=True)
    ]


def one_model(path: Path) -> str:
    """The page of word-knowledge completion, whose rows are one trained model each."""
    differences = json.loads(path.read_text(encoding="utf-8"))["differences"]
    rows = []
    for each in differences:
        interval = Interval(**each["mrr"])
        was = verdict(interval, each["p"], ours=each["ours"], theirs=each["theirs"])
        limits = f"{interval.low:+.3f} to {interval.high:+.3f}"
        number = f"{interval.estimate:+.3f}"
        p = f"{each['p']:.4f}"
        rows.append((each["setting"], each["theirs"], number, limits, p, was, ONE_SEED))
    n_old = sum(row[-2] != "no difference is shown" for row in rows)
    columns = "setting", "against", "MRR difference", "over items", "p, items", "was", "is"
    table = Table(columns, rows).markdown()
    return (
        "# Word-knowledge completion: verdicts over seeds and items\n\n"
        "`python -m experiments.verdicts`\n\n"
        f"**Of {len(differences)} differences {n_old} were shown over items; none is over seeds "
        "and items: every row is one model, trained with one seed.** The intervals hold for these "
        "models.\n\n"
        f"{table}"
    )


def _cells(
    row: dict[str, str], both: Effect, alone: Effect, sure: float, least: float
) -> list[str]:
    first = [row["method"], row["against"], f"{both.estimate:+.3f}"]
    if both.of_seeds is None:
        return [*first, *["one seed"] * 6, row["verdict"], ONE_SEED]
    interval = both.interval()
    return [
        *first,
        f"{interval.low:+.3f} to {interval.high:+.3f}",
        f"{both.p:.4f}",
        f"{sure:.4f}",
        f"{alone.p:.4f}",
        f"±{both.ruled_out:.3f}",
        f"{both.visible():.3f}",
        row["verdict"],
        verdict_of(both, sure, least, row),
    ]


def verdict_of(both: Effect, sure: float, least: float, row: dict[str, str]) -> str:
    """The new verdict; open where seeds alone would show it and both would not, corrected."""
    winner = row["method"] if both.estimate > 0 else row["against"]
    if sure < 0.05:
        return f"{winner} is better"
    return f"open: {winner} by seeds alone" if least < 0.05 else "not shown"


def page(name: str, rows: list[list[str]]) -> str:
    """What the page beside the old one says."""
    n_old = sum(row[-2] != "no difference is shown" for row in rows)
    n_new = sum(row[-1].endswith("is better") for row in rows)
    table = Table(COLUMNS, rows).markdown()
    return (
        f"# {name}: verdicts over seeds and items\n\n`python -m experiments.verdicts`\n\n"
        f"**Of {len(rows)} differences {n_old} were shown over items with these seeds held fixed; "
        f"{n_new} {'is' if n_new == 1 else 'are'} over seeds and items.**\n\n"
        f"From {name}.scores.csv and {name}.pairs.csv: the answers are not kept. Variance of "
        "seeds: of the seeds' differences. Variance of items: of the old interval, whole, which is "
        "too large; *open* is what seeds alone would show (p with Holm's correction below .05) and "
        "both would not. Gains by slice and a contrast with a fact against without need the "
        f"answers and are not given. With one seed nothing is known of others.\n\n{table}"
    )


def interval_variance(text: str) -> float:
    """The variance that a normal interval of 95 % has, such as "0.394 to 0.446"."""
    low, high = map(float, text.split(" to "))
    return ((high - low) / (2 * 1.959964)) ** 2


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by column."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def numbers(text: str) -> list[float]:
    """Numbers between commas."""
    return [float(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
