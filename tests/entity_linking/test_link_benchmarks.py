"""The benchmarks of linking run, at a toy size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _run(file: str, *options: str) -> str:
    if not BENCHMARKS.is_dir():
        pytest.skip("benchmarks are not here: the tests of an installed package")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "KEPT_DATA"},
        "PYTHONPATH": str(BENCHMARKS.parent),
    }
    command = [sys.executable, str(BENCHMARKS / file), *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def test_scale(tmp_path: Path) -> None:
    told = _run("linking/link_scale.py", "--entities", "300", "--folder", str(tmp_path))
    rows = [line.split() for line in told.splitlines()]
    built, opened = (
        {row[0]: row for row in rows[start : start + 3]}
        for start in (i + 1 for i, row in enumerate(rows) if row and row[0] in ("build", "open"))
    )
    assert list(built) == list(opened) == ["graph", "names", "fuzzy"]
    assert built["graph"][5:7] == ["300", "entities,"]
    assert {row[4] for row in opened.values()} == {"100.0%"}


def test_linking() -> None:
    sizes = ("--names", "300", "--sentences", "40", "--repeats", "1")
    told = _run("linking/linking.py", *sizes, "--peers", "flashtext")
    assert "300 made names, 40 made sentences" in told
    (flashtext,) = (line.split() for line in told.splitlines() if line.startswith("flashtext"))
    assert flashtext[3] == "100.00%"  # made names are ASCII letters: the same mentions
    assert told.count("recall@10") == 2
