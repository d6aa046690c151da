"""A run whose model cannot be opened again is not called done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kept.cli.training import finetune_run, pretrain_run
from kg_loaders import KnowledgeGraph
from tests.kept.training.test_finetune_command import finetune, kept, world
from tests.kept.training.tiny_pretraining import write_everything

__all__ = ["world"]


def _spoilt(train: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The training, after which a file of the model is cut in the middle."""

    def trained(*parts: Any, **options: Any) -> Any:
        result = train(*parts, **options)
        path = Path(parts[3]) / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return result

    return trained


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_finetuning(
    name: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune_run, "train", _spoilt(finetune_run.train, name))
    done = finetune(world, "--steps", 1, "-o", tmp_path / "run", method="none")
    words = " ".join(done.output.split())
    assert done.exit_code == 1, done.output
    assert "cannot be opened again" in words
    assert "finished" not in words
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_pretraining(
    tmp_path: Path, small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = write_everything(tmp_path, small_graph)
    (tmp_path / "run.yaml").write_text(json.dumps(settings))  # JSON is YAML
    monkeypatch.setattr(pretrain_run, "train", _spoilt(pretrain_run.train, "model.safetensors"))
    done = kept("pretrain", "-c", tmp_path / "run.yaml", "-o", tmp_path / "run")
    words = " ".join(done.output.split())
    assert done.exit_code == 1, done.output
    assert "finished" not in words
    assert not (tmp_path / "run" / "README.md").exists()
