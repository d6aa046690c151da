"""Slips on the line of `kept finetune` are answered at once, all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app


def test_slips_are_named_before_anything_is_loaded(
    loaded: Callable[..., tuple[int, str, str]],
) -> None:
    line = ["finetune", "--task", "typ", "--head", "poled", "--method", "K-BRT", "-o", "x"]
    code, modules, said = loaded(*line)
    assert (code, modules) == (1, "")
    for word in ("'typ'; did you mean typing", "'poled'; did you mean pooled", "'K-BRT'"):
        assert word in said
    code, modules, said = loaded("finetune", "-o", "x")
    assert (code, modules) == (1, "")
    assert "missing: --task; --format; --train; --kg; --method or --model" in said


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        (["--batch-size", "2"],
         "--task; --format; --train; --kg; --method or --model; --steps or --epochs"),
        (["--task", "typing", "--method", "kbert", "--steps", "5", "--set", "format=table",
          "--set", "training.node_budget=9"], "--train; --kg"),
    ],
)  # fmt: skip
def test_what_a_new_run_lacks_is_named_at_once(line: list[str], missing: str) -> None:
    result = CliRunner().invoke(app, ["finetune", *line, "-o", "x"], env={"COLUMNS": "400"})
    assert result.exit_code == 1
    assert f"missing: {missing}; give them, or a file" in result.stderr.replace("\n", " ")
