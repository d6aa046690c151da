"""Filtered ranking at CoDEx-M's size: `kept.evaluation.ranking.rank` and plain torch on one GPU."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.on_gpu.common import Trial, precision
from kept.evaluation.ranking import Filter, rank
from kept.kge import Scorer, make_scorer
from kept.kge.splits import read_splits

SIZES = {"train": 185_584, "valid": 10_310, "test": 10_311}
N_ENTITIES, N_RELATIONS = 17_050, 51
Splits = dict[str, np.ndarray]
Known = dict[tuple[str, int, int], list[int]]


def graph(small: bool) -> tuple[str, int, int, Splits]:
    """CoDEx-M from KEPT_DATA, or random triples of its size."""
    root = os.environ.get("KEPT_DATA")
    if root and not small and (Path(root) / "codex" / "codex-m").is_dir():
        read = read_splits(Path(root) / "codex" / "codex-m", holdout=0.1, seed=0)
        parts = {name: rows.astype(np.int64) for name, rows in read.as_mapping().items()}
        return "codex-m", read.graph.n_entities, read.graph.n_relations, parts
    entities, relations = (200, 5) if small else (N_ENTITIES, N_RELATIONS)
    sizes = {name: n // 500 if small else n for name, n in SIZES.items()}
    draws = np.random.default_rng(0)
    rows = draws.integers(0, [entities, relations, entities], (sum(sizes.values()), 3))
    # answers of few questions, as real graphs have them: heads are skewed
    rows[:, 0] = (entities * draws.random(len(rows)) ** 3).astype(np.int64)
    cuts = np.cumsum(list(sizes.values()))[:-1]
    return (
        "random triples",
        entities,
        relations,
        dict(zip(sizes, np.split(rows, cuts), strict=True)),
    )


def known_answers(splits: Splits) -> Known:
    """The answers of every question in any split."""
    known: Known = {}
    for part in splits.values():
        for head, relation, tail in part.tolist():
            known.setdefault(("tail", head, relation), []).append(tail)
            known.setdefault(("head", relation, tail), []).append(head)
    return known


@torch.no_grad()
def plain_ranks(scorer: Scorer, splits: Splits, known: Known, step: int) -> np.ndarray:
    """The same ranks in plain torch: a mask of known answers, two comparisons a block."""
    device = scorer.entities.device
    ranks = []
    for direction, slot in (("head", 0), ("tail", 2)):
        for start in range(0, len(splits["test"]), step):
            block = splits["test"][start : start + step]
            scores = scorer.scores(direction, torch.from_numpy(block).to(device))
            rows, columns = [], []
            for i, (head, relation, tail) in enumerate(block.tolist()):
                key = ("tail", head, relation) if slot == 2 else ("head", relation, tail)
                rows += [i] * len(known[key])
                columns += known[key]
            gold = torch.from_numpy(block[:, slot]).to(device)[:, None]
            answer = scores.gather(1, gold)
            scores[
                torch.tensor(rows, device=device), torch.tensor(columns, device=device)
            ] = -torch.inf
            greater, equal = (scores > answer).sum(1), (scores == answer).sum(1)
            ranks.append((1 + greater + equal / 2).double().cpu().numpy())
    return np.concatenate(ranks)


def run(trial: Trial) -> None:
    """Both, on vectors with 256 numbers, and ours on the processor."""
    name, n_entities, n_relations, splits = graph(trial.small)
    sizes = {"n_entities": n_entities, "n_relations": n_relations}
    for kind in ("complex", "transe"):
        generator = torch.Generator().manual_seed(0)
        norm = 2 if kind == "transe" else None
        scorer = make_scorer(kind, **sizes, width=256, generator=generator, norm=norm)
        with precision("fp32"):
            _compare(trial, name, kind, scorer, splits)


def _compare(trial: Trial, name: str, kind: str, scorer: Scorer, splits: Splits) -> None:
    sizes = {"n_entities": scorer.n_entities, "n_relations": scorer.n_relations}

    def ours(tested: np.ndarray, budget: int) -> np.ndarray:
        return rank(
            scorer, tested, filter=Filter(splits, **sizes), ties="realistic",
            directions=("head", "tail"), candidates="all", byte_budget=budget,
        ).ranks  # fmt: skip

    known = known_answers(splits)
    some = splits["test"][: 20 if trial.small else 2000]
    start = time.perf_counter()
    on_cpu = ours(some, 16 << 20)
    cpu_ms = 1e3 * (time.perf_counter() - start) * len(splits["test"]) / len(some)
    scorer.to(trial.device)
    there = ours(some, 16 << 20)
    line = {"graph": name, "kind": kind, "questions": 2 * len(splits["test"])}
    trial.line(kind=kind, cpu_ms=round(cpu_ms), unequal_to_cpu=float((on_cpu != there).mean()))
    n = 2
    ms = {f"ours_{budget}_mb": trial.median_ms(lambda b=budget: ours(splits["test"], b << 20), n)
          for budget in (16, 256)}  # fmt: skip
    plain = trial.median_ms(lambda: plain_ranks(scorer, splits, known, 1024), n)
    gemm = _product_ms(trial, scorer, len(splits["test"]))
    expected = plain_ranks(scorer, splits, known, 1024)
    unequal = float((ours(splits["test"], 16 << 20) != expected).mean())
    trial.line(
        **line, **{key: round(value, 1) for key, value in ms.items()}, plain_ms=round(plain, 1),
        times_as_fast=round(plain / min(ms.values()), 2), product_ms=round(gemm, 2),
        unequal_to_plain=unequal,
    )  # fmt: skip


def _product_ms(trial: Trial, scorer: Scorer, n: int) -> float:
    """The matrix product alone that both directions need."""
    one = torch.randn(n, scorer.entities.shape[1], device=trial.device)
    two = scorer.entities.detach()
    return 2 * trial.median_ms(lambda: [part @ two.T for part in one.split(1024)])
