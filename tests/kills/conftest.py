"""The world in which commands are killed, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kg_loaders import KnowledgeGraph
from tests.kills.kill_commands import LINK, Invocation, make_world
from tests.kills.kill_harness import Death, run_child


@pytest.fixture(scope="session")
def killing(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    """A world, and what two of the commands begin with."""
    world = tmp_path_factory.mktemp("world")
    make_world(world, small_graph)
    out = tmp_path_factory.mktemp("linked")
    places = {"OUT": out, "WORLD": world}
    linked = run_child(Invocation(LINK, places), out)
    assert linked.code == 0, linked.output
    shutil.copy(out / "links.jsonl", world / "links.jsonl")
    (out / "links.jsonl").unlink()
    first = next(
        n for n, event in enumerate(linked.events) if event.startswith("open links.jsonl.part")
    )
    assert run_child(Invocation(LINK, places), out, Death(first + 1)).code is None
    shutil.copy(out / "links.jsonl.part.json", world / "part.json")
    return world
