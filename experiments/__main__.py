"""`python -m experiments STUDY …` runs a study, `python -m experiments TASK …` one run of a task.

STUDY is a folder below this one, as `ebert` or `entity_linking/end_to_end`; what follows are the
arguments of its command, mostly CONFIG -o RUN. TASK is the name of a YAML file of `kept compare`,
or a path to one. The run is recorded in the folder of runs and not repeated; `kept compare` reads
the same records.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.progress import TrainingProgress
from kept.apps.cli.training.run import catch_interrupt
from kept.inputs.controls.conditions import KNOWLEDGE, Knowledge
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import data_root, find_experiment
from kept.lab.comparison.find import stopping
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study

HERE = Path(__file__).parent


def main() -> None:
    """Run the study that the first argument names, otherwise one run of a task."""
    names = sys.argv[1:2]
    for module in ("trial", "__main__"):
        if names and (HERE / names[0] / f"{module}.py").is_file():
            sys.argv = [f"python -m experiments {names[0]}", *sys.argv[2:]]
            package = names[0].strip("/").replace("/", ".")
            name = f"experiments.{package}.{module}"
            runpy.run_module(name, run_name="__main__", alter_sys=True)
            return
    run_task()


def run_task() -> None:
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
    knowledge: Knowledge = "off" if arguments.method == "none" else arguments.knowledge
    key = RunKey(arguments.method, knowledge, arguments.seed)
    data = os.environ.get("KEPT_DATA")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with catch_interrupt() as stop, TrainingProgress(TerminalConsole()) as bar:
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
