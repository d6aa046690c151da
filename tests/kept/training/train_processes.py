"""`train_processes.py RUNS.json`: train every run of the file, without dropout.

One process, or one of several where RANK and WORLD_SIZE say so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from torch import nn

from kept.finetuning import assembly as finetuning
from kept.finetuning.config import FinetuneConfig
from kept.pretraining import assembly as pretraining
from kept.pretraining.config import PretrainConfig
from kept.training import loop
from kept.training.loop import TrainResult, train
from kept.training.processes.launch import place
from kept.training.processes.together import leave
from kept.training.stream import PretrainingData


def without_dropout(model: nn.Module) -> nn.Module:
    """Each process draws a dropout of its own."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout_prob", None), float):
            setattr(module, "dropout_prob", 0.0)  # noqa: B010  # no Tensor, whatever nn.Module says
    return model


def run(given: dict[str, Any], folder: Path) -> TrainResult:
    model: nn.Module
    data: PretrainingData
    if "task" in given:
        task = FinetuneConfig.read(None, given)
        made = finetuning.assemble(task)
        model, data, config = made.model, made.data, task.training
    else:
        pretrained = PretrainConfig.read(None, given)
        (model, data), config = pretraining.assemble(pretrained), pretrained.training
    return train(without_dropout(model), data, config, folder)


def run_all(path: Path) -> None:
    for name, given in json.loads(path.read_text(encoding="utf-8")).items():
        run(given, path.parent / f"{name}-{place().n}")


if __name__ == "__main__":
    loop.draw_curves = lambda log, png: png.touch()  # as in the tests' own process
    run_all(Path(sys.argv[1]))
    leave()
