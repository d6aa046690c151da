"""`kept compare` and `kept report` on questions: the shipped file in small, one's own graph."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kept.apps.cli import app
from kept.lab.comparison.files import shipped_experiments
from kept.lab.questions import trial as module
from kept.lab.questions.plan import QuestionPlan
from kept.lab.questions.rows import ROWS
from kept.lab.questions.worlds import VALUES, private_world
from kg_loaders.disk.writing import write_text
from tests.kept.tiny_chat import WordVectors
from tests.kept.tiny_questions import N_TEST, N_TRAIN, SMALL, write_decoder

SHIPPED = shipped_experiments()["private-questions"]


def kept(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"))


@pytest.fixture(autouse=True)
def word_vectors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "HostSentenceEncoder", lambda name: WordVectors())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KEPT_DATA", raising=False)


def test_the_shipped_file_in_small(host: Path, tmp_path: Path) -> None:
    """Its rows at the least budget, on a tiny decoder."""
    plan = QuestionPlan.read(SHIPPED)
    assert {plan.kind_of(name) for name in plan.methods} == set(ROWS)
    assert plan.seeds >= 3
    methods = {
        name: SMALL[plan.kind_of(name)] | {k: v for k, v in settings.items() if k == "method"}
        for name, settings in plan.methods.items()
    }
    source = plan.questions.model_copy(update={"n_train": N_TRAIN, "n_test": N_TEST})
    fields = plan.model_dump(mode="json") | {
        "questions": source.model_dump(mode="json"), "host": str(host), "methods": methods,
        "name": "small",
    }  # fmt: skip
    fields.pop("primary"), fields.pop("pretraining")
    write_text(tmp_path / "small.yaml", json.dumps(fields))  # JSON is YAML
    command = ("compare", "--task", "small.yaml", "-o", "runs", "--seeds", 1, "--limit", 4)
    controls = "off,shuffled,random-entity"
    done = kept(*command, "--controls", controls)
    assert done.exit_code == 0, done.output
    assert "tables in runs/small-limit-4.md" in done.output
    page = Path("runs/small-limit-4.md").read_text()
    assert all(f"\n| {name} |" in page for name in plan.methods)
    assert "as none" in page
    records = Path("runs/runs.jsonl").read_bytes()
    again = kept(*command, "--controls", controls)
    assert again.exit_code == 0
    assert Path("runs/runs.jsonl").read_bytes() == records
    report = kept("report", "runs", "--task", "small.yaml", "--limit", 4)
    assert report.exit_code == 0, report.output
    html = Path("runs/small-limit-4.html").read_text()
    assert "soft-prompt" in html
    assert "Not finished" not in html
    assert "exact" in Path("runs/small-limit-4.pairs.csv").read_text()


def test_a_graph_and_questions_of_ones_own(host: Path, tmp_path: Path) -> None:
    world = private_world(0, n_train=N_TRAIN, n_test=N_TEST).test
    world.save(tmp_path / "kg")
    facts = world.facts(world.label(world.entities.id("bearer0")))
    assert len(facts) == len(VALUES)
    lines = [
        json.dumps(
            {"question": f"What is the {relation} of {name}?", "subject": name,
             "relation": relation, "answer": value, "begin": f"The {relation} of {name} is"}
        )
        for i in range(4)
        for name, relation, value in world.facts(world.label(world.entities.id(f"bearer{i}")))
    ]  # fmt: skip
    (tmp_path / "asked.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "own.yaml").write_text(
        "name: own\n"
        "questions: {kg: kg, asked: asked.jsonl}\n"
        f"host: {host}\n"
        "chat: chatml\n"
        "methods: {words: {}, lora: {n_epochs: 1}}\n"
    )
    command = ("compare", "--task", "own.yaml", "-o", "runs", "--seeds", 2)
    done = kept(*command)
    assert done.exit_code == 0, done.output
    numbers = json.loads(Path("runs/own.json").read_text())
    assert numbers["measures"]["exact"]["words"]["true"]["n"] == 16
    assert set(numbers["measures"]["exact"]["words"]) == {"true", "off", "shuffled"}
    trained = kept(*command, "--methods", "words-lora")
    assert trained.exit_code == 1
    assert "there is no row 'words-lora'" in trained.output
    (tmp_path / "own.yaml").write_text(
        (tmp_path / "own.yaml").read_text().replace("lora:", "words-lora: {}, lora:")
    )
    untrained = kept(*command, "--methods", "words-lora")
    assert untrained.exit_code == 1
    assert "give a file of questions as questions.train" in " ".join(untrained.output.split())
    (tmp_path / "asked.jsonl").write_text(f"{lines[0]}\n{lines[1][:-1]}\n")
    bad = kept(*command)
    assert bad.exit_code == 1
    assert "asked.jsonl, line 2" in bad.output
    over = kept("compare", "--task", "own.yaml", "--kg", "kg", "-o", "other", "--methods", "words")
    assert over.exit_code == 0, over.output
    assert os.path.exists("other/own.md")


def test_faults_of_the_command(host: Path, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(
        f"name: q\nquestions: {{world: bearers, n_train: 8, n_test: 6}}\nhost: {host}\n"
        "chat: chatml\nmethods: {words: {}}\n"
    )
    wrong = kept("compare", "--task", "q.yaml", "-o", "runs", "--controls", "redrawn")
    assert wrong.exit_code == 1
    assert "questions are asked with knowledge true, off, shuffled" in " ".join(
        wrong.output.split()
    )
    nothing = kept("report", "runs", "--task", "q.yaml")
    assert nothing.exit_code == 1
    assert "no finished run" in nothing.output
    latex = kept("report", "runs", "--task", "q.yaml", "--latex", "a.tex")
    assert "tables are CSV files" in latex.output
    looked = kept("doctor", "q.yaml")
    assert "private world" in looked.output or "bearers" in looked.output
