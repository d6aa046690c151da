"""Batches that hold nothing to learn are skipped and counted; a run of nothing else is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kept.batches import KnowledgeBatch
from kept.errors import ConfigError
from kept.outputs import KnowledgeOutput
from kept.training.log import read_log
from kept.training.loop import train
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_run import Watcher
from tests.kept.training.training_toy import toy_config, toy_model, weights_hash


def silent_in(monkeypatch: pytest.MonkeyPatch, model: nn.Module, is_silent: Any) -> None:
    """Take the losses of the batches, by their number, for which `is_silent` holds."""
    calls, forward = iter(range(10**6)), model.forward

    def without(batch: KnowledgeBatch) -> KnowledgeOutput:
        output: KnowledgeOutput = forward(batch)
        return dataclasses.replace(output, losses={}) if is_silent(next(calls)) else output

    monkeypatch.setattr(model, "forward", without)


def test_some_are_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, watcher = toy_model(), Watcher()
    silent_in(monkeypatch, model, lambda number: number % 3 == 0)
    ended = train(model, ToyData(), toy_config(), tmp_path, reporter=watcher)
    assert (ended.step, ended.stopped) == (12, "finished")
    assert any("4 batches held nothing" in notice for notice in watcher.notices)
    rows = read_log(tmp_path / "log.jsonl")
    assert [not row["losses"] for row in rows] == [step % 3 == 0 for step in range(12)]
    assert [row["gradient_norm"] is None for row in rows] == [s % 3 == 0 for s in range(12)]


@pytest.mark.parametrize("silent", range(1, 32))
def test_any_batches_of_five(silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`silent` has a bit for each batch without a loss; all five at once are refused."""
    model, watcher = toy_model(), Watcher()
    silent_in(monkeypatch, model, lambda number: bool(silent >> number % 5 & 1))
    if silent == 31:
        with pytest.raises(ConfigError, match="none of 5 batches has anything"):
            train(model, ToyData(), toy_config(steps=5), tmp_path)
        return
    ended = train(model, ToyData(), toy_config(steps=5), tmp_path, reporter=watcher)
    assert (ended.step, ended.stopped) == (5, "finished")
    rows = read_log(tmp_path / "log.jsonl")
    assert [bool(row["losses"]) for row in rows] == [not silent >> n & 1 for n in range(5)]
    assert any(f"{silent.bit_count()} batch" in notice for notice in watcher.notices)


def test_a_skipped_step_changes_no_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, hashes = toy_model(), [weights_hash(toy_model())]
    silent_in(monkeypatch, model, lambda number: number in (2, 3))

    def note(model: nn.Module, step: int) -> dict[str, float]:
        hashes.append(weights_hash(model))
        return {}

    train(model, ToyData(), toy_config(evaluate_every=1, steps=5), tmp_path, evaluate=note)
    assert hashes[2] == hashes[3] == hashes[4]
    assert len(set(hashes)) == 4
    assert torch.isfinite(torch.cat([p.flatten() for p in model.parameters()])).all()


def test_a_run_without_any_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy_model()
    silent_in(monkeypatch, model, lambda number: True)
    with pytest.raises(ConfigError, match="none of 12 batches has anything for the model"):
        train(model, ToyData(), toy_config(), tmp_path)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_long_run_without_any_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy_model()
    silent_in(monkeypatch, model, lambda number: True)
    with pytest.raises(ConfigError, match="none of 100 batches"):
        train(model, ToyData(), toy_config(steps=10_000), tmp_path)
