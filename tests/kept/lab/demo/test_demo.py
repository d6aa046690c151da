"""The demo from end to end, with two training steps a model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.errors import CheckpointError
from kept.hosts import load_tokenizer
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import shipped_experiments
from kept.lab.demo.methods import compare_methods
from tests.kept.tiny_hosts import tiny_host

TINY = {
    "private": {
        "host": "minilm",
        "arm": "kbert-mention",
        "seeds": [0, 1],
        "n_layers": 1,
        "steps": 2,
        "batch_size": 4,
        "learning_rate": 3e-4,
        "warmup_steps": 0,
        "threads": 1,
        "n_test": 8,
        "n_new": 2,
        "n_explained": 1,
    },
    "atlas": {
        "host": "NARROW",
        "n_transductive": 20,
        "n_inductive": 15,
        "max_sentences_per_fact": 1,
        "builder": {"max_neighbours": 3, "max_words": 40, "max_nodes": 64},
        "training": {"steps": 2, "batch_size": 4, "threads": 1, "log_every": 1},
        "scorers": ["transe"],
        "recipes": {"transe": {"n_epochs": 1}, "dkrl": {"n_epochs": 1, "batch_size": 2048}},
    },
}

STAGE = {"steps": 2, "batch_size": 4, "threads": 1, "log_every": 1}
METHODS = {
    "extends": "atlas",
    "task": {"host": "NARROW", "training": STAGE | {"warmup_steps": 0}, "max_train": 40},
    "pretraining": {"n_texts": 8, "training": STAGE | {"warmup_steps": 0}},
    "methods": {"none": {}, "kbert": {}},
}


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host of random numbers that reads MiniLM's words: the first chapter runs MiniLM itself."""
    folder, tokenizer = tmp_path_factory.mktemp("host") / "narrow", load_tokenizer("minilm")
    tiny_host(n_words=len(tokenizer), n_positions=512).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.minilm
def test_demo_leaves_an_offline_report_and_resumes(tmp_path: Path, narrow: Path) -> None:
    config, run = tmp_path / "tiny.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump(TINY).replace("NARROW", str(narrow)))
    command = ["demo", "--config", str(config), "--output", str(run)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert str(run / "report.html") in first.output.replace("\n", "")
    report = (run / "report.html").read_text()
    outside = set(re.findall(r"https?://[^\s\"'<&]+", report)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()
    for heading in (
        "Chapter 1: a private world",
        "A fact is edited",
        "People join",
        "A wrong fact",
        "Chapter 2: the atlas",
        "The graph",
        "Links",
        "Training",
        "Transductive completion",
        "leak audit",
    ):
        assert heading in report
    results = json.loads((run / "results.json").read_text())
    settings = results["completion"]["settings"]
    assert [len(methods_of_setting["rows"]) for methods_of_setting in settings.values()] == [8, 7]
    assert list(settings) == ["transductive", "inductive"]
    assert len(results["private"]["seeds"]["true"]) == 2
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert "running" not in again.output
    assert json.loads((run / "results.json").read_text()) == results
    assert results["methods"] == {}
    methods = tmp_path / "methods.yaml"
    methods.write_text(yaml.safe_dump(METHODS).replace("NARROW", str(narrow)))
    options = ["--methods", "none", "--methods-config", str(methods)]
    compared = CliRunner().invoke(app, [*command, *options])
    assert compared.exit_code == 0, compared.output
    assert "1/1 none, knowledge off, seed 0: running" in compared.output
    results_of_methods = json.loads((run / "results.json").read_text())["methods"]
    (row,) = results_of_methods["methods"]["rows"]
    (other,) = results_of_methods["methods-inductive"]["rows"]
    assert (row["method"], row["n"]) == ("none", 20)
    assert (other["method"], other["n"]) == ("none", 15)
    assert row["records"][0]["run"] == other["records"][0]["run"]  # one run answers both
    page = (run / "report.html").read_text()
    assert "Methods compared: transductive" in page
    assert "Methods compared: inductive" in page


def test_runs_of_0_1_are_refused_with_the_remedy(tmp_path: Path) -> None:
    old = tmp_path / "methods" / "none-off"
    old.mkdir(parents=True)
    (old / "outcome.json").touch()
    experiment = Experiment.read(shipped_experiments()["atlas"])
    with pytest.raises(CheckpointError, match=r"kept 0.1.* run kept demo --methods again"):
        compare_methods(
            experiment, ["none"], tmp_path, announce=print, reporter=None, should_stop=lambda: True
        )


def test_ranks_of_0_1_are_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "kg").mkdir()
    (tmp_path / "ranks-true.json").touch()
    outcome = CliRunner().invoke(app, ["demo", "--output", str(tmp_path)])
    assert outcome.exit_code == 1
    message = f"{outcome.output} {outcome.exception}".replace("\n", " ")
    assert "ranks-true.json is of kept 0.1" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kg", "ranks-true.json"]


def test_the_command_refuses_unknown_methods(tmp_path: Path) -> None:
    run = tmp_path / "run"
    outcome = CliRunner().invoke(app, ["demo", "--methods", "kbird", "--output", str(run)])
    assert outcome.exit_code != 0
    assert "kbird" in f"{outcome.output} {outcome.exception}"
    assert not run.exists()
    outcome = CliRunner().invoke(app, ["demo", "--budget-minutes", "3", "--output", str(run)])
    assert outcome.exit_code != 0
    assert not run.exists()
