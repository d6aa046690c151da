"""`kept link calibrate`, and linking with what it fitted."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from entity_linking import LinkedText, gold_link, read_jsonl, write_jsonl
from entity_linking.calibration.fitting import load_decision
from kept.apps.cli import app
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
    folder_ = tmp_path_factory.mktemp("calibrate")
    small_graph.save(folder_ / "kg")
    write_jsonl(gold_texts(40), folder_ / "gold.jsonl")
    return folder_


def test_fit_report_and_link(folder: Path, small_graph: KnowledgeGraph) -> None:
    out, plot = folder / "decision.json", folder / "reliability.png"
    arguments = (folder / "gold.jsonl", "--kg", folder / "kg", "-o", out)
    result = run("calibrate", *arguments, "--plot", plot)
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

    again = run("calibrate", *arguments)
    assert again.exit_code == 1
    assert "exists; choose another name" in again.output
    assert run("calibrate", *arguments, "--force").exit_code == 0


def test_found_mentions_that_gold_does_not_mark_are_wrong(folder: Path) -> None:
    out = folder / "found.json"
    arguments = (folder / "gold.jsonl", "--kg", folder / "kg", "-o", out, "--find")
    result = run("calibrate", *arguments)
    assert result.exit_code == 0, result.output
    assert "80 mentions with candidates in 40 texts" in result.output  # Berlin, too
    run("Paris and Berlin", "--kg", folder / "kg", "--decision", out, "-o", folder / "l.jsonl")
    (linked,) = read_jsonl(folder / "l.jsonl", DamageReport())
    assert linked.links[-1].confidence == pytest.approx(0.25, abs=0.02)  # 20 of 80 are right


def test_a_decision_for_a_trained_model(folder: Path) -> None:
    gold, kg, model = folder / "gold.jsonl", folder / "kg", folder / "model"
    trained = run("train", gold, "--kg", kg, "-o", model, "--epochs", "3")
    assert trained.exit_code == 0, trained.output
    arguments = ("--kg", kg, "--method", "trained", "--model", model)
    result = run("calibrate", gold, *arguments, "-o", folder / "trained.json")
    assert result.exit_code == 0, result.output
    linked = run("Paris", *arguments, "--decision", folder / "trained.json", "--json")
    assert linked.exit_code == 0, linked.output


def test_what_is_favoured_moves_the_threshold(folder: Path, small_graph: KnowledgeGraph) -> None:
    """Each text has two mentions with candidates, of which the prior is right about one in four."""
    arguments = (folder / "gold.jsonl", "--kg", folder / "kg", "--find", "--force")
    below = {}
    for favour in ("precision", "recall"):
        out = folder / f"{favour}.json"
        result = run("calibrate", *arguments, "-o", out, "--favour", favour)
        assert result.exit_code == 0, result.output
        assert "risk and coverage, cross-validated" in result.output
        below[favour] = load_decision(out, small_graph).decision.nil_below
    assert below["precision"] >= below["recall"]
    result = run("calibrate", *arguments, "-o", out, "--favour", "precision", "--target", "1")
    assert result.exit_code == 1
    assert "no threshold reaches precision 1.0" in result.output


def test_a_method_that_is_worse_than_names_and_prior_falls_back(
    folder: Path, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    """The model is trained on links that are all wrong, the texts to calibrate on say the prior."""
    wrong = [LinkedText(f"Paris and Berlin, {i}", (gold_link(0, 5, "Q830149"),)) for i in range(40)]
    right = [LinkedText(f"Paris, {i}", (gold_link(0, 5, "Q90"),)) for i in range(40)]
    write_jsonl(wrong, tmp_path / "wrong.jsonl")
    write_jsonl(right, tmp_path / "right.jsonl")
    kg, model, out = folder / "kg", tmp_path / "model", tmp_path / "decision.json"
    assert run("train", tmp_path / "wrong.jsonl", "--kg", kg, "-o", model).exit_code == 0
    arguments = ("--kg", kg, "--method", "trained", "--model", model)
    result = run("calibrate", tmp_path / "right.jsonl", *arguments, "-o", out)
    assert result.exit_code == 0, result.output
    assert "F1: trained 0.0000, names + prior 1.0000" in result.output
    assert "the decision falls back to them" in result.output
    fitted = load_decision(out, small_graph)
    assert fitted.instead_of.startswith("Reranker")
    linked = run("Paris", *arguments, "--decision", out)
    assert "by names + prior, which did better in calibration" in linked.output
    assert "Q90" in linked.output
    other = run("Paris", "--kg", kg, "--decision", out)
    assert other.exit_code == 1
    assert "was fitted on scores of Reranker" in other.output


def test_nothing_is_fitted_where_that_is_better(folder: Path, tmp_path: Path) -> None:
    """Both F1s are told with --find, and the better one's decision is written."""
    kg, model, out = folder / "kg", tmp_path / "model", tmp_path / "decision.json"
    assert run("train", folder / "gold.jsonl", "--kg", kg, "-o", model).exit_code == 0
    arguments = ("--kg", kg, "--method", "trained", "--model", model)
    result = run("calibrate", folder / "gold.jsonl", *arguments, "-o", out, "--find")
    assert result.exit_code == 0, result.output
    match = re.search(r"F1: fitted ([0-9.]+), not fitted .* ([0-9.]+)$", result.output, re.M)
    assert match is not None
    is_plain = float(match[2]) > float(match[1])
    assert ("nothing is fitted, which is better here" in result.output) == is_plain
    marked = run("calibrate", folder / "gold.jsonl", *arguments, "-o", out, "--force")
    assert "not fitted" not in marked.output, "marked spans have no words that are not names"


@pytest.mark.parametrize(
    ("n", "more", "message"),
    [
        (8, ["--favour", "speed"], "favour is 'speed'"),
        (3, [], "3 texts have mentions with candidates, too few for 5 folds"),
        (8, ["--method", "guess"], "method is 'guess'"),
        (8, ["--method", "trained"], "needs a model"),
    ],
)
def test_faults_are_told(
    folder: Path, tmp_path: Path, n: int, more: list[str], message: str
) -> None:
    write_jsonl(gold_texts(n), tmp_path / "few.jsonl")
    arguments = (tmp_path / "few.jsonl", "--kg", folder / "kg", "-o", tmp_path / "d.json")
    result = run("calibrate", *arguments, *more)
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "d.json").exists()


def test_help_lists_it() -> None:
    result = run("--help")
    assert re.search(r"calibrate\s+Fit the decision", result.output)
