"""What `kept pretrain` and `kept finetune` hand on, and refuse before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.training import finetune_run, pretrain_run
from kg_loaders import KnowledgeGraph

RUNS: dict[str, Any] = {"pretrain": pretrain_run, "finetune": finetune_run}
FINETUNE = [
    "finetune", "--task", "classification", "--format", "tsv", "--train", "t", "--kg", "kg",
    "--method", "kbert", "--steps", "3", "--batch-size", "2",
]  # fmt: skip
PRETRAIN = [
    "pretrain", "--method", "ernie", "--kg", "kg", "--text", "t.jsonl", "--steps", "3",
    "--batch-size", "2",
]  # fmt: skip


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_graph: KnowledgeGraph) -> None:
    """What options name is there."""
    monkeypatch.chdir(tmp_path)
    for name in ("t", "t.jsonl"):
        (tmp_path / name).write_text("", encoding="utf-8")
    small_graph.save(tmp_path / "kg")


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the runs are started with; none is made."""
    calls: list[dict[str, Any]] = []
    for module in RUNS.values():

        def run(*arguments: Any) -> None:  # the options last, with a fine-tuning's fields before
            options = arguments[-1]
            fields = arguments[0] if len(arguments) == 2 else options.fields()
            calls.append({"fields": fields, "options": options})

        monkeypatch.setattr(module, "run", run)
    return calls


def start(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize("command", [PRETRAIN, FINETUNE])
def test_trackers_and_the_rest_are_handed_on(
    command: list[str], handed: list[dict[str, Any]], tmp_path: Path
) -> None:
    flags = ("--track", "tensorboard", "--skip-damaged", "-o", tmp_path / "run")
    result = start(*command, *flags)
    assert result.exit_code == 0, result.output
    plain = start(*command, "-o", tmp_path / "run")
    assert plain.exit_code == 0, plain.output
    first, second = handed
    assert list(first["options"].track) == ["tensorboard"]
    assert list(second["options"].track) == []
    assert (first["options"].skip_damaged, second["options"].skip_damaged) == (True, False)
    assert first["options"].output == tmp_path / "run"
    assert first["fields"]["training.steps"] == 3
    assert first["fields"]["kg"] == second["fields"]["kg"]


@pytest.mark.parametrize(
    ("without", "named"),
    [
        ("--task", "--task"), ("--train", "--train"), ("--method", "--method or --model"),
        ("--format", "--format"), ("--kg", "--kg"),
    ],
)  # fmt: skip
def test_what_a_new_finetuning_needs_is_named(
    without: str, named: str, handed: list[dict[str, Any]], tmp_path: Path
) -> None:
    position = FINETUNE.index(without)
    left = [*FINETUNE[:position], *FINETUNE[position + 2 :], "-o", tmp_path / "run"]
    refused = start(*left)
    assert refused.exit_code != 0
    assert f"missing: {named}" in refused.stderr
    assert handed == []
    for flag in ("--resume", "--config"):
        flags = [flag] if flag == "--resume" else [flag, tmp_path / "f.yaml"]
        (tmp_path / "f.yaml").write_text("task: classification\n", encoding="utf-8")
        again = start(*left, *flags)
        assert "missing: " not in again.stderr, again.stderr
