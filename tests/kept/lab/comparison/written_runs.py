"""Runs of an experiment that were written, not trained."""

from __future__ import annotations

import json
from typing import Any

from kept.inputs.controls.conditions import Knowledge
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study
from kept.lab.study.store import RunRecord
from kept.lab.study.verdicts import Compared
from kept.training.finetuning.answers import ANSWERS

N = 40
COSTS = {
    "added": 0, "trained": 0, "steps": 1, "reads_graph": False, "milliseconds_a_sentence": 1.0,
    "seconds": 1.0,
}  # fmt: skip


def experiment_of(name: str, **changes: Any) -> Experiment:
    task = {
        "task": "relation", "format": "wiki80", "train": "train.txt", "dev": "dev.txt", "kg": "kg",
        "training": {"steps": 2, "batch_size": 8},
    }  # fmt: skip
    return Experiment(name=name, task=task, **{"methods": {"kbert": {}}} | changes)


def write_run(runs: Study[ComparisonTrial], key: RunKey, answers: list[str]) -> RunRecord:
    """A finished run that gave these answers, the right one being "a"."""
    n_right = answers.count("a")
    shares = dict.fromkeys(("precision", "recall", "f1"), 0.0)
    score = {
        "accuracy": {"estimate": n_right / len(answers)}, "n_scored": len(answers),
        "n_asked": len(answers),
        "micro": shares, "macro": shares,
    }  # fmt: skip
    record = RunRecord(
        runs.of(key).name, runs.plan.name, key.method, key.knowledge, key.seed,
        {"dev": {**score, "baseline": {**score, "official": {"estimate": 1.0}}}}, {}, {},
    )  # fmt: skip
    (runs.folder / record.run).mkdir(parents=True)
    rows = [
        {"set": "dev", "index": i, "id": str(i), "group": str(i), "gold": ["a"], "predicted": [x]}
        for i, x in enumerate(answers)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (runs.folder / record.run / ANSWERS).write_text(text, encoding="utf-8")
    return runs.keep(record)


def say(compared: Compared) -> tuple[list[tuple[str, Knowledge, int]], str]:
    rows = [(row.method, row.knowledge, len(row.seeds)) for row in compared.rows]
    return rows, compared.conclusion("kbert")


def compare_again(
    runs: Study[ComparisonTrial], controls: list[Knowledge], seeds: int = 1
) -> Compared:
    """What `kept compare` says when its budget is spent."""
    return compare(
        runs.trial.experiment, root=runs.trial.root, folder=runs.folder, methods=["none", "kbert"],
        controls=controls, seeds=seeds, should_stop=lambda: True,
    )  # fmt: skip
