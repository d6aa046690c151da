"""`python -m experiments TASK --method M --seed S`: one run of an experiment.

TASK is the name of a YAML file below this folder, or a path to one. The run is recorded in the
folder of runs and not repeated; `kept compare` reads the same records.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from kept.apps.cli.progress import TrainingProgress
from kept.apps.cli.training.run import catch_interrupt
from kept.inputs.controls.conditions import KNOWLEDGE
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.find import data_root, find_experiment, stopping
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study


def main() -> None:
    """Run or read one run, and print its scores."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--method", default="none")
    parser.add_argument("--knowledge", choices=KNOWLEDGE, default="true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/compare"))
    parser.add_argument("--budget", type=float, help="minutes, then a checkpoint")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    disable_progress_bar()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    experiment = Experiment.read(find_experiment(arguments.task))
    knowledge = "off" if arguments.method == "none" else arguments.knowledge
    key = RunKey(arguments.method, knowledge, arguments.seed)
    data = os.environ.get("KEPT_DATA")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with catch_interrupt() as stop, TrainingProgress(Console()) as bar:
        root = data_root(Path(data) if data else None)
        should_stop = stopping(stop, arguments.budget)
        study = Study(ComparisonTrial(experiment, root, arguments.output, bar, should_stop))
        record = study.record(key) or study.run(key)
    if record is None:
        print(f"{key}: not finished; the same command goes on")
        return
    print(json.dumps({"run": record.run, **record.scores[experiment.asked]}, indent=1))


if __name__ == "__main__":
    main()
