"""The committed experiment: its configuration loads, and its results belong to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from experiments.wk_completion.data import read_world
from kept.lab.completion.config import CompletionConfig
from kept.lab.demo.run import demo_config

FOLDER = Path(__file__).parents[2] / "experiments" / "wk_completion"


def test_configurations_load() -> None:
    config = CompletionConfig.model_validate(yaml.safe_load((FOLDER / "trex.yaml").read_text()))
    assert config.colake.builder.max_neighbours == 4
    assert demo_config().atlas.training.steps == 40


def test_results_belong_to_the_configuration() -> None:
    config = CompletionConfig.model_validate(yaml.safe_load((FOLDER / "trex.yaml").read_text()))
    results = json.loads((FOLDER / "results.json").read_text())
    assert results["counts"]["transductive facts"] == config.n_transductive
    assert results["counts"]["inductive facts"] == config.n_inductive
    table = (FOLDER / "results.md").read_text()
    for row in results["rows"]:
        assert f"| {row['method']} |" in table
        if row["metrics"] is not None:
            assert f"{row['metrics']['mrr']:.3f}" in table
    for check in results["audit"][:5]:
        assert check["n_found"] == 0, check


@pytest.mark.data
@pytest.mark.slow
def test_the_world_is_read(data_root: Path) -> None:
    world = read_world(data_root)
    assert len(world.examples) == 98_579
    assert (world.graph.n_entities, world.graph.n_relations) == (38_433, 64)
    assert len(world.inductive_heads) > 500
    assert world.report.n_rejected == 0
    assert world.report.n_skipped == 287
