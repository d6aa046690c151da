"""An epoch of training with negatives, ours and a plain torch loop of the same loss on one GPU."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch.nn.functional import logsigmoid

from benchmarks.on_gpu.common import Trial, precision
from benchmarks.on_gpu.ranking import graph
from kept.kge import TrainingConfig, make_scorer, train

N_NEGATIVES, WIDTH, MARGIN = 64, 256, 6.0


def run(trial: Trial) -> None:
    """ComplEx with negatives that a batch shares, in two sizes of batches."""
    name, n_entities, n_relations, splits = graph(trial.small)
    for batch_size in (64,) if trial.small else (512, 4096):
        for how in ("fp32",) if trial.small else ("fp32", "tf32"):
            with precision(how):
                _compare(trial, name, n_entities, n_relations, splits["train"], batch_size, how)


def _compare(
    trial: Trial, name: str, n_entities: int, n_relations: int, triples: np.ndarray,
    batch_size: int, how: str,
) -> None:  # fmt: skip
    config = TrainingConfig(
        n_epochs=1, batch_size=batch_size, learning_rate=1e-3, optimiser="adam",
        objective="negative_sampling", loss="log_sigmoid", margin=MARGIN, corrupt="uniform",
        n_negatives=N_NEGATIVES, share_negatives=True,
    )  # fmt: skip
    used = triples[: 40 * batch_size] if trial.small else triples[: 200 * batch_size]
    seconds = {}
    for run_ in ("warm", "ours"):
        generator = torch.Generator().manual_seed(0)
        scorer = make_scorer(
            "complex", n_entities=n_entities, n_relations=n_relations, width=WIDTH,
            generator=generator,
        ).to(trial.device)  # fmt: skip
        start = time.perf_counter()
        history = train(scorer, used[: len(used) // (5 if run_ == "warm" else 1)], config=config,
                        generator=torch.Generator().manual_seed(1))  # fmt: skip
        trial.wait()
        seconds[run_] = time.perf_counter() - start
    _plain(trial, n_entities, n_relations, used[: len(used) // 5], batch_size)
    seconds["plain"] = _plain(trial, n_entities, n_relations, used, batch_size)
    trial.line(
        graph=name, precision=how, batch=batch_size, triples=len(used),
        ms_a_batch=round(1e3 * seconds["ours"] * batch_size / len(used), 3),
        triples_a_second=round(len(used) / seconds["ours"]),
        plain_triples_a_second=round(len(used) / seconds["plain"]),
        times_as_fast=round(seconds["plain"] / seconds["ours"], 2), loss=history.losses[-1],
    )  # fmt: skip


def _plain(
    trial: Trial, n_entities: int, n_relations: int, triples: np.ndarray, batch_size: int
) -> float:
    """Seconds of the same epoch in plain torch with dense Adam."""
    device = trial.device
    entities = torch.nn.Embedding(n_entities, WIDTH, device=device)
    relations = torch.nn.Embedding(n_relations, WIDTH, device=device)
    optimiser = torch.optim.Adam([entities.weight, relations.weight], lr=1e-3, fused=True)
    data = torch.from_numpy(triples).to(device)
    trial.wait()
    start = time.perf_counter()
    for rows in torch.randperm(len(data), device=device).split(batch_size):
        head, relation, tail = data[rows].unbind(1)
        is_tail = torch.rand(len(rows), device=device) < 0.5
        sampled = entities(torch.randint(n_entities, (N_NEGATIVES,), device=device))
        h, r, t = entities(head), relations(relation), entities(tail)
        (h1, h2), (r1, r2), (t1, t2) = (x.chunk(2, 1) for x in (h, r, t))
        forward = torch.cat([h1 * r1 - h2 * r2, h1 * r2 + h2 * r1], 1)
        back = torch.cat([r1 * t1 + r2 * t2, r1 * t2 - r2 * t1], 1)
        positive = (forward * t).sum(1)
        negative = torch.where(is_tail[:, None], forward, back) @ sampled.T
        loss = -logsigmoid(MARGIN + positive) - logsigmoid(-MARGIN - negative).mean(1)
        optimiser.zero_grad(set_to_none=True)
        loss.mean().backward()
        optimiser.step()
    trial.wait()
    return time.perf_counter() - start
