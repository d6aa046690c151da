"""CoDEx-S in a minute: the training, the filter and the ranking together on real data."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kept.evaluation.ranking import Filter, rank
from kept.kge import RECIPES, make_scorer, train
from kept.kge.splits import read_splits


@pytest.mark.data
@pytest.mark.slow
def test_a_short_complex_training_on_codex_s(data_root: Path):
    splits = read_splits(data_root / "codex" / "codex-s", holdout=0.1, seed=0)
    graph = splits.graph
    assert (graph.n_entities, graph.n_relations) == (2034, 42)
    assert [len(part) for part in splits.as_mapping().values()] == [32_888, 1_827, 1_828]
    sizes = {"n_entities": graph.n_entities, "n_relations": graph.n_relations}
    width, recipe = RECIPES["complex"]
    generator = torch.Generator().manual_seed(0)
    scorer = make_scorer("complex", **sizes, width=width, generator=generator)
    started = time.process_time()
    train(scorer, splits.train, config=replace(recipe, n_epochs=4), generator=generator)
    assert time.process_time() - started < 60
    result = rank(scorer, splits.test, filter=Filter(splits.as_mapping(), **sizes),
                  ties="realistic", directions=("head", "tail"), candidates="all")  # fmt: skip
    # published 0.465 after a full training; four epochs give about 0.39
    assert result.mrr > 0.30
