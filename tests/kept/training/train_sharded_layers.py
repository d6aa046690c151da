"""`train_sharded_layers.py RUN.json OUT.pt [FROM.pt]`: three steps of a run with shared layers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from train_processes import without_dropout

from kept.batches.shares import share_of
from kept.pretraining.assembly import assemble
from kept.pretraining.config import PretrainConfig
from kept.training.optimisers import dense_parameters, make_optimisers, sparse_parameters
from kept.training.processes.sharded_layers import load_whole_state, share_layers, whole_state
from kept.training.processes.together import leave, meet


def run(given: dict[str, Any], out: Path, begin: Path | None) -> None:
    together = meet("cpu")
    config = PretrainConfig.read(None, given)
    model, data = assemble(config)
    by_layer = given["method"] != "ernie"  # which computes inside layers
    losses = share_layers(without_dropout(model), together, by_layer=by_layer)
    if begin is not None:
        load_whole_state(model, torch.load(begin)["weights"])
    optimisers, tables = make_optimisers(model, config.training), sparse_parameters(model)
    dense = dense_parameters(model)
    for step in range(3):
        samples = data.samples(range(6 * step, 6 * step + 6), epoch=0, seed=0)
        batch = data.collate(samples, epoch=0, seed=0, step=step)
        share = share_of(batch, [len(each) for each in samples], together.rank, together.n)
        losses.zero_grad(set_to_none=True)
        with together.counting(share.is_spare):
            found: dict[str, Tensor] = losses(share.batch)
        (torch.stack([*found.values()]).sum() * together.n).backward()
        together.gather_rows(tables)
        nn.utils.clip_grad_norm_(dense, 1.0)
        for optimiser in optimisers.values():
            optimiser.step()
    weights = whole_state(model)
    held = sum(
        (p.to_local() if isinstance(p, DTensor) else p).numel() for p in dense_parameters(model)
    )
    if together.is_first:
        torch.save({"weights": weights, "held": held}, out)
    leave()


if __name__ == "__main__":
    settings, target, *rest = map(Path, sys.argv[1:])
    run(json.loads(settings.read_text(encoding="utf-8")), target, rest[0] if rest else None)
