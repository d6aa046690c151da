"""`python -m experiments fewshot CONFIG --kg GRAPH [-o DIR]`: some relations, then others.

Train on some relations, then answer about others in episodes. Paths in CONFIG are relative to
KEPT_DATA. The folder receives the trained model, fewshot.md and fewshot.json; a run that was cut
goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from experiments.command import data_root, write_results
from kept.graphs.coverage import summary
from kept.lab.study.tables import Table
from kept.training.finetuning.fewshot import FewshotConfig, run_fewshot


def read(path: Path, data: Path, kg: Path | None, settings: dict[str, Any]) -> FewshotConfig:
    """Return the configuration with its paths under `data`, and with the graph that was given."""
    config = FewshotConfig.read(path, settings)
    task = dict(config.task)
    for name in ("train", "dev", "test", "kg"):
        if name in task:
            task[name] = str(data / task[name])
    if kg is not None:
        task["kg"] = str(kg)
    return config.model_copy(update={"task": task, "novel": data / config.novel})


def table(config: FewshotConfig, result: dict[str, Any]) -> str:
    """Return per cent right with intervals, and the published ones, as Markdown."""
    systems = list(dict.fromkeys(row.system for row in config.published))
    published = {(row.system, row.metric): row.value for row in config.published}
    rows = []
    for setting, scores in result["scores"].items():
        estimate, low, high = (100 * scores[n] for n in ("estimate", "low", "high"))
        theirs = [f"{published.get((system, setting), '')}" for system in systems]
        ours = f"{estimate:.2f} [{low:.2f}, {high:.2f}]"
        rows.append([setting, ours, f"{100 * scores['baseline']:.0f}", *theirs])
    return Table(("setting", "ours [95 %]", "guessing", *systems), rows).compact()


def main() -> None:
    """Run one configuration, print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--kg", type=Path, help="folder of the graph, for the configuration's")
    parser.add_argument("-o", "--output", type=Path, default=Path("fewshot"))
    parser.add_argument("--method", help="another method")
    parser.add_argument("--episodes", type=int, help="another number of episodes")
    arguments = parser.parse_args()
    options = {"task.method": arguments.method, "n_episodes": arguments.episodes}
    settings = {name: value for name, value in options.items() if value}
    config = read(arguments.config, data_root(), arguments.kg, settings)
    result = run_fewshot(config, arguments.output)
    coverage = f"novel examples: {summary(result['coverage']['novel'])}"
    page = f"{table(config, result)}\n\n{coverage}\n"
    write_results(arguments.output, page, result, "fewshot")


if __name__ == "__main__":
    main()
