"""As a script: a few steps of each method on a GPU that is not there, and on the processor.

Prints a JSON line a method: whether the losses are the same bits, and which lines of kept made a
step wait for the GPU. A process of its own, as `pretend_gpu` has to be imported first.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
import torch

from kept.kge import TrainingConfig, make_scorer, train
from kept.methods import METHODS
from kept.training import loop
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from tests.kept.pretend_gpu import Waits, pretend_gpu
from tests.kept.training.tiny_pretraining import write_everything

N_STEPS = 6


class Ended(Exception):
    """The steps are done; what follows would write files of tensors on a GPU."""


def losses_of(config: PretrainConfig, folder: Path, waits: Waits | None) -> tuple[Any, Any]:
    """The losses of the last step, and what waited in a step from the third on."""
    model, data = assemble(config)
    training = config.training.model_copy(
        update={"steps": N_STEPS, "checkpoint_steps": None, "gradient_norms_every": None}
    )
    counts: list[Counter[str]] = []
    step, runs = loop._Run._one_step, []

    def counted(run: Any, batches: Any) -> Any:
        runs.append(run)
        counts.append(Counter() if waits is None else Counter(waits.lines))
        return step(run, batches)

    def end(run: Any, stopped: str) -> None:
        raise Ended

    steps = patch.object(loop._Run, "_one_step", counted)
    with steps, patch.object(loop._Run, "_finish", end), suppress(Ended):
        loop.train(model, data, training, folder)
    return runs[0].last.losses, dict(counts[-1] - counts[-2])


def steps_of(name: str, graph: KnowledgeGraph) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        fields = write_everything(Path(folder), graph)
        if name == "words":  # its facts are words of the text, and the host has few positions
            fields["view"] = {"max_branches": 1}
        config = PretrainConfig(method=name, **fields)
        there, _ = losses_of(config, Path(folder) / "cpu", None)
        device = torch.device("gpu")
        with pretend_gpu() as waits, patch.object(loop, "device_of", lambda _: device):
            here, lines = losses_of(config, Path(folder) / "gpu", waits)
    return {"method": name, "same": there == pytest.approx(here, rel=1e-5), "waits": lines}


def scorer_of(kind: str, how: str) -> dict[str, Any]:
    """An epoch of training a scorer, on both."""
    options: dict[str, Any] = {
        "shared": {"n_negatives": 16, "share_negatives": True},
        "own": {"n_negatives": 4, "corrupt": "bernoulli", "reject_known": True},
        "all": {"objective": "one_vs_all"},
    }[how]
    triples = torch.randint(40, (300, 3), generator=torch.Generator().manual_seed(0))
    triples[:, 1] %= 5
    config = TrainingConfig(
        **{"objective": "negative_sampling", "n_epochs": 1, "batch_size": 30, "learning_rate": 0.1}
        | options
    )
    losses, lines = [], Counter[str]()
    for device in ("cpu", "gpu"):
        scorer = make_scorer(
            kind, n_entities=40, n_relations=5, width=8,
            generator=torch.Generator().manual_seed(0), norm=2 if kind == "transe" else None,
        )  # fmt: skip
        with pretend_gpu() as waits:
            history = train(
                scorer.to(device), triples.numpy(), config=config,
                generator=torch.Generator().manual_seed(1),
            )  # fmt: skip
        losses.append(history.losses)
        lines = waits.lines
    once = {line: n for line, n in lines.items() if n >= 10}  # of ten batches
    return {"method": f"{kind} {how}", "same": losses[0] == losses[1], "waits": once}


def main() -> None:
    graph = KnowledgeGraph.open(sys.argv[1])
    for name in METHODS:
        sys.stdout.write(json.dumps(steps_of(name, graph)) + "\n")
    for kind in ("transe", "complex", "rotate"):
        for how in ("shared", "own", "all"):
            sys.stdout.write(json.dumps(scorer_of(kind, how)) + "\n")


if __name__ == "__main__":
    main()
