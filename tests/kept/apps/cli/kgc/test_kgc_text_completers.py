"""KEPLER and CoLAKE under `kept kgc`: trained, asked about other graphs and new entities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from kept.batches import MASK_ROW, N_SPECIAL_ROWS
from kept.hosts import load_tokenizer
from kept.kgc.completers.folders import open_completer
from kept.kgc.completers.texts.colake_questions import Reader
from kept.kgc.kepler_entities import train_kepler
from kept.kge.simkgc.texts import Texts
from kept.kge.splits import read_splits
from kept.training.config import TrainConfig
from tests.kept.apps.cli.kgc.kgc_toy import done, kept

SCORERS = ("kepler", "colake")


@pytest.fixture(scope="module")
def models(chain: Path, host: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name in SCORERS:
        done("train", chain, "--scorer", name, "--host", host, "--epochs", 2, "--batch-size", 8,
             "-o", folder / name)  # fmt: skip
    return {name: folder / name for name in SCORERS}


@pytest.mark.parametrize("name", SCORERS)
def test_another_graph_is_ranked_and_counted(
    name: str, other: Path, models: dict[str, Path]
) -> None:
    report = json.loads(done("eval", other, "-m", models[name], "--json").stdout)
    assert report["strata"]["unseen"]["n_questions"] == 4
    assert report["n_trained_on"] == 0
    assert 0 < report["metrics"]["mrr"] <= 1


@pytest.mark.parametrize("name", SCORERS)
def test_a_folder_gives_the_same_scores_again(
    name: str, chain: Path, other: Path, models: dict[str, Path]
) -> None:
    """Also where relations stand in another order, and one more is among the facts."""
    graphs = [read_splits(folder, holdout=0.05, seed=0) for folder in (chain, other)]
    for splits in graphs:
        rows = torch.from_numpy(splits.test).long()
        completers = [
            open_completer(models[name]).completer.on(splits.graph, splits.train) for _ in range(2)
        ]
        assert torch.equal(*(scorer.scores("head", rows) for scorer in completers))
        alone = [completers[0].scores("tail", rows[i : i + 1]) for i in range(len(rows))]
        torch.testing.assert_close(torch.cat(alone), completers[0].scores("tail", rows))


@pytest.mark.parametrize("name", SCORERS)
def test_a_new_entity_is_asked_about_by_its_text(
    name: str, chain: Path, models: dict[str, Path]
) -> None:
    flags = ("--kg", chain, "-m", models[name], "--text", "somebody: number w5", "--explain")
    prediction = json.loads(done("predict", "NEW", "next", *flags, "--json").stdout)
    assert len(prediction["answers"]) == 10
    assert "NEW" not in [row["id"] for row in prediction["answers"]]
    assert "somebody (question): w5" in [one["what"] for one in prediction["reasons"]]
    changes = [one["change"] for one in prediction["reasons"]]
    assert changes == sorted(changes, reverse=True)


@pytest.mark.parametrize("name", SCORERS)
def test_relations_and_texts_that_are_missing_are_refused(
    name: str, chain: Path, host: Path, models: dict[str, Path], tmp_path: Path
) -> None:
    for split in ("train", "valid", "test"):
        text = (chain / f"{split}.txt").read_text()
        (tmp_path / f"{split}.txt").write_text(text.replace("next", "after"))
    refusal = kept("train", tmp_path, "--scorer", name, "--host", host, "-o", tmp_path / "m")
    assert refusal.exit_code == 1
    assert f"{name} reads names" in " ".join(refusal.stderr.split())
    (tmp_path / "entity2text.txt").write_text((chain / "entity2text.txt").read_text())
    refusal = kept("eval", tmp_path, "-m", models[name])
    assert refusal.exit_code == 1
    assert "'after' was in no training triple" in " ".join(refusal.stderr.split())
    refusal = kept("eval", chain, "-m", models[name], "--directions", "relation")
    assert refusal.exit_code == 1
    assert "ranks heads and tails" in " ".join(refusal.stderr.split())


def test_a_fact_that_was_shown_is_a_reason_and_the_asked_one_is_not(
    chain: Path, models: dict[str, Path]
) -> None:
    """e05 has the facts (next, e06) and (previous, e04)."""
    flags = ("--kg", chain, "-m", models["colake"], "--explain", "--json")
    prediction = json.loads(done("predict", "e05", "next", *flags).stdout)
    assert "number w5 – previous → number w4" in [
        one["what"] for one in prediction["reasons"] if one["source"] == "fact"
    ]
    splits = read_splits(chain, holdout=0.05, seed=0)
    graph = splits.graph
    reader = Reader.of(
        graph, splits.train, Texts.of(graph), load_tokenizer(models["colake"] / "host"), n_tokens=32
    )
    ids = [graph.entities.id("e05"), graph.relations.id("next"), graph.entities.id("e06")]
    questions = reader.questions(np.array([ids]), "tail")
    nodes = questions.batch.node_ids[0]
    assert int(nodes[questions.masked[0]]) == MASK_ROW
    assert ids[2] + N_SPECIAL_ROWS not in nodes[questions.batch.node_kinds[0] == 1].tolist()
    entities = nodes[questions.batch.node_kinds[0] == 2].tolist()
    assert entities[-1] == ids[1] + N_SPECIAL_ROWS
    heads = reader.questions(np.array([ids]), "head")
    inverse = heads.batch.node_ids[0][heads.batch.node_kinds[0] == 2].tolist()[-1]
    assert inverse == ids[1] + graph.n_relations + N_SPECIAL_ROWS


def test_a_kepler_run_is_taken_as_it_is(chain: Path, host: Path, tmp_path: Path) -> None:
    splits = read_splits(chain, holdout=0.05, seed=0)
    trained = splits.graph.with_triples(splits.train, note="training")
    run = tmp_path / "run"
    options = {"n_triples": 4, "n_tokens": 16, "n_relation_tokens": 4}
    training = TrainConfig(steps=2, batch_size=1)
    train_kepler(trained, run, host=str(host), options=options, training=training)
    line = ("train", chain, "--scorer", "kepler", "--weights", run)
    output = done(*line, "-o", tmp_path / "m").stdout
    assert "not trained" in output
    assert "kept audit --against" in output
    refusal = kept(*line, "--epochs", 2, "-o", tmp_path / "n")
    assert refusal.exit_code == 1
    assert "leave out --epochs" in " ".join(refusal.stderr.split())
    refusal = json.loads(done("eval", chain, "-m", tmp_path / "m", "--json").stdout)
    assert refusal["n_trained_on"] is None
