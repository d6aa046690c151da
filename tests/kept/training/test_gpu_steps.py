"""Steps on a GPU that is not there: no tensors of two devices, the same losses, no waiting.

Losses are the same but for rounding: a processor may choose another kernel for its linear layers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kept.methods import METHODS
from kg_loaders import KnowledgeGraph
from tests.children import with_tests

WAITS = {
    "colake": 1, "kadapter": 1, "ebert": 3, "luke": 5, "qagnn": 30, "greaselm": 6,
    "transe shared": 20, "complex shared": 20, "rotate shared": 20,
}  # fmt: skip
"""Of the methods that wait for the GPU in a step, how often; each is to become 0.

colake: a table's rows of two readings are added up. kadapter: targets of chosen samples. ebert:
entities without a vector are looked for. luke: its nodes are checked. qagnn, greaselm: the
statistics of batch normalisation are those of real places. Scorers with shared negatives, in ten
batches: which rows a batch reads is counted on the GPU.
"""


@pytest.fixture(scope="module")
def steps(
    tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph
) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("gpu") / "kg"
    small_graph.save(folder)
    script = Path(__file__).with_name("gpu_steps.py")
    process = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(folder)],
        env=with_tests(OMP_NUM_THREADS="1", TQDM_DISABLE="1"),
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]
    rows = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    return {row["method"]: row for row in rows}


def test_every_method_and_scorer_computes_the_same_there(
    steps: dict[str, dict[str, Any]],
) -> None:
    assert {*METHODS} <= {*steps}
    assert {name for name, row in steps.items() if not row["same"]} == set()


def test_no_step_waits_for_the_gpu_more_often_than_is_known(
    steps: dict[str, dict[str, Any]],
) -> None:
    waits = {name: sum(row["waits"].values()) for name, row in steps.items()}
    assert {name: n for name, n in waits.items() if n} == WAITS, {
        name: row["waits"] for name, row in steps.items() if row["waits"]
    }
