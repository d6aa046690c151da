"""`kept finetune` with strategies of adaptation, from the command line to a folder and back."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import load_file

from kept.auto import AutoEncoder
from kept.training.log import read_log
from tests.kept.training.test_finetune_command import finetune, kept, world

__all__ = ["world"]  # a fixture


def test_lora_and_a_mixture_unfrozen_in_turn(world: Path, tmp_path: Path) -> None:
    """Stopped and resumed from its folder, it ends as if it had not been; the folder opens."""
    flags = [
        "--steps", 6, "--set", "lora.rank=2", "--set", "layer_mix.layer_norm=true", "--set",
        "training.unfreezing.order=gradual", "--set", "training.unfreezing.every=2",
    ]  # fmt: skip
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert finetune(world, *flags, "-o", whole).exit_code == 0
    assert finetune(world, *flags, "-o", cut, "--budget-minutes", 1e-9).exit_code == 0
    resumed = kept("finetune", "-o", cut, "--resume", "--set", "training.budget_minutes=null")
    assert resumed.exit_code == 0, resumed.output
    one, other = (load_file(folder / "model.safetensors") for folder in (whole, cut))
    assert list(one) == list(other)
    assert all(one[name].equal(other[name]) for name in one)
    assert (whole / "metrics.json").read_text() == (cut / "metrics.json").read_text()
    metrics = json.loads((whole / "metrics.json").read_text())
    assert len(metrics["layer_mix"]["weights"]) == 3
    groups = [row["groups"] for row in read_log(whole / "log.jsonl")]
    assert groups[0] == groups[1] == ["head"]
    assert groups[-1] == ["layer.0", "layer.1", "head"]
    encoded = AutoEncoder.from_pretrained(whole).encode(["Paris"], kg=world / "kg")
    assert encoded.sentences.isfinite().all()


def test_a_second_stage_drops_heads_and_keeps_what_is_inside(
    world: Path,
    tmp_path: Path,
) -> None:
    """Pre-training with LoRA inside, then a task on it; a second LoRA on top is refused."""
    first = ["-c", world / "pretrain.yaml", "--set", "options.inside.lora.rank=2"]
    assert kept("pretrain", *first, "-o", tmp_path / "first").exit_code == 0
    before = load_file(tmp_path / "first/model.safetensors")
    moved = [n for n, v in before.items() if ".lora_B." in n and v.any()]
    assert moved
    host = load_file(world / "host/model.safetensors")
    for name, value in host.items():
        if "encoder.layer" in name and "query" not in name and "value" not in name:
            assert before[f"encoder.host.{name}"].equal(value), name
    flags = ["--model", tmp_path / "first", "--steps", 2]
    assert finetune(world, *flags, "-o", tmp_path / "second").exit_code == 0
    after = load_file(tmp_path / "second/model.safetensors")
    assert not any(name.startswith("objectives.") for name in after)
    assert set(moved) <= set(after)
    again = finetune(world, *flags, "--set", "lora.rank=2", "-o", tmp_path / "third")
    assert again.exit_code == 1
    assert "carries ['lora'] already" in again.stderr.replace("\n", " ")
