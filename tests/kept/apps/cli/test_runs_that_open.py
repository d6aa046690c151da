"""A run whose model cannot be opened again is not called done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kept.apps.cli.training import run as training_run
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
    monkeypatch.setattr(training_run, "train", _spoilt(training_run.train, name))
    done = finetune(world, "--steps", 1, "-o", tmp_path / "run", method="none")
    words = " ".join(done.output.split())
    assert done.exit_code == 1, done.output
    assert "but cannot be opened" in words
    assert "finished" not in words
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_pretraining(
    tmp_path: Path, small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = write_everything(tmp_path, small_graph)
    (tmp_path / "run.yaml").write_text(json.dumps(settings))  # JSON is YAML
    spoilt = _spoilt(training_run.train, "model.safetensors")
    monkeypatch.setattr(training_run, "train", spoilt)
    done = kept("pretrain", "-c", tmp_path / "run.yaml", "-o", tmp_path / "run")
    words = " ".join(done.output.split())
    assert done.exit_code == 1, done.output
    assert "finished" not in words
    assert not (tmp_path / "run" / "README.md").exists()


ONE_CLASS = {
    "classification": "\n".join(f"old\tnear Paris is {i}" for i in range(12)),
    "tagging": "\n\n".join(f"the B-x\nParis B-x\n{i} B-x" for i in range(8)),
    "typing": json.dumps(
        [{"sent": f"the Paris is {w}", "start": 4, "end": 9, "labels": ["city"], "ents": []}
         for w in "abcdefgh"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", ONE_CLASS)
def test_a_training_with_one_class_is_warned_of_and_opens(
    task: str, world: Path, tmp_path: Path
) -> None:
    """transformers refuses the configuration of a classification of one class."""
    (tmp_path / "one.txt").write_text(ONE_CLASS[task])
    flags = ["--train", tmp_path / "one.txt", "--steps", 1, "-o", tmp_path / "run"]
    done = finetune(world, *flags, task=task, method="none")
    words = " ".join(done.output.split())
    assert done.exit_code == 0, done.output
    assert "with one class every model is right" in words
    assert (tmp_path / "run" / "metrics.json").exists()
    target = ["--target", "Paris"] if task == "typing" else []
    answer = kept("predict", tmp_path / "run", "the Paris, old", "--kg", world / "kg", *target)
    assert answer.exit_code == 0, answer.output
    expected = {"classification": "old", "tagging": "B-x, B-x, B-x, B-x"}.get(task)
    assert expected in (None, answer.output.strip().splitlines()[-1])


def test_a_text_without_a_word_is_refused_by_a_tagger(world: Path, tmp_path: Path) -> None:
    finetune(world, "--steps", 1, "-o", tmp_path / "run", task="tagging", method="none")
    answer = kept("predict", tmp_path / "run", " ", "--kg", world / "kg")
    assert answer.exit_code == 1, answer.output
    assert "has no word to tag" in answer.output
