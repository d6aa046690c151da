"""Tables for papers."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from kept.apps.cli import app
from kept.lab.study.tables import Table, escaped


def test_hostile_cells_are_text() -> None:
    table = Table(("a_b", "c"), [[r"\input{x} & 50 %", "±1\n2"]]).latex("50 %", "tab:x")
    assert r"a\_b & c \\" in table
    assert r"\textbackslash{}input\{x\} \& 50 \% & $\pm$1 2 \\" in table
    assert not re.search(r"(?<!\\)[%#]", table)
    assert escaped("~^<>|") == (
        r"\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"
    )


def test_a_report_writes_them(experiment_root: Path, tmp_path: Path) -> None:
    task = ["--task", str(experiment_root / "tiny.yaml"), "--data", str(experiment_root)]
    compare = ["compare", *task, "--seeds", "1", "--controls", "", "-o", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, compare)
    assert done.exit_code == 0, done.output
    tables = tmp_path / "tables.tex"
    report = ["report", str(tmp_path / "runs"), *task, "--latex", str(tables)]
    for _ in range(2):  # what kept wrote is replaced
        done = CliRunner().invoke(app, report)
        assert done.exit_code == 0, done.output
    text = tables.read_text(encoding="utf-8")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert "ERNIE" in text
    tables.write_text("mine", encoding="utf-8")
    assert CliRunner().invoke(app, report).exit_code == 1
    assert tables.read_text(encoding="utf-8") == "mine"
    refused = CliRunner().invoke(app, [*report[:-1], str(tmp_path / "a.txt")])
    assert "choose a name in .tex" in refused.output
