"""Benchmarks that need what a test has not run at a size for one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.forked import Forked

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def checkout() -> None:
    if not BENCHMARKS.is_dir():
        pytest.skip("benchmarks are not here: the tests of an installed package")


def rows_of(script: str, *flags: str) -> list[dict[str, Any]]:
    """The JSON lines that a benchmark prints."""
    process = Forked([BENCHMARKS / script, *flags], os.environ)
    said, _ = process.communicate(600)
    assert process.returncode == 0, said
    return [json.loads(row) for row in re.findall(r'\{"(?:work|row)".*\}$', said, re.MULTILINE)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is at hand")
def test_without_a_gpu_its_benchmark_says_so() -> None:
    (row,) = rows_of("models/gpu.py")
    assert row["found"] is None
    assert "there is no GPU" in row["said"]


@pytest.mark.slow
@pytest.mark.minilm
def test_what_a_gpu_does_is_measured_small_on_a_cpu() -> None:
    rows = rows_of("models/gpu.py", "--small", "--minutes", "1")
    assert rows[0]["found"] == "CPU"
    assert [row["work"] for row in rows[1:]] == [*["attention"] * 3, "step", "table", "pretrain"]
    assert [row["way"] for row in rows[1:4]] == ["eager", "sdpa", "flex"]
    trained = rows[-1]
    assert trained["steps"] == 2
    assert trained["last_loss"] > 0
    assert all(row["nodes_a_second"] > 0 for row in (rows[4], trained))


@pytest.mark.slow
@pytest.mark.minilm
def test_processes_are_compared_and_more_of_them_simulated() -> None:
    rows = rows_of("linking/processes.py", "--texts", "300", "--names", "400", "--repeats", "1",
                   "--methods", "colake", "--triples", "3000")  # fmt: skip
    works = ["kept kg build facts.nt", "kept kg build facts.tsv", "kept link"]
    compared = [row for row in rows if row.get("work") in works]
    assert [row["work"] for row in compared] == [work for work in works for _ in range(3)]
    assert all(1 < row["bound"] <= 2 for row in rows if "bound" in row)
    for measured in compared:
        assert measured["equal"] is True
        assert measured["ratio"] == pytest.approx(measured["one_s"] / measured["two_s"], rel=0.1)
    assert sum("kept_exponent" in row for row in rows) == 3
    forecasts = [row for row in rows if row.get("work") == "forecast, not measured"]
    assert [row["machines"] for row in forecasts] == [1, 8, 64] * 2
    trained = [row["batch_of_32_each_texts_a_second"] for row in forecasts[:3]]
    linked = [row["texts_a_second"] for row in forecasts[3:]]
    assert trained[0] <= trained[1]
    assert linked == sorted(linked)
    assert forecasts[0]["all_reduce_ms"] == 0
