"""NBFNet, mixes of trained scorers, and true triples told from false ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from kept.evaluation.ranking import Direction
from kept.evaluation.triple_classification import mean_of_directions
from kept.kgc.completers.folders import open_completer
from kept.kge.splits import read_splits
from kept.kge.trained import load_scorer
from tests.kept.apps.cli.kgc.kgc_toy import N, done, kept


@pytest.fixture(scope="module")
def nbfnet(chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "nbfnet"
    done("train", chain, "--scorer", "nbfnet", "--width", 8, "--epochs", 8, "--batch-size", 8,
         "-o", output)  # fmt: skip
    return output


@pytest.fixture(scope="module")
def table(chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "table"
    done("train", chain, "--width", 8, "--epochs", 4, "-o", output)
    return output


@pytest.fixture(scope="module")
def mix(chain: Path, nbfnet: Path, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "mix"
    training = done("train", chain, "--scorer", "mix", "--of", nbfnet, "--of", table, "-o", output)
    for words in ("a mix of nbfnet, complex", "nbfnet alone: validation MRR", "shares for tails"):
        assert words in training.stdout
    return output


def test_nbfnet_learns_a_chain_that_it_never_saw(other: Path, nbfnet: Path) -> None:
    report = json.loads(done("eval", other, "-m", nbfnet, "--split", "valid", "--json").stdout)
    assert report["metrics"]["mrr"] > 0.5
    assert report["strata"]["unseen"]["n_triples"] == 3


def test_nbfnet_finds_its_relations_by_name(chain: Path, nbfnet: Path, tmp_path: Path) -> None:
    """The same graph with relations that sort the other way round, and one that it leaves out."""
    for name in ("train", "valid", "test"):
        lines = (chain / f"{name}.txt").read_text()
        more = "e00\tafar\te09\n" if name == "train" else ""
        (tmp_path / f"{name}.txt").write_text(lines + more)
    (tmp_path / "entity2text.txt").write_text((chain / "entity2text.txt").read_text())
    splits, wider = (read_splits(folder, holdout=0.05, seed=0) for folder in (chain, tmp_path))
    assert wider.graph.n_relations == splits.graph.n_relations + 1
    completer = open_completer(nbfnet).completer
    scores = [
        completer.on(splits.graph, splits.train).scores("tail", torch.from_numpy(splits.test))
        for splits in (splits, wider)
    ]
    assert torch.allclose(*scores, atol=1e-6)
    ids = [
        (splits.graph.entities.id("e04"), splits.graph.relations.id("next"),
         splits.graph.entities.id("e05"))
        for splits in (splits, wider)
    ]  # fmt: skip
    reasons = [
        completer.reasons(splits.graph, splits.train, "tail", triple)
        for splits, triple in zip((splits, wider), ids, strict=True)
    ]
    assert [one.what for one in reasons[0]] == [one.what for one in reasons[1]]
    assert reasons[0]
    refusal = kept("predict", "e00", "afar", "--kg", tmp_path, "-m", nbfnet)
    assert refusal.exit_code == 1
    assert "'afar' was in no training triple" in " ".join(refusal.stderr.split())


def test_a_mix_scores_as_its_weights_say(chain: Path, nbfnet: Path, table: Path, mix: Path) -> None:
    splits = read_splits(chain, holdout=0.05, seed=0)
    mixture = json.loads((mix / "model.json").read_text())["mixture"]
    rows = torch.from_numpy(splits.test).long()
    parts = [
        open_completer(nbfnet).completer.on(splits.graph, splits.train),
        load_scorer(table, splits.graph).scorer,
    ]
    mixed = open_completer(mix).completer.on(splits.graph, splits.train)
    sides: tuple[Direction, ...] = ("head", "tail")
    with torch.no_grad():
        for side, direction in enumerate(sides):
            scores = mixed.scores(direction, rows)
            for row, (_, relation, _) in enumerate(rows.tolist()):
                expected = sum(
                    part.scores(direction, rows)[row] * weight / spread
                    for part, weight, spread in zip(
                        parts, mixture["weights"][side][relation], mixture["spreads"], strict=True
                    )
                )
                assert torch.allclose(scores[row], torch.as_tensor(expected), atol=1e-5)
    assert np.min(mixture["weights"]) >= 0
    report = json.loads(done("eval", chain, "-m", mix, "--json").stdout)
    assert report["n_trained_on"] == 0


def test_a_mix_with_a_table_answers_its_graph_alone(
    chain: Path, other: Path, mix: Path, nbfnet: Path, tmp_path: Path
) -> None:
    refusal = kept("eval", other, "-m", mix)
    assert refusal.exit_code == 1
    assert "mix completers alone" in " ".join(refusal.stderr.split())
    flags = ("--kg", chain, "-m", mix, "--explain", "--json")
    reasons = json.loads(done("predict", "e04", "next", *flags).stdout)["reasons"]
    assert {one["source"] for one in reasons} <= {"fact", "path"}
    for of, words in (((nbfnet,), "takes --of twice"), ((nbfnet, other), "model.json")):
        places = [word for folder in of for word in ("--of", folder)]
        refusal = kept("train", chain, "--scorer", "mix", *places, "-o", tmp_path / "m")
        assert refusal.exit_code == 1
        assert words in " ".join(refusal.stderr.split())
    both = ("--of", nbfnet, "--of", nbfnet, "-o", tmp_path / "m")
    refusal = kept("train", other, "--scorer", "mix", *both)
    assert refusal.exit_code == 1
    assert "was trained with other splits" in " ".join(refusal.stderr.split())


def test_triples_are_classified_by_any_scorer(
    chain: Path, nbfnet: Path, table: Path, tmp_path: Path
) -> None:
    for path in chain.iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    for name in ("valid", "test"):
        lines = [f"e{i:02}\tnext\te{(i + 7) % N:02}" for i in range(N)]
        (tmp_path / f"{name}_negatives.txt").write_text("\n".join(lines) + "\n")
    for model in (nbfnet, table):
        assert "--classify also scores triple" in done("eval", tmp_path, "-m", model).stdout
        report = json.loads(done("eval", tmp_path, "-m", model, "--classify", "--json").stdout)
        one = report["classification"]
        assert (one["n_true"], one["n_false"]) == (2, N)
        assert 0 <= one["accuracy"]["estimate"] <= 1
    splits = read_splits(chain, holdout=0.05, seed=0)
    scorer = load_scorer(table, splits.graph).scorer
    rows = torch.from_numpy(splits.test).long()
    with torch.no_grad():
        expected = scorer.score_triples(rows)
        assert torch.allclose(mean_of_directions(scorer)(rows), expected, atol=1e-6)
