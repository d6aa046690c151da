"""The committed configurations load, name known scorers and run on toy data, also in pieces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from experiments.kg_completion.tables import page
from experiments.kg_completion.trial import (
    Benchmark,
    ScorerTrial,
    TimeLimitReached,
    train_scorer,
    training_address,
)
from kept.errors import CheckpointError
from kept.kge import SCORERS, TrainingConfig
from kept.kge.splits import read_negatives, read_splits

FOLDER = Path(__file__).parents[2] / "experiments" / "kg_completion"
PLANS = sorted(FOLDER.glob("*.yaml"))
NEVER = float("inf")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    folder = tmp_path_factory.mktemp("toy")
    lines = [f"e{i}\tr{i % 2}\te{(i * 7 + 3) % 20}" for i in range(40)]
    false = [f"e{i % 20}\tr{i % 2}\te{(i * 3 + 1) % 20}" for i in range(20)]
    parts = {"train": lines[:30], "valid": lines[30:35], "test": lines[35:],
             "valid_negatives": false[:10], "test_negatives": false[10:]}  # fmt: skip
    for name, part in parts.items():
        (folder / f"{name}.txt").write_text("\n".join(part))
    splits = read_splits(folder, holdout=0.1, seed=0)
    return Benchmark.of(splits, read_negatives(folder, splits), seed=0)


def small(path: Path) -> dict[str, Any]:
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    for settings in plan["scorers"].values():
        TrainingConfig(**settings["training"])
        settings["width"] = 4
        settings["training"] |= {"n_epochs": 2, "validate_every": 1}
    return plan


def run(
    plan: dict[str, Any], names: list[str], benchmark: Benchmark, folder: Path, deadline: float
) -> dict[str, Any]:
    return ScorerTrial(plan, benchmark, folder, deadline).results(names)


def test_there_are_plans():
    assert [path.stem for path in PLANS] == ["codex-m", "codex-s", "fb15k-237", "wn18rr"]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_loads_and_runs(path: Path, toy: Benchmark, tmp_path: Path):
    plan = small(path)
    assert {*plan["scorers"]} <= {*SCORERS}
    assert {*plan["published"]["ranking"]} <= {*plan["scorers"]}
    results = run(plan, [*plan["scorers"]], toy, tmp_path, NEVER)
    assert list(results) == ["degree", *plan["scorers"]]
    for name, result in results.items():
        assert result["conditions"]["n_scored"] == 10
        assert sum(part["n"] for part in result["categories"]["all"].values()) == 10
        assert ("classification" in result) == (name != "degree")
    report = {"dataset": "toy", "seed": 0, "command": "none", "scorers": results, "n_unseen": 0}
    text = page(report, plan, "no audit")
    for title in ("Triple classification", "By relation category", "By degree of the answer"):
        assert f"## {title}" in text
    for name, theirs in plan["published"]["ranking"].items():
        line = next(line for line in text.split("\n") if line.startswith(f"| {name} "))
        assert f"{theirs['mrr']:.3f} / {theirs['hits@1']:.3f}" in line


def test_a_run_cut_after_an_epoch_goes_on_to_the_same_bits(toy: Benchmark, tmp_path: Path):
    plan = small(FOLDER / "codex-s.yaml")
    (tmp_path / "pieces").mkdir()
    whole = run(plan, ["complex"], toy, tmp_path / "whole", NEVER)["complex"]
    n_pieces = 0
    while True:
        try:
            pieces = run(plan, ["complex"], toy, tmp_path / "pieces", 0.0)["complex"]
            break
        except TimeLimitReached:
            n_pieces += 1
    assert n_pieces == 1
    for one in (whole, pieces):
        assert one["training"].pop("cpu_seconds") >= 0
    assert json.dumps(whole) == json.dumps(pieces)


def test_a_budget_ends_a_training_and_a_changed_plan_starts_anew(toy: Benchmark, tmp_path: Path):
    plan = small(FOLDER / "codex-s.yaml")["scorers"]["transe"]
    plan["training"]["n_epochs"] = 50
    plan["budget_cpu_minutes"] = 1e-9
    seen: list[str] = []
    _, record = train_scorer("transe", plan, toy, state_file=tmp_path / "s.pt", deadline=NEVER,
                           progress=seen.append)  # fmt: skip
    assert (record["n_epochs"], record["budget_used_up"], len(seen)) == (1, True, 1)
    assert "epoch 1 of 50" in seen[0]
    assert np.isfinite(record["validations"][0][1])
    assert training_address(plan, toy) != training_address({**plan, "width": 8}, toy)


def test_another_cut_of_the_same_triples_is_another_training(toy: Benchmark):
    plan, splits = small(FOLDER / "codex-s.yaml")["scorers"]["transe"], toy.splits
    swapped = replace(splits, valid=splits.test, test=splits.valid)
    other = Benchmark.of(swapped, toy.negatives, toy.seed)
    assert swapped.graph.content_hash == splits.graph.content_hash
    assert training_address(plan, other) != training_address(plan, toy)


def test_negatives_given_later_are_asked_without_a_second_training(toy: Benchmark, tmp_path: Path):
    plan = small(FOLDER / "codex-s.yaml")
    without = run(plan, ["complex"], replace(toy, negatives={}), tmp_path, NEVER)["complex"]
    states = [path.read_bytes() for path in tmp_path.glob("*.pt")]
    later = run(plan, ["complex"], toy, tmp_path, NEVER)["complex"]
    assert "classification" not in without
    assert later.pop("classification")["n_true"] == 5
    assert later == without
    assert [path.read_bytes() for path in tmp_path.glob("*.pt")] == states
    assert len(states) == 1


def test_a_run_killed_at_its_result_goes_on_and_half_a_result_is_named(
    toy: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = small(FOLDER / "codex-s.yaml")

    write_bytes = Path.write_bytes

    def cut(path: Path, content: bytes) -> None:
        write_bytes(path, content[:5])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", cut)
        with pytest.raises(KeyboardInterrupt):
            run(plan, ["transe"], toy, tmp_path, NEVER)
    assert run(plan, ["transe"], toy, tmp_path, NEVER)["transe"]["metrics"]["mrr"] > 0
    target = next(tmp_path.glob("transe-*.json"))
    target.write_text('{"mrr"')
    with pytest.raises(CheckpointError, match=r"transe-.*json holds no outcome .* remove it"):
        run(plan, ["transe"], toy, tmp_path, NEVER)
