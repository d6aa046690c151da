"""`kept kgc` from the training to an answer, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kept.cli import app
from kg_loaders import KnowledgeGraph

N = 12


def kept(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["kgc", *map(str, arguments)])


@pytest.fixture(scope="module")
def benchmark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    lines = [f"e{i:02}\tnext\te{i + 1:02}" for i in range(N)]
    lines += [f"e{i + 1:02}\tprevious\te{i:02}" for i in range(N)]
    parts = {"train": lines[:-4], "valid": lines[-4:-2], "test": lines[-2:]}
    for name, part in parts.items():
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(benchmark_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "m"
    result = kept("train", benchmark_folder, "--scorer", "complex", "-o", output, "--epochs", 40,
                  "--width", 16)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "validation MRR" in result.output
    return output


def test_eval_prints_the_metrics_and_their_conditions(benchmark_folder: Path, model: Path):
    result = kept("eval", benchmark_folder, "-m", model, "--split", "train", "--json")
    told = json.loads(result.stdout)
    assert told["metrics"]["mrr"] > 0.5
    assert (told["n_asked"], told["n_scored"], told["n_unseen"]) == (40, 40, 0)
    assert (told["ties"], told["filter"]) == ("realistic", "train+valid+test")
    table = kept("eval", benchmark_folder, "-m", model, "--directions", "tail,relation")
    assert "4 asked, 4 scored; ties realistic; filter train+valid+test" in table.stdout
    assert "asked relation+tail" in table.stdout


def test_inverse_relations_and_triple_classification(benchmark_folder: Path, tmp_path: Path):
    output = tmp_path / "m"
    trained = kept("train", benchmark_folder, "--scorer", "distmult", "--reciprocal", "-o", output,
                   "--epochs", 3, "--width", 8)  # fmt: skip
    assert "distmult with inverse relations" in trained.output
    for name in ("valid", "test"):
        (tmp_path / f"{name}_negatives.txt").write_text("e01\tnext\te09\ne02\tnext\te09\n")
    arguments = ("eval", benchmark_folder, "-m", output, "--negatives", tmp_path)
    told = json.loads(kept(*arguments, "--json").stdout)["classification"]
    assert (told["n_true"], told["n_false"]) == (2, 2)
    assert 0 <= told["accuracy"]["low"] <= told["accuracy"]["estimate"] <= 1
    shown = kept(*arguments).stdout
    assert "triple classification of test: accuracy" in shown
    assert "0 of 2 relations" in shown
    (tmp_path / "test_negatives.txt").write_text("e01\tnext\tnobody\n")
    refused = kept(*arguments)
    assert refused.exit_code == 1
    assert "test_negatives.txt, line 1: 'nobody' is not among" in refused.stderr


def test_a_norm_is_trained_and_kept_with_the_model(benchmark_folder: Path, tmp_path: Path):
    common = ("--epochs", 1, "--width", 8, "--norm")
    for scorer, norm in (("rotate", 2), ("transe", 1)):
        output = tmp_path / scorer
        result = kept("train", benchmark_folder, "--scorer", scorer, "-o", output, *common, norm)
        assert result.exit_code == 0, result.output
        assert json.loads((output / "model.json").read_text())["norm"] == norm
    refused = kept(
        "train", benchmark_folder, "--scorer", "complex", "-o", tmp_path / "c", *common, 1
    )
    assert refused.exit_code == 1
    assert "measures no distance" in refused.stderr


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(("e03", "next"), "e04"), (("?", "next", "e04"), "e03"), (("e03", "?", "e04"), "next")],
)
def test_predict_finds_a_training_answer(
    benchmark_folder: Path, model: Path, asked: tuple[str, ...], answer: str
):
    result = kept("predict", *asked, "--kg", benchmark_folder, "-m", model, "--top", 2, "--json")
    rows = json.loads(result.stdout)
    assert len(rows) == 2
    assert rows[0]["id"] == answer
    assert rows[0]["known"]
    assert not rows[1]["known"]
    assert answer in kept("predict", *asked, "--kg", benchmark_folder, "-m", model).stdout


def test_a_graph_folder_is_cut_the_same_way_each_time(tmp_path: Path, small_graph: KnowledgeGraph):
    small_graph.save(tmp_path / "kg")
    trained = kept("train", tmp_path / "kg", "-o", tmp_path / "m", "--epochs", 1, "--holdout", 0.2,
                   "--seed", 5)  # fmt: skip
    assert trained.exit_code == 0, trained.output
    told = json.loads(kept("eval", tmp_path / "kg", "-m", tmp_path / "m", "--json").stdout)
    assert told["n_asked"] == 6
    labels = kept("predict", "Q90", "P17", "--kg", tmp_path / "kg", "-m", tmp_path / "m").stdout
    assert "France" in labels


def test_tested_triples_that_were_trained_on_are_told(benchmark_folder: Path, tmp_path: Path):
    for name in ("train", "valid", "test"):
        lines = (benchmark_folder / f"{name}.txt").read_text()
        told = "e00\tnext\te01\n" if name == "test" else ""
        (tmp_path / f"{name}.txt").write_text(lines + told)
    trained = kept("train", tmp_path, "-o", tmp_path / "m", "--epochs", 1, "--width", 4)
    shown = kept("eval", tmp_path, "-m", tmp_path / "m")
    for result in (trained, shown):
        assert "1 of the 3 triples of test are in train too" in result.stdout
    told = json.loads(kept("eval", tmp_path, "-m", tmp_path / "m", "--json").stdout)
    assert told["shared"] == {"test in train": 1}


def test_a_graph_with_a_triple_less_is_not_tested_but_asked(
    tmp_path: Path, small_graph: KnowledgeGraph
):
    small_graph.save(tmp_path / "kg")
    small_graph.with_triples(small_graph.triples[1:], note="less").save(tmp_path / "less")
    trained = kept("train", tmp_path / "kg", "-o", tmp_path / "m", "--epochs", 1, "--holdout", 0.2)
    assert trained.exit_code == 0, trained.output
    refused = kept("eval", tmp_path / "less", "-m", tmp_path / "m")
    assert refused.exit_code == 1
    assert "was trained with splits" in refused.stderr
    asked = kept("predict", "Q90", "P17", "--kg", tmp_path / "less", "-m", tmp_path / "m")
    assert "France" in asked.stdout
    described = json.loads((tmp_path / "m" / "model.json").read_text())
    described["training"] = {}  # as another program may save a scorer
    (tmp_path / "m" / "model.json").write_text(json.dumps(described))
    refused = kept("eval", tmp_path / "kg", "-m", tmp_path / "m")
    assert "does not say with which splits" in refused.stderr
    asked = kept("predict", "Q90", "P17", "--kg", tmp_path / "kg", "-m", tmp_path / "m")
    assert asked.exit_code == 0


def test_refusals_are_one_line_and_exit_code_1(
    tmp_path: Path, benchmark_folder: Path, model: Path, small_graph: KnowledgeGraph
):
    small_graph.save(tmp_path / "kg")
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (("train", benchmark_folder, "-o", model), "replace it with --force"),
        (("train", benchmark_folder, "-o", tmp_path / "x", "--scorer", "y"), "scorer 'y'"),
        (("train", tmp_path / "empty", "-o", tmp_path / "x"), "neither a graph folder"),
        (("eval", tmp_path / "kg", "-m", model), "id space"),
        (("eval", benchmark_folder, "-m", tmp_path / "no"), "no does not exist"),
        (("eval", benchmark_folder, "-m", model, "--ties", "best"), "tie rule 'best'"),
        (("eval", benchmark_folder, "-m", model, "--split", "dev"), "split 'dev'"),
        (("eval", benchmark_folder, "-m", model, "--directions", "up"), "directions ['up']"),
        (("predict", "e01", "next", "e02", "--kg", benchmark_folder, "-m", model), "exactly one"),
        (("predict", "e99", "next", "--kg", benchmark_folder, "-m", model), "'e99' is not among"),
    ):
        result = kept(*arguments)
        assert result.exit_code == 1
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
