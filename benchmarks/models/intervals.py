"""How often intervals over seeds and items hold the true effect, in simulated comparisons.

Effects are drawn as `seed + item + both`, so that the truth is known; each cell of the first table
draws its sums of squares at once (normal parts: they are chi squares), the second table draws right
and wrong answers one by one, in groups, and goes through `kept.evaluation.crossed.difference`.

    python benchmarks/models/intervals.py [--repeats 20000] [--answers 600] > intervals.md
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product

import numpy as np
from scipy import stats

from kept.evaluation import crossed
from kept.evaluation.crossed import Effect
from kept.evaluation.paired import difference_interval, f1_value
from kept.evaluation.statistics import holm

SEEDS, ITEMS = (2, 3, 5, 10), (100, 1000)
OF_SEEDS = (0.0, 0.5, 1.0, 2.0, 4.0)  # spread of the mean over seeds, by that over items
BOTH = (1.0, 4.0)  # spread of a seed's own part of an item, by that of the item's
MARGIN, SHARES = 0.05, 201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20_000)
    parser.add_argument("--answers", type=int, default=600)
    arguments = parser.parse_args()
    options = f"--repeats {arguments.repeats} --answers {arguments.answers}"
    print(f"# Coverage of intervals\n\n`python benchmarks/models/intervals.py {options}`\n")
    normal(arguments.repeats)
    answers(arguments.answers)


def normal(repeats: int) -> None:
    """Coverage of 95 % intervals where every part is normal."""
    print(
        "## Normal parts\n\nShare of 95 % intervals that hold the true effect. `seeds : items`: "
        "standard error due to seeds, by that due to items; `own`: spread of what a seed does to "
        "one item, by the spread of items.\n"
    )
    head = "seeds", "items", "seeds : items", "own", "items alone", "t over seeds", "Satterthwaite"
    print(row(*head, "**crossed**", "false equivalence"))
    print(row(*["---"] * 9))
    worst: dict[bool, list[float]] = {True: [], False: []}
    for n_seeds, n_items in product(SEEDS, ITEMS):
        shares = np.linspace(0, 1, SHARES)
        multiples = [quantiles(shares, n_seeds, n_items, level) for level in (0.95, 0.9)]
        for ratio, both in product(OF_SEEDS, BOTH):
            draws = np.random.default_rng([n_seeds, n_items, int(10 * ratio), int(both)])
            of_both = both**2 / n_seeds / n_items
            true = ratio**2 / n_items + of_both, 1 / n_items + of_both
            error = draws.normal(0, (true[0] + 1 / n_items) ** 0.5, repeats)
            dfs = n_seeds - 1, n_items - 1
            seeds, items = (
                v * draws.chisquare(df, repeats) / df for v, df in zip(true, dfs, strict=True)
            )
            variance = of_both * draws.chisquare(dfs[0] * dfs[1], repeats) / (dfs[0] * dfs[1])
            rest = np.maximum(items - variance, 0)
            total = seeds + rest
            df = total**2 / (seeds**2 / dfs[0] + rest**2 / dfs[1])
            widths = [
                items**0.5 * stats.t.ppf(0.975, dfs[1]),
                seeds**0.5 * stats.t.ppf(0.975, dfs[0]),
                total**0.5 * stats.t.ppf(0.975, df),
                total**0.5 * np.interp(seeds / total, shares, multiples[0]),
            ]
            coverage = [float((np.abs(error) <= width).mean()) for width in widths]
            worst[n_seeds > 2].append(coverage[-1])
            # the truth lies at the margin: 90 % intervals lie within it at most 5 times of 100
            margin = 3 * (true[0] + 1 / n_items) ** 0.5
            room = total**0.5 * np.interp(seeds / total, shares, multiples[1])
            wrong = float((np.abs(margin + error) + room < margin).mean())
            cells = [f"{share:.3f}" for share in (*coverage, wrong)]
            print(row(n_seeds, n_items, ratio, both, *cells))
    for enough, name in ((True, "three seeds and more"), (False, "two seeds")):
        print(f"\nCrossed, {name}: {min(worst[enough]):.3f} to {max(worst[enough]):.3f}.")


def quantiles(shares: np.ndarray, n_seeds: int, n_items: int, level: float) -> list[float]:
    """Of the standardised error, for shares of the variance that are of seeds."""
    effects = (Effect(0.0, s, 1 - s, n_seeds, n_items) for s in shares.tolist())
    return [each.interval(level).high for each in effects]


def answers(repeats: int) -> None:
    """Coverage, false verdicts and power where answers are right or wrong, in groups of items."""
    print(
        "\n## Right and wrong answers in groups\n\n400 items in 250 groups; whether a model is "
        "right depends on the item, the group, the seed and chance. `spread`: of a seed's logit. "
        "`bootstrap of both`: seeds and groups resampled with replacement. `false`: a difference "
        "shown "
        "where there is none; `one of 12 false`: any of twelve pairs, p with Holm's correction; "
        "`seen`: shown where the effect is as large as `visible` says.\n"
    )
    head = "seeds", "spread", "items alone", "bootstrap of both", "**crossed**", "false"
    print(row(*head, "one of 12 false", "seen"))
    print(row(*["---"] * 8))
    for n_seeds, spread in product((3, 5, 10), (0.0, 0.15, 0.5)):
        draws = np.random.default_rng([n_seeds, int(100 * spread)])
        draw = partial(comparison, draws, n_seeds, spread)
        hits, false = np.zeros(3), 0
        for _ in range(repeats):
            ours, theirs = draw()
            difference = crossed.difference(ours, theirs, f1_value)
            pooled = difference_interval(
                sum(ours), sum(theirs), f1_value, generator=draws, n_resamples=200
            )
            low, high = of_both(ours, theirs, draws)
            interval = difference.interval()
            limits = (pooled.low, pooled.high), (low, high), (interval.low, interval.high)
            hits += [a <= 0 <= b for a, b in limits]
            false += difference.p < 0.05
        families, seen = repeats // 12, 0
        any_false = sum(
            min(holm([crossed.difference(*draw(), f1_value).p for _ in range(12)])) < 0.05
            for _ in range(families)
        )
        nones = [crossed.difference(*draw(), f1_value) for _ in range(repeats)]
        of_seeds = float(np.mean([none.of_seeds for none in nones if none.of_seeds is not None]))
        of_items = float(np.mean([none.of_items for none in nones]))
        visible = Effect(0.0, of_seeds, of_items, n_seeds, 250).visible()
        for none in nones:
            moved = Effect(none.estimate + visible, none.of_seeds, none.of_items, n_seeds, 250)
            seen += moved.p < 0.05 and moved.estimate > 0
        cells = [*(hits / repeats), false / repeats, any_false / families, seen / repeats]
        print(row(n_seeds, spread, *(f"{cell:.3f}" for cell in cells)), flush=True)


def comparison(draws: np.random.Generator, n_seeds: int, spread: float) -> list[list[np.ndarray]]:
    """Counts `[group count]` by seed of two systems that answer the same items."""
    groups = draws.integers(250, size=400)
    groups[:250] = np.arange(250)
    items = draws.normal(0, 1.5, 400) + draws.normal(0, 1, 250)[groups]
    scores = []
    for _ in range(2):
        of_system = items + draws.normal(
            0, 0.7, 400
        )  # what the system makes of an item, in every seed
        seeds = draws.normal(0.0, spread, n_seeds)
        logits = of_system[None] + seeds[:, None] + draws.normal(0, 0.7, (n_seeds, 400))
        chance = 1 / (1 + np.exp(-logits))
        right = (draws.random((n_seeds, 400)) < chance).astype(np.float64)
        scores.append([summed(each, groups) for each in right])
    return scores


def summed(right: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Right, found and wanted `[group 3]`."""
    sizes = np.bincount(groups, minlength=250).astype(np.float64)
    return np.stack([np.bincount(groups, right, minlength=250), sizes, sizes], axis=1)


def of_both(
    ours: list[np.ndarray], theirs: list[np.ndarray], draws: np.random.Generator
) -> tuple[float, float]:
    """Percentiles of draws of seeds and of groups (Owen 2007, the pigeonhole bootstrap)."""
    n_seeds, n_groups = len(ours), len(ours[0])
    counts = np.concatenate([np.stack(ours), np.stack(theirs)], axis=-1)
    seeds = draws.multinomial(n_seeds, [1 / n_seeds] * n_seeds, size=200).astype(np.float64)
    items = draws.multinomial(n_groups, [1 / n_groups] * n_groups, size=200).astype(np.float64)
    sums = np.einsum("ds,dg,sgc->dc", seeds, items, counts, optimize=True)
    difference = f1_value(sums[:, :3]) - f1_value(sums[:, 3:])
    low, high = np.quantile(difference, [0.025, 0.975])
    return float(low), float(high)


def row(*cells: object) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
