"""`kept link calibrate`, and linking with what it fitted."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from entity_linking import LinkedText, gold_link, read_jsonl, write_jsonl
from entity_linking.calibration.fitting import load_decision
from kept.cli import app
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["link", *map(str, arguments)], env={"COLUMNS": "160"})


def gold_texts(n: int) -> list[LinkedText]:
    """Paris is the capital in half of the texts, the one in Texas or neither in the others."""
    entities = ("Q90", "Q90", "Q830149", None)
    return [
        LinkedText(f"Paris and Berlin, {i}", (gold_link(0, 5, entities[i % 4]),), str(i))
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def folder(small_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("calibrate")
    small_graph.save(made / "kg")
    write_jsonl(gold_texts(40), made / "gold.jsonl")
    return made


def test_fit_report_and_link(folder: Path, small_graph: KnowledgeGraph) -> None:
    out, plot = folder / "decision.json", folder / "reliability.png"
    told = (folder / "gold.jsonl", "--kg", folder / "kg", "-o", out)
    result = run("calibrate", *told, "--plot", plot)
    assert result.exit_code == 0, result.output
    before, after = (
        float(re.search(rf"^{name}: .*NLL ([0-9.]+)", result.output, re.MULTILINE)[1])  # type: ignore[index]
        for name in ("before", "after")
    )
    assert after < before
    assert "40 mentions with candidates in 40 texts" in result.output
    assert plot.read_bytes()[:4] == b"\x89PNG"
    fitted = load_decision(out, small_graph)
    assert (fitted.fitted_on, fitted.n_answers) == ("gold.jsonl", 40)
    assert "PriorScorer" in fitted.scorer

    linked = run("Paris", "--kg", folder / "kg", "--decision", out, "--json")
    assert linked.exit_code == 0, linked.output
    (mention,) = msgspec.json.decode(linked.stdout)["mentions"]
    assert mention["entity"] == "Q90"
    assert mention["confidence"] == pytest.approx(0.5, abs=0.02)  # right in half of the texts

    other = run("Paris", "--kg", folder / "kg", "--decision", out, "--method", "overlap")
    assert other.exit_code == 1
    assert "was fitted on scores of PriorScorer" in other.output

    again = run("calibrate", *told)
    assert again.exit_code == 1
    assert "exists; choose another name" in again.output
    assert run("calibrate", *told, "--force").exit_code == 0


def test_found_mentions_that_gold_does_not_mark_are_wrong(folder: Path) -> None:
    out = folder / "found.json"
    told = (folder / "gold.jsonl", "--kg", folder / "kg", "-o", out, "--find")
    result = run("calibrate", *told)
    assert result.exit_code == 0, result.output
    assert "80 mentions with candidates in 40 texts" in result.output  # Berlin, too
    run("Paris and Berlin", "--kg", folder / "kg", "--decision", out, "-o", folder / "l.jsonl")
    (linked,) = read_jsonl(folder / "l.jsonl", DamageReport())
    assert linked.links[-1].confidence == pytest.approx(0.25, abs=0.02)  # 20 of 80 are right


def test_a_decision_for_a_trained_model(folder: Path) -> None:
    gold, kg, model = folder / "gold.jsonl", folder / "kg", folder / "model"
    trained = run("train", gold, "--kg", kg, "-o", model, "--epochs", "3")
    assert trained.exit_code == 0, trained.output
    told = ("--kg", kg, "--method", "trained", "--model", model)
    result = run("calibrate", gold, *told, "-o", folder / "trained.json")
    assert result.exit_code == 0, result.output
    linked = run("Paris", *told, "--decision", folder / "trained.json", "--json")
    assert linked.exit_code == 0, linked.output


@pytest.mark.parametrize(
    ("n", "more", "message"),
    [
        (3, [], "3 texts have mentions with candidates, too few for 5 folds"),
        (8, ["--method", "guess"], "method is 'guess'"),
        (8, ["--method", "trained"], "needs a model"),
    ],
)
def test_faults_are_told(
    folder: Path, tmp_path: Path, n: int, more: list[str], message: str
) -> None:
    write_jsonl(gold_texts(n), tmp_path / "few.jsonl")
    told = (tmp_path / "few.jsonl", "--kg", folder / "kg", "-o", tmp_path / "d.json")
    result = run("calibrate", *told, *more)
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "d.json").exists()


def test_help_lists_it() -> None:
    result = run("--help")
    assert re.search(r"calibrate\s+Fit the decision", result.output)
