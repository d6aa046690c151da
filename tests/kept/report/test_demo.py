"""The demo from end to end, with two training steps a model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from kept.cli import app

TINY = {
    "host": "minilm",
    "n_transductive": 20,
    "n_inductive": 15,
    "max_sentences_per_fact": 1,
    "builder": {"max_neighbours": 3, "max_words": 40, "max_nodes": 64},
    "training": {"steps": 2, "batch_size": 4, "threads": 1, "log_every": 1},
    "scorers": ["transe"],
    "recipes": {"transe": {"n_epochs": 1}, "dkrl": {"n_epochs": 1, "batch_size": 2048}},
}

STAGE = {"steps": 2, "batch_size": 4, "threads": 1, "log_every": 1}
METHODS = {
    "builder": {"max_neighbours": 2, "max_words": 40, "max_nodes": 80},
    "pretraining": STAGE,
    "finetuning": STAGE,
}


@pytest.mark.slow
@pytest.mark.minilm
def test_demo_leaves_an_offline_report_and_resumes(tmp_path: Path) -> None:
    config, run = tmp_path / "tiny.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump(TINY))
    command = ["demo", "--config", str(config), "--output", str(run)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert str(run / "report.html") in first.output.replace("\n", "")
    report = (run / "report.html").read_text()
    outside = set(re.findall(r"https?://[^\s\"'<&]+", report)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()
    for heading in ("The graph", "Links", "Training", "Transductive completion", "leak audit"):
        assert heading in report
    results = json.loads((run / "results.json").read_text())
    assert {row["setting"] for row in results["completion"]["rows"]} >= {
        "transductive",
        "inductive",
    }
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert "running" not in again.output
    assert json.loads((run / "results.json").read_text()) == results
    assert "methods" not in results
    methods = tmp_path / "methods.yaml"
    methods.write_text(yaml.safe_dump(METHODS))
    options = ["--methods", "none", "--methods-config", str(methods)]
    compared = CliRunner().invoke(app, [*command, *options])
    assert compared.exit_code == 0, compared.output
    assert "none: running" in compared.output
    rows = json.loads((run / "results.json").read_text())["methods"]["rows"]
    assert [row["method"] for row in rows if row["setting"] == "inductive"][1:] == ["none"]
    assert "Methods compared" in (run / "report.html").read_text()
