"""Explorers: of a small hostile world, and of a fine-tuned run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_world import hostile_graph, served
from typer.testing import CliRunner

from entity_linking import RelationExample
from kept.cli import app
from kept.explore.explorer import Explorer
from kept.explore.opening import open_explorer
from kept.explore.server import ExplorerServer
from kg_loaders import KnowledgeGraph


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    """A folder with the hostile graph and a tokenizer."""
    folder = tmp_path_factory.mktemp("hostile")
    hostile_graph().save(folder / "kg")
    tokenizer.save_pretrained(folder / "tokenizer")
    return folder


@pytest.fixture
def explorer(hostile: Path, tmp_path: Path) -> Explorer:
    """The methods, without any run, over the hostile graph."""
    return open_explorer(
        hostile / "kg", (), tokenizer=str(hostile / "tokenizer"), gold=tmp_path / "gold.jsonl"
    )


@pytest.fixture
def server(explorer: Explorer) -> Iterator[ExplorerServer]:
    """A server of that explorer, in a thread."""
    with served(explorer) as running:
        yield running


@pytest.fixture(scope="module")
def finetuned(
    examples: list[RelationExample],
    world: KnowledgeGraph,
    host: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with a run of one step on texts with a class each, and its graph."""
    folder = tmp_path_factory.mktemp("finetuned")
    lines = [f"{example.relation}\t{example.linked.text}" for example in examples[:40]]
    (folder / "train.tsv").write_text("\n".join(lines), encoding="utf-8")
    world.save(folder / "kg")
    arguments = [
        "finetune", "--task", "classification", "--format", "tsv", "--link", "--method", "kbert",
        "--train", str(folder / "train.tsv"), "--kg", str(folder / "kg"), "--host", str(host),
        "--steps", "1", "--batch-size", "4", "-o", str(folder / "run"), "--device", "cpu",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def with_run(finetuned: Path, host: Path, tmp_path: Path) -> Explorer:
    """The methods and one run."""
    return open_explorer(
        finetuned / "kg",
        [finetuned / "run"],
        tokenizer=str(host),
        gold=tmp_path / "gold.jsonl",
    )
