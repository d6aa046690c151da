"""Explorers: of a small hostile world, and of a fine-tuned run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.opening import open_explorer
from kept.apps.explorer.server import ExplorerServer
from tests.kept.hostile_world import hostile_graph, served


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


@pytest.fixture
def with_run(finetuned: Path, host: Path, tmp_path: Path) -> Explorer:
    """The methods and one run."""
    return open_explorer(
        finetuned / "kg",
        [finetuned / "run"],
        tokenizer=str(host),
        gold=tmp_path / "gold.jsonl",
    )
