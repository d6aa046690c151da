"""Committed files of studies whose parts are tested elsewhere, each run once on hand-made data."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.fewshot.trial import read, table
from kept.kgc.split import split_examples
from kept.lab.completion.compare import compare
from kept.lab.completion.config import CompletionConfig
from kept.lab.completion.tables import to_markdown
from kept.training.finetuning.fewshot import run_fewshot
from tests.kept.tiny_task_files import PEOPLE, relation_examples, world_graph, write_task_file
from tests.kept.training.tiny_pretraining import write_host

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FEWSHOT = EXPERIMENTS / "fewshot" / "episodes.yaml"
COMPLETION = EXPERIMENTS / "wk_completion" / "trex.yaml"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_host(tmp_path_factory.mktemp("host")))


def test_fewshot_episodes(host: str, tmp_path: Path) -> None:
    """Every way and shot of the file, over sixteen relations that training left out."""
    examples = relation_examples()
    world_graph(examples).save(tmp_path / "kg")
    small = {
        "n_episodes": 3, "task.host": host, "task.method": "kbert", "task.max_asked": 8,
        "task.graph": {"max_words": 32, "max_nodes": 64},
        "task.training": {"steps": 2, "batch_size": 4, "threads": 1, "device": "cpu"},
    }  # fmt: skip
    config = read(FEWSHOT, tmp_path, tmp_path / "kg", small)
    names = [*config.task["leave_out"], "a seen relation", "another"]
    train = [dataclasses.replace(e, relation=names[i % 18]) for i, e in enumerate(examples)]
    novel = [dataclasses.replace(e, relation=names[i % 16]) for i, e in enumerate(examples)]
    write_task_file(Path(config.task["train"]), config.task["format"], train[:36])
    write_task_file(config.novel, config.novel_format, novel[40:])
    result = run_fewshot(config, tmp_path / "run")
    assert result["n_relations"] == 16
    assert result["labels"] == ["a seen relation", "another"]
    assert all(0 <= each["estimate"] <= 1 for each in result["scores"].values())
    rows = table(config, result).splitlines()[2:]
    assert [row.split(" | ")[-1] for row in rows] == [f"{p.value} |" for p in config.published]


def test_word_knowledge_completion(host: str, tmp_path: Path) -> None:
    """Every scorer, DKRL and CoLAKE with its controls, in both settings."""
    plan = yaml.safe_load(COMPLETION.read_text())
    CompletionConfig.model_validate(plan)
    training = {"steps": 2, "batch_size": 4, "warmup_steps": 1}
    recipes = {
        name: recipe
        | {"n_epochs": 1, "batch_size": 64}
        | ({} if name == "dkrl" else {"n_negatives": 4})
        for name, recipe in plan["recipes"].items()
    }
    small = {
        "host": host, "n_transductive": 10, "n_inductive": 6,
        "builder": plan["builder"] | {"max_words": 24, "max_nodes": 48},
        "training": plan["training"] | training, "recipes": recipes,
    }  # fmt: skip
    config = CompletionConfig.model_validate(plan | small)
    examples = relation_examples()
    split = split_examples(
        examples, world_graph(examples), n_valid=config.n_valid,
        n_transductive=config.n_transductive, n_inductive=config.n_inductive,
        inductive_heads=PEOPLE[:10], generator=np.random.default_rng(0),
        max_sentences_per_fact=config.max_sentences_per_fact,
    )  # fmt: skip
    page = to_markdown(compare(split, config, tmp_path))
    for name in ("TransE", "DistMult", "ComplEx", "RotatE", "DKRL", "CoLAKE"):
        assert f"| {name} |" in page
    assert "## Inductive" in page
