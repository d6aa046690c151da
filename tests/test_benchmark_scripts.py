"""Benchmarks that need what a test has not run at a size for one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.children import ROOT
from tests.forked import Forked

aims = pytest.importorskip(
    "benchmarks.asked", reason="benchmarks are not here: the tests of an installed package"
)
gpu = pytest.importorskip(
    "benchmarks.gpu", reason="benchmarks are not here: the tests of an installed package"
)
PARTS: dict[str, float] = gpu.PARTS
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def checkout() -> None:
    if not BENCHMARKS.is_dir():
        pytest.skip("benchmarks are not here: the tests of an installed package")


def rows_of(script: str, *flags: str) -> list[dict[str, Any]]:
    """The JSON lines that a benchmark prints."""
    process = Forked([BENCHMARKS / script, *flags], os.environ)
    stdout, _ = process.communicate(600)
    assert process.returncode == 0, stdout
    return [
        json.loads(row) for row in re.findall(r'\{"(?:work|row|part)".*\}$', stdout, re.MULTILINE)
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is at hand")
def test_without_a_gpu_its_benchmark_says_so() -> None:
    (row,) = rows_of("gpu.py")
    assert row["found"] is None
    assert "there is no GPU" in row["said"]


@pytest.mark.slow
def test_what_a_gpu_does_is_measured_small_on_a_cpu(tmp_path: Path) -> None:
    rows = rows_of("gpu.py", "--small", "-o", str(tmp_path / "lines.jsonl"))
    written = (tmp_path / "lines.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in written] == rows
    ends = {row["part"]: row["ended"] for row in rows if "part" in row}
    assert ends == dict.fromkeys(PARTS, "done"), rows
    parts = {name: [row for row in rows if row.get("work") == name] for name in PARTS}
    steps = [row for row in parts["step"] if "method" in row]
    assert [row["method"] for row in steps] == ["kbert", "colake", "ernie"]
    assert all(row["nodes_a_second"] > 0 for row in steps)
    assert [row["workers"] for row in parts["pretrain"]] == [0, 1]
    assert len({row["last_loss"] for row in parts["pretrain"]}) == 1  # workers change nothing
    trained, answers, vectors = parts["finetune"]
    assert trained["steps"] == 4
    assert answers["equal"]
    assert answers["same_answers"] == 1
    assert vectors["farthest"] == 0
    for what in ("unequal_to_cpu", "unequal_to_plain"):
        assert [row[what] for row in parts["ranking"] if what in row] == [0, 0]
    assert parts["kgc"][0]["triples_a_second"] > 0
    ways = [row["way"] for row in parts["attention"] if "forward_ms" in row]
    assert ways == ["eager", "sdpa", "flex", "eager", "sdpa"]
    assert all(row["farthest"] < 1e-5 for row in parts["attention"] if "forward_ms" in row)
    assert [row["optimiser"] for row in parts["table"]] == ["adam", "adagrad"]


def test_parts_of_the_gpu_benchmark_without_time_say_so() -> None:
    rows = rows_of("gpu.py", "--small", "--minutes", "0.02", "--only", "pretrain", "attention")
    ended = [(row["part"], row["ended"]) for row in rows if "part" in row]
    assert ended == [("pretrain", "no time was left"), ("attention", "no time was left")]


@pytest.mark.slow
def test_a_part_of_the_gpu_benchmark_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    code = (
        "import sys, time, types; from benchmarks import gpu\n"
        "part = types.ModuleType('benchmarks.on_gpu.attention')\n"
        "part.run = lambda trial: time.sleep(60)\n"
        "sys.modules[part.__name__] = part\n"
        "print(gpu.run_part('attention', 0.5, True, None)['ended'])"
    )
    (tmp_path / "sleeping.py").write_text(code, encoding="utf-8")
    process = Forked([tmp_path / "sleeping.py"], os.environ)
    stdout, _ = process.communicate()
    assert process.returncode == 0, stdout
    assert stdout.splitlines()[-1] == "its time was up"


WITHOUT_PEERS = """
import sys
for name in ("ahocorasick", "dgl", "duckdb", "polars", "pykeen", "flashtext", "spacy", "xllamacpp"):
    sys.modules[name] = None
"""


@pytest.mark.parametrize(
    ("script", "n_left_out"),
    [("graphs/readers.py", 2), ("linking/one_call.py", 1), ("linking/linking.py", 2)],
)
def test_a_peer_that_is_missing_is_named_and_the_rest_is_run(
    script: str, n_left_out: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_PEERS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    monkeypatch.delenv("KEPT_DATA", raising=False)
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *shlex.split(aims.SMALL[script])],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    left_out = [row["skipped"] for row in rows if "skipped" in row]
    assert len(left_out) == n_left_out
    assert all(reason.endswith("is not installed (`make venv` installs it)") for reason in left_out)
    assert any("kept_us" in row or "kept_ms" in row or "kept_s" in row for row in rows)


QUICK = (
    "graphs/neighbours.py", "graphs/wordgraphs.py", "linking/dense_kinds.py",
    "linking/link_scale.py", "models/probing.py",
    "models/sparse_updates.py",
)  # fmt: skip
"""Scripts whose small trial takes a few seconds; `python -m benchmarks --small` tries all."""


@pytest.mark.minilm
@pytest.mark.parametrize("script", QUICK)
def test_a_quick_script_runs_at_a_tiny_size(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEPT_DATA", raising=False)
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *shlex.split(aims.SMALL[script])],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert rows
    assert [row for row in rows if "skipped" in row] == []
    assert [row for row in rows if row.get("equal") is False] == []


@pytest.mark.slow
@pytest.mark.minilm
def test_processes_are_compared_and_more_of_them_simulated() -> None:
    rows = rows_of("linking/processes.py", *shlex.split(aims.SMALL["linking/processes.py"]))
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
