"""`train_processes.py RUNS.json`: train every run of the file, without dropout.

One process, or one of several where RANK and WORLD_SIZE say so.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from torch.distributed.tensor import DTensor

from kept.training import loop
from kept.training.finetuning import assembly as finetuning
from kept.training.finetuning.config import FinetuneConfig
from kept.training.loop import Resume, TrainResult, train
from kept.training.pretraining import assembly as pretraining
from kept.training.pretraining.config import PretrainConfig
from kept.training.processes import shards
from kept.training.processes.launch import rank_and_size
from kept.training.processes.together import leave_processes, processes
from kept.training.stream import PretrainingData


def without_dropout(model: nn.Module) -> nn.Module:
    """Each process draws a dropout of its own."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout_prob", None), float):
            setattr(module, "dropout_prob", 0.0)  # noqa: B010  # no Tensor, whatever nn.Module says
    return model


def run(fields: dict[str, Any], folder: Path) -> TrainResult:
    """Train, from the last checkpoint in `folder` if there is one; it gets what is held here."""
    model: nn.Module
    data: PretrainingData
    evaluate = None
    if "task" in fields:
        task = FinetuneConfig.read(None, fields)
        assembled = finetuning.assemble(task)
        model, data, config = assembled.model, assembled.data, task.training
        if config.evaluate_every:
            evaluate = partial(assembled.evaluate, together=processes())
    else:
        pretrained = PretrainConfig.read(None, fields)
        (model, data), config = pretraining.assemble(pretrained), pretrained.training
    model = without_dropout(model)
    result = train(model, data, config, folder, evaluate=evaluate, resume=Resume.IF_ANY)
    local = [p.to_local() if isinstance(p, DTensor) else p for p in model.parameters()]
    (folder / f"held-{rank_and_size().rank}").write_text(str(sum(each.numel() for each in local)))
    return result


def run_all(path: Path) -> None:
    for name, fields in json.loads(path.read_text(encoding="utf-8")).items():
        run(fields, path.parent / f"{name}-{rank_and_size().n}")


if __name__ == "__main__":
    loop.draw_curves = lambda log, png: png.touch()  # as in the tests' own process
    shards.SMALL = 64  # no tensor of a tiny model is large
    run_all(Path(sys.argv[1]))
    leave_processes()
