"""Learning rates of a recipe, tried on names that its reading control never reports.

`kept check reading --recipes` reports seeds 0 and on: their names, texts and first weights. Rates
are chosen here on others. A line of JSON for each pair of rates: accuracy on the control's test
names after the last step, and the step from which on it stays at .9, for each seed; nothing else is
measured, so that a trial is quicker than a cell of the control.

    python benchmarks/models/recipe_rates.py ktnet --rates 1e-3:2e-4,3e-3:3e-4 [--seeds 100,101,102]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from kept.lab.reading.cell import N_CURVE, SOLVED, Budget, Cell, open_host
from kept.lab.reading.measures import GOOD, steps_until
from kept.lab.reading.trial import ReadingTrial, accuracy, training_of
from kept.lab.reading.worlds import Size
from kept.training.loop import train

N_HEADS, N_STEPS = 320, 200
"""As in `kept check reading --recipes`."""
FIRST_SEED = 100
"""Seeds below are the control's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("method")
    parser.add_argument("--rates", required=True, help="learning rate:that of the host, …")
    parser.add_argument("--seeds", default="100,101,102")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if min(seeds) < FIRST_SEED:
        parser.error(f"seeds below {FIRST_SEED} are those that the control reports")
    for pair in options.rates.split(","):
        new, host = map(float, pair.split(":"))
        rates = {"learning_rate": new, "host_learning_rate": host}
        trials = [trial(options.method, rates, seed) for seed in seeds]
        print(json.dumps({"method": options.method, **rates, "trials": trials}), flush=True)


def trial(method: str, rates: dict[str, float], seed: int) -> dict[str, Any]:
    """One training with these rates, and how well it reads."""
    budget = Budget(steps=N_STEPS, n_layers=None, train_words=True)
    cell = Cell(task="occupation", arm=f"{method}-recipe", condition="true", seed=seed,
                size=Size(n_train=N_HEADS), budget=budget)  # fmt: skip
    began, reading = time.process_time(), ReadingTrial.of(cell, open_host(budget))
    test = reading.data(reading.world.test)
    curve: list[tuple[int, float]] = []

    def evaluate(_: Any, step: int) -> dict[str, float]:
        curve.append((step, accuracy(reading.model, test, N_CURVE)))
        return {"accuracy": curve[-1][1]}

    with tempfile.TemporaryDirectory() as folder:
        training = reading.data(reading.world.train, is_training=True)
        config = training_of(cell, N_STEPS, **rates)
        train(
            reading.model, training, config, Path(folder), evaluate=evaluate,
            should_stop=lambda: len(curve) > 1 and min(a for _, a in curve[-2:]) >= SOLVED,
        )  # fmt: skip
    return {
        "seed": seed,
        "accuracy": round(accuracy(reading.model, test), 3),
        "until_good": steps_until(curve, GOOD),
        "processor_seconds": round(time.process_time() - began),
    }


if __name__ == "__main__":
    main()
