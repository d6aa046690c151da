"""`python -m experiments.pretraining CONFIG -o RUN [--method M]`: pre-train, then write the table.

Needs KEPT_DATA. Each method runs in a process of its own, so that its peak memory is its own. With
`--method` only that one runs and no table is written: two may run side by side. Without it, methods
that have no result yet run one after another, and RUN receives results.json and results.md. A run
that was cut goes on where it stopped when the command is given again.
"""

from __future__ import annotations

import json
import subprocess
import sys

import torch
import yaml
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root, study_parser, write_results
from experiments.pretraining.data import read_corpus
from experiments.pretraining.study import RESULT, PretrainingStudy, run_method, to_markdown
from kept.training.log import StepRecord

GRAPH = "kg"


class Printer:
    """Prints every hundredth step."""

    def step(self, record: StepRecord) -> None:
        if record.step % 100 == 0:
            losses = "  ".join(f"{name} {value:.2f}" for name, value in record.losses.items())
            print(f"  step {record.step}  {losses}  {record.seconds:.0f} s", flush=True)

    def notice(self, message: str) -> None:
        print(f"  {message}", flush=True)


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--method", help="run this method alone, in this process, and no table")
    arguments = parser.parse_args()
    study = PretrainingStudy.model_validate(
        yaml.safe_load(arguments.config.read_text(encoding="utf-8"))
    )
    disable_progress_bar()
    torch.set_num_threads(study.training.threads or torch.get_num_threads())
    if arguments.method is not None:
        corpus = read_corpus(data_root())
        print(f"{arguments.method}: {corpus}", flush=True)
        if not (arguments.out / GRAPH).exists():
            corpus.graph.save(arguments.out / GRAPH)
        folder = arguments.out / arguments.method
        result = run_method(arguments.method, study, corpus, folder, Printer())
        print(result, flush=True)
        return
    for name in study.names:
        if not (arguments.out / name / RESULT).exists():
            command = [sys.executable, "-m", "experiments.pretraining", str(arguments.config)]
            subprocess.run([*command, "-o", str(arguments.out), "--method", name], check=True)
    results = [json.loads((arguments.out / name / RESULT).read_text()) for name in study.names]
    write_results(arguments.out, to_markdown(results, study), results)


if __name__ == "__main__":
    main()
