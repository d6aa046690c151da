"""`kept compare` and `kept report`, and what they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app


def test_the_command_compares_and_writes_tables(
    experiment_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT_DATA", str(experiment_root))
    flags = [
        "--task",
        str(experiment_root / "tiny.yaml"),
        "--methods",
        "kbert",
        "--controls",
        "shuffled",
    ]
    done = CliRunner().invoke(app, ["compare", *flags, "--seeds", "1", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    written = (tmp_path / "tiny.md").read_text()
    (line,) = [
        x
        for x in written.partition("## Shares")[2].partition("## Costs")[0].splitlines()
        if x.startswith("| none |")
    ]
    values = json.loads((tmp_path / "tiny.json").read_text())
    scores = values["rows"][0]["records"][0]["scores"]["dev"]
    numbers = [scores["accuracy"]["estimate"], scores["micro"]["recall"], scores["macro"]["f1"]]
    cells = [cell.strip() for cell in line.split("|")]
    assert [cells[i] for i in (3, 5, 9)] == [f"{value:.3f}" for value in numbers]
    assert json.loads((tmp_path / "tiny.json").read_text())["missing"] == []
    kg_flags = [*flags[:2], "--kg", str(experiment_root / "kg")]
    again = CliRunner().invoke(
        app, ["compare", *kg_flags, "--methods", "none", "-o", str(tmp_path / "b")]
    )
    assert again.exit_code == 0, again.output
    page_file = tmp_path / "pages" / "tiny.html"
    reported = CliRunner().invoke(app, ["report", str(tmp_path), *flags[:2], "-o", str(page_file)])
    assert reported.exit_code == 0, reported.output
    page = page_file.read_text()
    assert "What K-BERT changed" in page
    assert "<svg" in page
    table = page_file.with_name("tiny.scores.csv").read_text().splitlines()
    assert table[0].startswith("method,knowledge,score")
    assert len(page_file.with_name("tiny.differences.csv").read_text().splitlines()) > 1
    ended = CliRunner().invoke(
        app, ["compare", *flags, "--seeds", "3", "-o", str(tmp_path), "--budget", "0"]
    )
    assert ended.exit_code == 0, ended.output
    assert "6 runs are not finished" in ended.output
    again = CliRunner().invoke(app, ["report", str(tmp_path), *flags[:2], "-o", str(page_file)])
    assert again.exit_code == 0, again.output
    assert "Not finished: none, knowledge off, seed 1; " in page_file.read_text()


def test_a_report_without_runs_says_what_to_do(experiment_root: Path, tmp_path: Path) -> None:
    flags = ["--task", str(experiment_root / "tiny.yaml"), "--data", str(experiment_root)]
    done = CliRunner().invoke(app, ["report", str(tmp_path), *flags])
    assert done.exit_code == 1
    assert "run kept compare" in done.output


@pytest.mark.parametrize("methods", ["none", "kbert"])
def test_a_comparison_without_a_finished_run_is_a_sentence(
    experiment_root: Path, tmp_path: Path, methods: str
) -> None:
    flags = ["--task", str(experiment_root / "tiny.yaml"), "--data", str(experiment_root)]
    flags += ["--methods", methods, "--seeds", "1", "--budget", "0", "-o", str(tmp_path / "runs")]
    ended = CliRunner().invoke(app, ["compare", *flags])
    assert ended.exit_code == 0, ended.output
    assert "not finished; the same command resumes" in ended.output
    assert not list((tmp_path / "runs").glob("tiny.*"))


def test_a_report_reads_the_task_with_the_options_of_the_comparison(
    experiment_root: Path, tmp_path: Path
) -> None:
    """--limit, --kg and --data are not repeated; what is given goes first."""
    task = ["--task", str(experiment_root / "tiny.yaml")]
    flags = [*task, "--data", str(experiment_root), "--kg", str(experiment_root / "kg")]
    flags += ["--limit", "20", "--methods", "none", "--seeds", "1", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, ["compare", *flags])
    assert done.exit_code == 0, done.output
    reported = CliRunner().invoke(app, ["report", str(tmp_path), *task])
    assert reported.exit_code == 0, reported.output
    assert "as in the last kept compare here: " in reported.output
    assert "--limit 20" in reported.output
    assert (tmp_path / "tiny-limit-20.html").is_file()
    other = CliRunner().invoke(app, ["report", str(tmp_path), *task, "--limit", "30"])
    assert other.exit_code == 1
    assert "holds no finished run of tiny-limit-30" in other.output


def test_luke_has_a_row_in_a_comparison(experiment_root: Path, tmp_path: Path) -> None:
    """The method is not in the file: `--methods` adds it, with its controls and its own head."""
    flags = ["--task", str(experiment_root / "tiny.yaml"), "--data", str(experiment_root)]
    flags += ["--methods", "none,luke", "--seeds", "1", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, ["compare", *flags])
    assert done.exit_code == 0, done.output
    values = json.loads((tmp_path / "tiny.json").read_text())
    assert values["missing"] == []
    conditions = {
        (record["method"], record["knowledge"])
        for row in values["rows"]
        for record in row["records"]
    }
    assert {("luke", "true"), ("luke", "shuffled")} <= conditions
    assert "| LUKE |" in (tmp_path / "tiny.md").read_text()
