"""The world in which commands are killed, made once."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

import pytest
from kill_commands import LINK, invoke, make_world
from kill_harness import Death, run_child

from kg_loaders import KnowledgeGraph

WARM = (
    "kept.cli.link.run", "kept.cli.training.pretrain_run", "kept.cli.training.finetune_run",
    "kept.cli.comparing.compare_run",
    "matplotlib.backends.backend_agg", "kept.linking.graphs", "kept.encoders.kbert",
    "transformers.models.bert.modeling_bert",
)  # fmt: skip


@pytest.fixture(scope="session")
def killing(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    """A world, made in a child so that this process starts no threads that a fork would lose."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in WARM:
        importlib.import_module(name)
    world = tmp_path_factory.mktemp("world")

    def work() -> int:
        make_world(world, small_graph)
        return 0

    made = run_child(work, world)
    assert made.code == 0, made.output
    out = tmp_path_factory.mktemp("linked")
    places = {"OUT": out, "WORLD": world}
    linked = run_child(invoke(LINK, places), out)
    assert linked.code == 0, linked.output
    shutil.copy(out / "links.jsonl", world / "links.jsonl")
    (out / "links.jsonl").unlink()
    begun = next(
        n for n, event in enumerate(linked.events) if event.startswith("open links.jsonl.part")
    )
    assert run_child(invoke(LINK, places), out, Death(begun + 1)).code is None
    shutil.copy(out / "links.jsonl.part.json", world / "part.json")
    return world
