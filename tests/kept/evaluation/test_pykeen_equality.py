"""Metrics equal PyKEEN's to five digits on the same weights, under every tie rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kept.evaluation.ranking import Filter, rank
from kept.kge import Scorer, TrainingConfig, make_scorer, train
from kept.kge.splits import Splits, read_splits

models = pytest.importorskip("pykeen.models", reason="needs pykeen")
from pykeen.evaluation import RankBasedEvaluator  # noqa: E402
from pykeen.triples import CoreTriplesFactory  # noqa: E402

# PyKEEN's RotatE has the L2 norm alone: its sum of moduli would have nothing to be compared with
CASES = [("transe", 1), ("transe", 2), ("distmult", None), ("complex", None), ("rotate", 2)]
METRICS = {
    "mr": "arithmetic_mean_rank",
    "mrr": "inverse_harmonic_mean_rank",
    **{f"hits@{k}": f"hits_at_{k}" for k in (1, 3, 10)},
}


def as_pykeen(name: str, norm: Any, ours: Scorer, triples: np.ndarray) -> Any:
    """PyKEEN's model with our vectors; it interleaves real and imaginary parts."""
    factory = CoreTriplesFactory(torch.from_numpy(triples), ours.n_entities, ours.n_relations)
    entities, relations = ours.entities.detach(), ours.relations.detach()
    if name in ("complex", "rotate"):
        entities = torch.stack(entities.chunk(2, -1), -1).flatten(1)
    if name == "complex":
        relations = torch.stack(relations.chunk(2, -1), -1).flatten(1)
    if name == "rotate":
        relations = torch.stack([relations.cos(), relations.sin()], -1).flatten(1)
    kinds = {"transe": models.TransE, "distmult": models.DistMult, "complex": models.ComplEx,
             "rotate": models.RotatE}  # fmt: skip
    theirs = kinds[name](
        triples_factory=factory, random_seed=0,
        embedding_dim=ours.width // 2 if name in ("complex", "rotate") else ours.width,
        **({"scoring_fct_norm": norm} if name == "transe" else {}),
    )  # fmt: skip
    theirs.to(entities.dtype)
    for weights, module in ((entities, theirs.entity_representations[0]),
                            (relations, theirs.relation_representations[0])):  # fmt: skip
        module._embeddings.weight.data.copy_(weights)
    return theirs


def assert_equal_metrics(
    name: str, norm: Any, ours: Scorer, splits: dict[str, np.ndarray], sizes: dict[str, int]
) -> float:
    parts = {part: np.asarray(rows, np.int64) for part, rows in splits.items()}
    theirs = as_pykeen(name, norm, ours, parts["train"])
    others = [torch.from_numpy(rows) for part, rows in parts.items() if part != "test"]
    answer = RankBasedEvaluator(filtered=True).evaluate(
        theirs, torch.from_numpy(parts["test"]), additional_filter_triples=others, use_tqdm=False,
        batch_size=32,
    )  # fmt: skip
    result = rank(ours, parts["test"], filter=Filter(parts, **sizes), ties="realistic",
                  directions=("head", "tail"), candidates="all")  # fmt: skip
    for ties in ("optimistic", "realistic", "pessimistic"):
        for side in ("head", "tail", "both"):
            of_ties = replace(result, ties=ties)
            metrics = (of_ties if side == "both" else of_ties.of(side)).metrics()
            expected = {
                metric: answer.get_metric(f"{side}.{ties}.{theirs_called}")
                for metric, theirs_called in METRICS.items()
            }
            assert metrics == pytest.approx(expected, rel=1e-6, abs=1e-6), (ties, side)
    return result.mrr


@pytest.mark.parametrize("weights", ["grid", "continuous"])
@pytest.mark.parametrize(("name", "norm"), CASES)
def test_on_a_small_graph(name: str, norm: Any, weights: str):
    """On a grid sums are exact, so many scores tie; continuous vectors hardly ever do."""
    sizes = {"n_entities": 25, "n_relations": 4}
    draws = np.random.default_rng(0)
    triples = np.unique(draws.integers(0, [25, 4, 25], (300, 3)), axis=0)
    draws.shuffle(triples)
    ours = make_scorer(name, **sizes, width=6, generator=torch.Generator().manual_seed(1),
                       norm=norm).double()  # fmt: skip
    if weights == "grid":
        with torch.no_grad():
            ours.entities.mul_(4).round_().div_(4)
            if name != "rotate":  # its phases make no exact numbers
                ours.relations.mul_(4).round_().div_(4)
    splits = {"train": triples[:150], "valid": triples[150:180], "test": triples[180:]}
    assert_equal_metrics(name, norm, ours, splits, sizes)


@pytest.fixture(scope="module")
def codex(data_root: Path) -> Splits:
    return read_splits(data_root / "codex" / "codex-s", holdout=0.1, seed=0)


@pytest.mark.data
@pytest.mark.parametrize(("name", "norm"), CASES)
def test_on_codex_s(name: str, norm: Any, codex: Splits):
    """48 questions among all entities, in float64: float32 rounds ties apart, one rank in 800."""
    read = codex
    sizes = {"n_entities": read.graph.n_entities, "n_relations": read.graph.n_relations}
    generator = torch.Generator().manual_seed(0)
    ours = make_scorer(name, **sizes, width=32, generator=generator, norm=norm)
    config = TrainingConfig(
        n_epochs=1, batch_size=512, learning_rate=0.1, objective="negative_sampling",
        n_negatives=32, share_negatives=True,
    )  # fmt: skip
    train(ours, read.train, config=config, generator=generator)
    splits = read.as_mapping()
    splits["test"] = splits["test"][:48]
    assert assert_equal_metrics(name, norm, ours.double(), splits, sizes) > 0.02  # chance is 0.004
