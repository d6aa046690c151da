"""Slips on the line of `kept finetune` are answered at once, all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.training.finetune import of_table
from kept.errors import ConfigError
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.recipes import with_defaults


def test_typos_are_named_before_anything_is_loaded(
    loaded: Callable[..., tuple[int, str, str]],
) -> None:
    line = ["finetune", "--task", "typ", "--head", "poled", "--method", "K-BRT", "-o", "x"]
    code, modules, message = loaded(*line)
    assert (code, modules) == (1, "")
    for word in ("'typ'; did you mean typing", "'poled'; did you mean pooled", "'K-BRT'"):
        assert word in message
    code, modules, message = loaded("finetune", "-o", "x")
    assert (code, modules) == (1, "")
    assert "missing: --task; --format; --train; --kg; --method or --model" in message


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        (["--batch-size", "2"],
         "--task; --format; --train; --kg; --method or --model"),
        (["--task", "typing", "--method", "kbert", "--steps", "5", "--set", "format=table",
          "--set", "training.node_budget=9"], "--train; --kg"),
    ],
)  # fmt: skip
def test_what_a_new_run_lacks_is_named_at_once(line: list[str], missing: str) -> None:
    result = CliRunner().invoke(app, ["finetune", *line, "-o", "x"], env={"COLUMNS": "400"})
    assert result.exit_code == 1
    assert f"missing: {missing}; give them, or a file" in result.stderr.replace("\n", " ")


TABLE = "text,mention,label\n" + "".join(f"We met P{i}.,P{i},{'ab'[i % 2]}\n" for i in range(20))


def test_a_table_brings_its_task_and_its_links(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(TABLE, encoding="utf-8")
    fields = of_table(tmp_path / "people.csv", {"method": "words"})
    assert fields == {
        "train": tmp_path / "people.csv", "format": "table", "link": True, "task": "mention",
        "method": "words",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="leave out --train"):
        of_table(tmp_path / "people.csv", {"train": "x"})
    (tmp_path / "asked.csv").write_text("question,answer\nWho?,Ada\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="kept fit"):
        of_table(tmp_path / "asked.csv", {})


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({}, {"steps": 200, "batch_size": 16}),
        ({"epochs": 3}, {"steps": None, "epochs": 3, "batch_size": 16}),
        ({"steps": 5, "node_budget": 900}, {"steps": 5, "batch_size": None, "node_budget": 900}),
    ],
)
def test_steps_and_batch_size_have_defaults(
    training: dict[str, int], expected: dict[str, int | None]
) -> None:
    fields = {
        "task": "mention", "format": "table", "train": "t.csv", "kg": "kg", "method": "words",
        "training": training,
    }  # fmt: skip
    config = FinetuneConfig.read(None, with_defaults(fields)).training
    assert {name: getattr(config, name) for name in expected} == expected
    with pytest.raises(ConfigError, match="steps"):
        FinetuneConfig.read(None, with_defaults({**fields, "as_published": True, "training": {}}))
