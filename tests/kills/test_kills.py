"""Killed at any file-system event: old or whole, gone on with to the same bytes, and no litter.

A sample of the events here; `make kill` takes every one and prints the table.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from kill_commands import COMMANDS, LINK, Trials, invoke, make_world
from kill_harness import Death, deaths, run_child

from kg_loaders import KnowledgeGraph

STRIDE = int(os.environ.get("KEPT_KILL_STRIDE", "0"))
"""1: every event. 0: about six deaths a command."""
N_SAMPLED = 6
COSTLY = ("pretrain", "finetune", "compare")
WARM = (
    "kept.cli.link_run", "kept.cli.pretrain_run", "kept.cli.finetune_run", "kept.cli.compare_run",
    "matplotlib.backends.backend_agg", "kept.linking.graphs", "kept.encoders.kbert",
    "transformers.models.bert.modeling_bert",
)  # fmt: skip


@pytest.fixture(scope="module")
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


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_anywhere(name: str, killing: Path, tmp_path: Path) -> None:
    trials = Trials(COMMANDS[name], killing, tmp_path)
    ended, before, whole = trials.reference()
    assert len(ended.events) > 5
    assert not any(Path(left).name.startswith(".") for left in whole), sorted(whole)
    stride = STRIDE or max(1, len(ended.events) // N_SAMPLED)
    chosen = deaths(ended.events, stride)
    found = Counter(trials.trial(death, before, whole) for death in chosen)
    states = ", ".join(f"{n} {state}" for state, n in sorted(found.items()))
    print(  # noqa: T201  # the table of `make kill`
        f"\n| {name} | {len(ended.events)} | {len(chosen)} | {states} | all equal, no litter |"
    )
    assert json.dumps(whole)
