"""Filtered ranking, ours against PyKEEN: the same weights, triples and filter in one run.

CoDEx-S from KEPT_DATA, or random triples of the same size where it is absent.

    python benchmarks/kgc_ranking.py [--threads 1] [--repeat 3]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from pykeen import models
from pykeen.evaluation import RankBasedEvaluator
from pykeen.triples import CoreTriplesFactory

from kept.evaluation.ranking import Filter, rank
from kept.kge import Scorer, make_scorer
from kept.kge.splits import read_splits

N_ENTITIES, N_RELATIONS, SIZES = 2034, 42, (32_888, 1_827, 1_828)
KINDS = {"transe": models.TransE, "distmult": models.DistMult, "complex": models.ComplEx}


def load() -> tuple[str, int, int, dict[str, np.ndarray]]:
    root = os.environ.get("KEPT_DATA")
    if root:
        splits = read_splits(Path(root) / "codex" / "codex-s", holdout=0.1, seed=0)
        graph = splits.graph
        return "CoDEx-S", graph.n_entities, graph.n_relations, splits.as_mapping()
    generator = np.random.default_rng(0)
    rows = generator.integers(0, [N_ENTITIES, N_RELATIONS, N_ENTITIES], (sum(SIZES), 3))
    parts = np.split(rows, np.cumsum(SIZES)[:-1])
    named = dict(zip(("train", "valid", "test"), parts, strict=True))
    return "random triples of CoDEx-S' size", N_ENTITIES, N_RELATIONS, named


def as_pykeen(name: str, ours: Scorer, train: np.ndarray) -> torch.nn.Module:
    factory = CoreTriplesFactory(
        torch.from_numpy(train.astype(np.int64)), ours.n_entities, ours.n_relations
    )
    width = ours.width // 2 if name == "complex" else ours.width
    norm = {"scoring_fct_norm": 2} if name == "transe" else {}
    theirs = KINDS[name](triples_factory=factory, embedding_dim=width, random_seed=0, **norm)
    for table, modules in (
        (ours.entities, theirs.entity_representations),
        (ours.relations, theirs.relation_representations),
    ):
        weights = table.detach()
        if name == "complex":
            weights = torch.stack(weights.chunk(2, -1), -1).flatten(1)
        modules[0]._embeddings.weight.data.copy_(weights)
    return theirs


def seconds(run: Callable[[], object], repeat: int) -> tuple[float, object]:
    best, result = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    source, n_entities, n_relations, splits = load()
    print(f"{source}: {len(splits['test'])} test triples, both sides, width 256")
    build, known = seconds(
        lambda: Filter(splits, n_entities=n_entities, n_relations=n_relations), arguments.repeat
    )
    print(f"filter of all splits, all directions, built once: {build:.3f} s (in no time below)")
    assert isinstance(known, Filter)
    for name in KINDS:
        compare(name, splits, known, arguments.repeat)


def compare(name: str, splits: dict[str, np.ndarray], known: Filter, repeat: int) -> None:
    """Time both on one scorer; the metrics must agree."""
    ours = make_scorer(
        name, n_entities=known.n_entities, n_relations=known.n_relations, width=256,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    theirs = as_pykeen(name, ours, splits["train"])
    evaluator = RankBasedEvaluator(filtered=True)
    parts = {part: torch.from_numpy(rows.astype(np.int64)) for part, rows in splits.items()}

    def run_ours() -> object:
        return rank(ours, splits["test"], filter=known, ties="realistic",
                    directions=("head", "tail"), candidates="all")  # fmt: skip

    def run_theirs() -> object:
        others = [parts["train"], parts["valid"]]
        return evaluator.evaluate(
            theirs, parts["test"], batch_size=256, additional_filter_triples=others, use_tqdm=False
        )

    fast, result = seconds(run_ours, repeat)
    slow, answer = seconds(run_theirs, 1)
    names = ("inverse_harmonic_mean_rank", "hits_at_10")
    expected = [answer.get_metric(f"both.realistic.{metric}") for metric in names]
    found = [result.mrr, result.hits(10)]
    if not np.allclose(found, expected, atol=2e-4):
        raise SystemExit(f"{name}: metrics differ, ours {found}, PyKEEN {expected}")
    print(
        f"{name:9} ours {fast:7.3f} s ({2 * len(splits['test']) / fast:8.0f} questions/s)  "
        f"PyKEEN {slow:7.3f} s  ratio {slow / fast:6.1f}  "
        f"MRR {found[0]:.6f} / {expected[0]:.6f}  Hits@10 {found[1]:.6f} / {expected[1]:.6f}"
    )


if __name__ == "__main__":
    main()
