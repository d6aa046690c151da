"""The benchmarks of linking run, at a toy size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _run(file: str, *options: str) -> str:
    if not BENCHMARKS.is_dir():
        pytest.skip("benchmarks are not here: the tests of an installed package")
    environment = {name: value for name, value in os.environ.items() if name != "KEPT_DATA"}
    command = [sys.executable, str(BENCHMARKS / file), *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _rows(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_scale(tmp_path: Path) -> None:
    rows = _rows(_run("linking/link_scale.py", "--entities", "300", "--folder", str(tmp_path)))
    of = {stage: [row for row in rows if row["row"].startswith(stage) and "entities" in row]
          for stage in ("build", "open")}  # fmt: skip
    for stage, each in of.items():
        assert [(row["row"], row["entities"]) for row in each] == [
            (f"{stage} {name}", n) for n in (75, 150, 300) for name in ("graph", "names", "fuzzy")
        ]
    assert of["build"][-3]["made"].startswith("300 entities,")
    assert {row["answered"] for row in of["open"]} == {1.0}
    assert sum("kept_exponent" in row for row in rows) == 9


def test_linking() -> None:
    sizes = ("--names", "300", "--sentences", "40", "--repeats", "1")
    report = _run("linking/linking.py", *sizes, "--peers", "flashtext")
    assert "300 made names, 40 made sentences" in report
    rows = _rows(report)
    (flashtext,) = (row for row in rows if row.get("peer") == "flashtext")
    assert flashtext["common"] == 1.0  # made names are ASCII letters: the same mentions
    assert flashtext["kept_only"] == flashtext["peer_only"] == {}
    assert sum("recall_at_10" in row for row in rows) == 2
