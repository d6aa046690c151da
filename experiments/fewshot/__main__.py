"""Train on some relations, then ask about others in episodes.

KEPT_DATA=DIR python -m experiments.fewshot CONFIG --kg DIR [-o DIR]

Paths in CONFIG are relative to KEPT_DATA. The folder receives the trained model and
`fewshot.json`; a run that was cut goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from experiments.command import data_root
from kept.graphs.coverage import summary
from kept.training.finetuning.fewshot import FewshotConfig, run_fewshot
from kg_loaders.disk.writing import write_text


def read(path: Path, data: Path, kg: Path | None, settings: dict[str, Any]) -> FewshotConfig:
    """The configuration with its paths under `data`, and with the graph that was given."""
    config = FewshotConfig.read(path, settings)
    task = dict(config.task)
    for name in ("train", "dev", "test", "kg"):
        if name in task:
            task[name] = str(data / task[name])
    if kg is not None:
        task["kg"] = str(kg)
    return config.model_copy(update={"task": task, "novel": data / config.novel})


def table(config: FewshotConfig, result: dict[str, Any]) -> str:
    """Per cent right with intervals, and the published ones beside, as Markdown."""
    systems = list(dict.fromkeys(row.system for row in config.published))
    published = {(row.system, row.metric): row.value for row in config.published}
    lines = [f"| setting | ours [95 %] | guessing | {' | '.join(systems)} |"]
    lines.append("|---" * (3 + len(systems)) + "|")
    for setting, scores in result["scores"].items():
        ours = "{:.2f} [{:.2f}, {:.2f}]".format(
            *(100 * scores[n] for n in ("estimate", "low", "high"))
        )
        theirs = [f"{published.get((system, setting), '')}" for system in systems]
        lines.append(
            f"| {setting} | {ours} | {100 * scores['baseline']:.0f} | {' | '.join(theirs)} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run one configuration, print its table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.fewshot")
    parser.add_argument("config", type=Path)
    parser.add_argument("--kg", type=Path, help="folder of the graph, for the configuration's")
    parser.add_argument("-o", "--output", type=Path, default=Path("fewshot"))
    parser.add_argument("--method", help="another method")
    parser.add_argument("--episodes", type=int, help="another number of episodes")
    options = parser.parse_args(arguments)
    if "KEPT_DATA" not in os.environ:
        parser.error("KEPT_DATA is not set: name the folder of the public data sets")
    settings: dict[str, Any] = {}
    if options.method:
        settings["task.method"] = options.method
    if options.episodes:
        settings["n_episodes"] = options.episodes
    config = read(options.config, data_root(), options.kg, settings)
    result = run_fewshot(config, options.output)
    written = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    write_text(options.output / "fewshot.json", written, force=True)
    print(table(config, result))
    print(f"novel examples: {summary(result['coverage']['novel'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
