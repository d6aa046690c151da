"""Ctrl-C, and a budget that is spent, before the first run of `kept compare` ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from kg_loaders import KnowledgeGraph
from tests.forked import Forked
from tests.kills.kill_commands import make_world

STARTED = """
from kept.training import loop
original = loop.train
def announced(*parts, **options):
    print("TRAINING", flush=True)
    return original(*parts, **options)
import kept.lab.comparison.continued_pretraining as pretraining
import kept.lab.comparison.trial as runs
runs.train = pretraining.train = announced
from kept.apps.cli import main
main()
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    make_world(folder, small_graph)
    text = (folder / "tiny.yaml").read_text().replace("steps: 2", "steps: 100000")
    (folder / "tiny.yaml").write_text(text)
    return folder


def command(world: Path, output: Path, *flags: str) -> Forked:
    script = world / "started.py"
    script.write_text(STARTED)
    line = [
        script, "compare", "--task", world / "tiny.yaml", "--data", world, "-o", output,
        "--seeds", "1", "--controls", "off", "--threads", "1", *flags,
    ]  # fmt: skip
    return Forked(line, os.environ)


def test_ctrl_c_before_the_first_run_ends(world: Path, tmp_path: Path) -> None:
    process = command(world, tmp_path / "runs")
    seen = []
    for line in process.stdout:
        seen.append(line)
        if "TRAINING" in line:
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    seen.append(process.communicate(timeout=120)[0])
    output = "".join(seen)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "StopIteration" not in output
    assert "same command" in output, output


def test_a_budget_that_is_spent_at_once(world: Path, tmp_path: Path) -> None:
    process = command(world, tmp_path / "runs", "--budget", "0")
    output = process.communicate(timeout=120)[0]
    assert process.returncode in (0, 1), output
    assert "StopIteration" not in output
