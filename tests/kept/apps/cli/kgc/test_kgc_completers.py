"""`kept kgc` with scorers that answer any graph: ULTRA by its triples, SimKGC by its texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from kept.apps.cli.kgc.opening import open_over
from kept.apps.cli.kgc.prediction import _reasons
from kept.evaluation.ranking import Filter, rank
from kept.kgc.completers.folders import open_completer
from kept.kgc.completers.seen import TrainedOn
from kept.kgc.completers.ultra import ULTRA_RECIPE
from kept.kgc.shared_ranking import RememberedBlocks
from kept.kgc.training import by_recipe
from kept.kge.options import UltraOptions
from kept.kge.prediction import Answer
from kept.kge.splits import read_splits
from kept.kge.trained import load_scorer
from kept.kge.ultra.graphs import Edges, relation_graph
from kg_loaders import KnowledgeGraph
from tests.kept.apps.cli.kgc.kgc_toy import done, kept


@pytest.fixture(scope="module")
def ultra(chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "ultra"
    result = done("train", chain, "--scorer", "ultra", "--width", 8, "--epochs", 6, "-o", output)
    assert "calibrated on 6 validation questions" in result.stdout
    assert "were kept, by 3 validation triples" in result.stdout
    return output


@pytest.fixture(scope="module")
def simkgc(chain: Path, host: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "simkgc"
    done("train", chain, "--scorer", "simkgc", "--host", host, "--epochs", 2, "--batch-size", 8,
         "-o", output)  # fmt: skip
    return output


@pytest.fixture(scope="module")
def dkrl(chain: Path, host: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("models") / "dkrl"
    result = done("train", chain, "--scorer", "dkrl", "--host", host, "--epochs", 80,
                  "--batch-size", 8, "-o", output)  # fmt: skip
    assert "dkrl, 80 epochs" in result.stdout
    return output


@pytest.mark.parametrize("name", ["ultra", "simkgc", "dkrl"])
def test_another_graph_is_answered(
    name: str, chain: Path, other: Path, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    report = json.loads(done("eval", other, "-m", model, "--json").stdout)
    assert (report["n_asked"], report["n_scored"], report["scored_over"]) == (4, 4, "all")
    assert report["strata"]["unseen"]["n_triples"] == 2
    assert report["n_trained_on"] == 0
    same_graph = json.loads(done("eval", chain, "-m", model, "--json").stdout)
    assert same_graph["strata"]["seen"]["n_triples"] == 2
    page = " ".join(done("eval", other, "-m", model).stdout.split())
    assert f"{name} reads entities and has no vector of any" in page


def test_ultra_learns_a_chain_that_it_never_saw(other: Path, ultra: Path) -> None:
    report = json.loads(done("eval", other, "-m", ultra, "--split", "valid", "--json").stdout)
    assert report["metrics"]["mrr"] > 0.5
    assert report["beside"]["model"]["metrics"]["mrr"] == pytest.approx(report["metrics"]["mrr"])


def test_what_was_trained_on_is_counted(
    chain: Path, other: Path, simkgc: Path, tmp_path: Path
) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text((other / f"{name}.txt").read_text())
    leaked = (other / "test.txt").read_text() + "e00\tnext\te01\n"
    (tmp_path / "test.txt").write_text(leaked)
    assert json.loads(done("eval", tmp_path, "-m", simkgc, "--json").stdout)["n_trained_on"] == 1
    page = " ".join(done("eval", tmp_path, "-m", simkgc).stdout.split())
    assert "1 of the 3 triples of test were trained on" in page
    graph = read_splits(chain, holdout=0.05, seed=0)
    trained_on = TrainedOn.of(graph.graph, graph.train)
    assert trained_on.holds(graph.graph, graph.train).all()
    assert not trained_on.holds(graph.graph, graph.test).any()
    turned = graph.train[:, [2, 1, 0]]
    forwards = {tuple(row) for row in graph.train.tolist()}
    expected = [tuple(row) in forwards for row in turned.tolist()]
    assert trained_on.holds(graph.graph, turned).tolist() == expected


def test_weights_of_others_are_taken_as_they_are_or_trained_on(
    chain: Path, ultra: Path, tmp_path: Path
) -> None:
    weights = load_file(ultra / "model.safetensors")
    save_file(weights, tmp_path / "w.safetensors")
    torch.save({"model": weights, "optimizer": {}}, tmp_path / "w.pth")
    for name in ("w.safetensors", "w.pth"):
        output = tmp_path / f"from-{name}"
        output_ = done(
            "train", chain, "--scorer", "ultra", "--weights", tmp_path / name, "-o", output
        )
        assert "not trained" in output_.stdout
        assert "is not recorded" in output_.stdout
        stored = load_file(output / "model.safetensors")
        assert all(torch.equal(stored[key], weights[key]) for key in weights)
        report = json.loads(done("eval", chain, "-m", output, "--json").stdout)
        assert (report["strata"], report["n_trained_on"]) == ({}, None)
        assert "kept audit --against" in done("eval", chain, "-m", output).stdout
    further = tmp_path / "further"
    done("train", chain, "--scorer", "ultra", "--weights", tmp_path / "w.pth", "--epochs", 1,
         "--ask", 4, "-o", further)  # fmt: skip
    stored = load_file(further / "model.safetensors")
    assert not all(torch.equal(stored[key], weights[key]) for key in weights)


def test_a_part_of_an_epoch_does_not_end_the_training() -> None:
    config = by_recipe(ULTRA_RECIPE, UltraOptions(epochs=7, batch_size=16))
    assert config == replace(ULTRA_RECIPE, n_epochs=7, batch_size=16)
    assert config.patience == 1
    assert by_recipe(ULTRA_RECIPE, UltraOptions(epochs=7, batch_size=16, ask=8)) == replace(
        config, patience=0
    )


class _Code:
    def __reduce__(self) -> Any:
        return print, ("run",)


def test_a_file_that_would_run_code_is_refused(chain: Path, tmp_path: Path) -> None:
    torch.save({"model": _Code()}, tmp_path / "bad.pth")
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    for name, words in (
        ("bad.pth", "could run code when read"),
        ("other.safetensors", "holds no ULTRA"),
    ):
        refusal = kept("train", chain, "--scorer", "ultra", "--weights", tmp_path / name, "-o",
                    tmp_path / "m")  # fmt: skip
        assert refusal.exit_code == 1
        assert words in " ".join(refusal.stderr.split())
        assert "run\n" not in refusal.stdout


def test_a_folder_gives_the_same_scores_again(chain: Path, simkgc: Path, ultra: Path) -> None:
    splits = read_splits(chain, holdout=0.05, seed=0)
    rows = torch.from_numpy(splits.test).long()
    for model in (simkgc, ultra):
        first, again = (open_completer(model).completer for _ in range(2))
        scores = [one.on(splits.graph, splits.train).scores("tail", rows) for one in (first, again)]
        assert torch.equal(*scores)


def test_a_damaged_folder_is_refused(chain: Path, simkgc: Path) -> None:
    path = simkgc / "host" / "tokenizer.json"
    before = path.read_bytes()
    try:
        path.write_bytes(before.replace(b"number", b"numbor"))
        refusal = kept("eval", chain, "-m", simkgc)
        assert refusal.exit_code == 1
        assert "altered after it was written" in " ".join(refusal.stderr.split())
    finally:
        path.write_bytes(before)


def test_options_of_other_scorers_are_refused(chain: Path, tmp_path: Path) -> None:
    for scorer, option, words in (
        ("ultra", ("--host", "minilm"), "ultra takes no --host; it takes --epochs"),
        ("simkgc", ("--width", 8), "simkgc takes no --width"),
        ("complex", ("--ask", 8), "complex takes no --ask"),
        ("nobody", (), "'nobody' is unknown"),
    ):
        refusal = kept("train", chain, "--scorer", scorer, *option, "-o", tmp_path / "m")
        assert refusal.exit_code == 1
        assert words in " ".join(refusal.stderr.split())


def test_simkgc_needs_texts_and_ultra_takes_no_training_triple(
    chain: Path, ultra: Path, simkgc: Path, host: Path, tmp_path: Path
) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text((chain / f"{name}.txt").read_text())
    refusal = kept("train", tmp_path, "--scorer", "simkgc", "--host", host, "-o", tmp_path / "m")
    assert refusal.exit_code == 1
    assert "no entity has any" in " ".join(refusal.stderr.split())
    refusal = kept("eval", chain, "-m", ultra, "--split", "train")
    assert refusal.exit_code == 1
    assert "use --split valid or test" in " ".join(refusal.stderr.split())
    with pytest.raises(Exception, match="keeps no vector of an entity"):
        load_scorer(ultra, read_splits(chain, holdout=0.05, seed=0).graph)


def test_baselines_and_sampled_ranks_are_reported(chain: Path, ultra: Path) -> None:
    report = json.loads(done("eval", chain, "-m", ultra, "--json").stdout)
    assert list(report["beside"]) == ["model", "degree", "PageRank"]
    for one in report["beside"].values():
        assert one["metrics"].keys() == report["metrics"].keys()
        assert one["sampled"]["mrr"] >= one["metrics"]["mrr"] - 1e-9
        assert (one["sampled"]["n_draws"], one["sampled"]["n_questions"]) == (10, 4)
    page = done("eval", chain, "-m", ultra).stdout
    assert "PageRank" in page
    assert "GraIL's protocol" in page
    plain = done("eval", chain, "-m", ultra, "--no-baselines").stdout
    assert "PageRank" not in plain


def test_scores_are_computed_once(chain: Path, ultra: Path) -> None:
    splits = read_splits(chain, holdout=0.05, seed=0)
    inner = open_completer(ultra).completer.on(splits.graph, splits.train)
    calls: list[int] = []

    class Counting:
        def scores(self, direction: Any, triples: torch.Tensor, /) -> torch.Tensor:
            calls.append(len(triples))
            return inner.scores(direction, triples)

    known = Filter(
        splits.as_mapping(), n_entities=splits.graph.n_entities,
        n_relations=splits.graph.n_relations,
    )  # fmt: skip
    ranks = []
    remembered = RememberedBlocks(
        Counting(), splits.test, filter=known, directions=("head", "tail")
    )
    for _ in range(2):
        result = rank(remembered, splits.test, filter=known, ties="realistic",
                      directions=("head", "tail"), candidates="all")  # fmt: skip
        ranks.append(result.ranks.tolist())
    assert ranks[0] == ranks[1]
    assert calls == [2, 2]


def test_texts_of_a_benchmark_folder_are_read(chain: Path, tmp_path: Path) -> None:
    graph = read_splits(chain, holdout=0.05, seed=0).graph
    assert graph.label(graph.entities.id("e03")) == "number w3"
    (tmp_path / "train.txt").write_text("00000001\t_hypernym\t00000002\n")
    for name in ("valid", "test"):
        (tmp_path / f"{name}.txt").write_text("00000001\t_hypernym\t00000001\n")
    (tmp_path / "entity2text.txt").write_text("00000001\tdog, a pet\n00000009\tcat, none\n")
    (tmp_path / "relation_text.tsv").write_text("id\tqid\tname\n0\t_hypernym\tis a\n")
    (tmp_path / "entity2textlong.txt").write_text("00000002\ta long gloss\n")
    graph_of_texts = read_splits(tmp_path, holdout=0.05, seed=0).graph
    assert isinstance(graph_of_texts, KnowledgeGraph)
    assert list(graph_of_texts.entities) == ["00000001", "00000002"]
    assert (graph_of_texts.label(0), graph_of_texts.description(0)) == ("dog", "a pet")
    assert (graph_of_texts.label(1), graph_of_texts.description(1)) == ("00000002", "a long gloss")
    assert graph_of_texts.relation_label(0) == "is a"
    (tmp_path / "entity2text.txt").write_text("00000001 dog\n")
    refusal = kept("train", tmp_path, "-o", tmp_path / "m")
    assert refusal.exit_code == 1
    assert "entity2text.txt, line 1" in " ".join(refusal.stderr.split())


# ---- an entity that is not in the graph ----------------------------------------------------------
def test_a_new_entity_is_asked_about_by_its_text(chain: Path, dkrl: Path, simkgc: Path) -> None:
    """Its text is that of e05, so its neighbours are those of e05."""
    flags = ("--kg", chain, "--text", "somebody: number w5", "--json")
    rows = json.loads(done("predict", "NEW", "next", "-m", dkrl, "--top", 3, *flags).stdout)
    assert "e06" in [row["id"] for row in rows]
    assert "NEW" not in [row["id"] for row in rows]
    assert not any(row["known"] for row in rows)
    assert all(row["trained"] for row in rows)
    sure = [row["confidence"] for row in rows]
    assert all(0 <= one <= 1 for one in sure)
    assert sure == sorted(sure, reverse=True)
    question = ("predict", "?", "previous", "NEW", "-m", simkgc, *flags)
    heads = json.loads(done(*question).stdout)
    assert len(heads) == 10


def test_a_new_entity_is_asked_about_by_its_facts(chain: Path, ultra: Path, tmp_path: Path) -> None:
    """(e07, next, NEW) puts it where e08 stands."""
    facts = tmp_path / "new.tsv"
    facts.write_text("e07\tnext\tNEW\n")
    flags = ("--kg", chain, "-m", ultra, "--facts", facts, "--json")
    rows = json.loads(done("predict", "NEW", "previous", "?", "--top", 3, *flags).stdout)
    assert "e07" in [row["id"] for row in rows]
    facts.write_text("number w7\tnext\tNEW\n")  # by its label
    assert json.loads(done("predict", "NEW", "previous", "?", "--top", 3, *flags).stdout) == rows
    prediction = json.loads(done("predict", "NEW", "previous", "?", "--explain", *flags).stdout)
    assert any("number w7" in one["what"] for one in prediction["reasons"])
    assert prediction["reasons"][0]["change"] > 0


def test_reasons_are_what_leaving_out_really_changes(chain: Path, ultra: Path) -> None:
    splits = read_splits(chain, holdout=0.05, seed=0)
    graph, completer = splits.graph, open_completer(ultra).completer
    ids = (graph.entities.id("e04"), graph.relations.id("next"), graph.entities.id("e05"))
    reasons = completer.reasons(graph, splits.train, "tail", ids)
    changes = [one.change for one in reasons]
    assert changes == sorted(changes, reverse=True)
    fact = next(one for one in reasons if one.source == "fact")
    words = tuple(fact.what.replace(" – ", "|").replace(" → ", "|").split("|"))
    named = [
        (graph.label(h), graph.relation_label(r), graph.label(t))
        for h, r, t in splits.train.tolist()
    ]
    row = torch.tensor([ids])
    left = splits.train[[triple != words for triple in named]]
    assert len(left) == len(splits.train) - 1
    sizes = {"n_entities": graph.n_entities, "n_relations": graph.n_relations}
    between = relation_graph(Edges.of(splits.train, **sizes))
    model = completer.model  # type: ignore[attr-defined]
    scores = []
    for rows in (splits.train, left):
        edges = Edges.of(rows, **sizes)
        with torch.no_grad():
            without_fact = model(edges, between, row[:, 0], row[:, 1], torch.tensor([False]))
        scores.append(float(without_fact[0, ids[2]]))
    assert fact.change == pytest.approx(scores[0] - scores[1], abs=1e-4)


def test_there_are_no_reasons_without_a_new_answer(chain: Path, ultra: Path) -> None:
    """All answers that `predict` prints may be in the graph already."""
    opened = open_over(chain, ultra)
    assert _reasons(opened, ("e03", "next", "?"), None) == []
    answer = Answer(id="e04", label="", score=0.0, known=True, trained=True)
    assert _reasons(opened, ("e03", "next", "?"), answer)


@pytest.mark.parametrize("name", ["simkgc", "dkrl"])
def test_parts_of_texts_are_reasons(name: str, chain: Path, request: Any) -> None:
    model = request.getfixturevalue(name)
    flags = ("--kg", chain, "-m", model, "--text", "somebody: number w5", "--explain")
    prediction = json.loads(done("predict", "NEW", "next", *flags, "--json").stdout)
    assert {"somebody (question): w5", "somebody (question): number"} == {
        one["what"] for one in prediction["reasons"]
    }
    assert {one["source"] for one in prediction["reasons"]} == {"text"}
    page = done("predict", "NEW", "next", *flags).stdout
    assert "how much lower its score is without" in page


def test_a_confidence_below_the_limit_is_a_refusal(chain: Path, dkrl: Path) -> None:
    flags = ("--kg", chain, "-m", dkrl, "--text", "somebody: number w5")
    page = " ".join(done("predict", "NEW", "next", *flags, "--refuse-below", 1).stdout.split())
    assert "refused: the best new answer" in page or "confidence 1.00" in page
    page = " ".join(done("predict", "NEW", "next", *flags, "--refuse-below", 0).stdout.split())
    assert "answer: number w" in page
    assert "given that one is missing" in page


def test_what_cannot_be_asked_about_a_new_entity_is_refused(
    chain: Path, dkrl: Path, ultra: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    done("train", chain, "--epochs", 1, "--width", 4, "-o", table)
    facts = tmp_path / "new.tsv"
    text, file = ("--text", "somebody: number w5"), ("--facts", facts)
    new = ("NEW", "next", "-m")
    cases: list[tuple[tuple[Any, ...], str, str]] = [
        ((*new, table, *text), "", "for the entities of its training only; train ultra or nbfnet"),
        ((*new, ultra, *text), "", "ultra reads triples: give --facts"),
        ((*new, dkrl, *file), "e01\tnext\tNEW", "dkrl reads texts: give --text"),
        (("e01", "next", "-m", dkrl, *text), "", "'e01' is in the graph"),
        ((*new, ultra, *file), "e01\tnext\te02", "has not 'NEW' at one"),
        ((*new, ultra, *file), "e01\tfar\tNEW", "identifier or label 'far'"),
        ((*new, ultra, *file), "x\tnext\tNEW", "'x'"),
        (("e01", "next", "-m", table, "--explain"), "", "compares vectors"),
        (("NEW", "far", "-m", dkrl, *text), "", "'far'"),
    ]
    for arguments, line, words in cases:
        facts.write_text(f"{line}\n")
        refusal = kept("predict", *arguments, "--kg", chain)
        assert refusal.exit_code == 1, refusal.output
        assert words in " ".join(refusal.stderr.split())


def test_dkrl_refuses_relations_that_it_never_saw(chain: Path, dkrl: Path, tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        text = (chain / f"{name}.txt").read_text()
        (tmp_path / f"{name}.txt").write_text(text.replace("next", "after"))
    (tmp_path / "entity2text.txt").write_text((chain / "entity2text.txt").read_text())
    refusal = kept("eval", tmp_path, "-m", dkrl)
    assert refusal.exit_code == 1
    assert "'after' was in no training triple" in " ".join(refusal.stderr.split())
