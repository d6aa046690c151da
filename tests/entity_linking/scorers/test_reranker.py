from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from entity_linking import DictionaryLinker, LinkedText, LinkingError
from entity_linking.decision import Decision
from entity_linking.errors import LinkIndexError
from entity_linking.parts import Scorer
from entity_linking.scorers.features import NeighbourScorer, PriorScorer
from entity_linking.scorers.mix import default_scorers
from entity_linking.scorers.rerank_logits import networks, relative_logits
from entity_linking.scorers.rerank_parts import RerankSettings
from entity_linking.scorers.rerank_table import feature_names, tabulate, targets, together
from entity_linking.scorers.reranker import (
    Reranker,
    ablation,
    fit_tables,
    split_by_text,
    with_gold,
)
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import ExistsError
from tests.children import with_tests
from tests.flips import forge
from tests.rerank_worlds import flat, linked, toy_world

SCORERS: dict[str, Scorer] = {"prior": PriorScorer(), "rough": PriorScorer(floor=0.2)}
QUICK = RerankSettings(epochs=20, learning_rate=0.03, hidden=4, mentions_per_step=64)


@pytest.fixture(scope="module")
def model() -> Reranker:
    return Reranker.fit(
        SCORERS, toy_world(300, 0), toy_world(60, 1), settings=QUICK, trained_on="toy"
    )


def test_nil_is_learned(model: Reranker) -> None:
    """A Decision that reads NIL at 0 answers rightly, NIL included."""
    texts = toy_world(300, 2)
    assert model.accuracy(texts) > 0.95
    decision = Decision(nil_score=0.0)
    right = n_nil = 0
    for text, scores in zip(texts, model.scores(texts), strict=True):
        link = text.links[0]
        actual = decision.decide(link.mention, link.candidates, scores[0])
        answer = actual.entity if actual.candidates[0].score > 0 else None
        right += answer == link.entity
        n_nil += answer is None
    assert right / 300 == pytest.approx(model.accuracy(texts))
    assert 50 < n_nil < 250
    assert model.record.n_nil == sum(t.links[0].entity is None for t in toy_world(300, 0))


def test_overfits_one_batch() -> None:
    """Labels that follow no rule are learned by heart from features that tell mentions apart."""
    rng = np.random.default_rng(3)
    texts = [
        linked(
            f"{'x' * (i + 1)}",
            ("x" * (i + 1), [(f"Q{j}", float(p)) for j, p in enumerate(rng.random(3))], None),
        )
        for i in range(12)
    ]
    golds = [None, "Q0", "Q1", "Q2"] * 3
    texts = [
        replace(t, links=(replace(t.links[0], entity=gold),))
        for t, gold in zip(texts, golds, strict=True)
    ]
    settings = RerankSettings(epochs=200, patience=200, hidden=32, learning_rate=0.05)
    model = Reranker.fit(SCORERS, texts, texts, settings=settings)
    assert model.record.held_out_loss < 0.02
    assert model.accuracy(texts) == 1.0


def test_the_best_epoch_is_that_of_the_held_out_texts() -> None:
    """Held-out texts that say the contrary are the worse met the more is learned from training."""
    texts = toy_world(120, 1)
    contrary = [
        replace(t, links=(replace(t.links[0], entity=t.links[0].candidates[-1].entity),))
        for t in toy_world(60, 2)
    ]
    train, against = tabulate(SCORERS, texts), tabulate(SCORERS, contrary)
    settings = replace(QUICK, epochs=12, patience=12)
    weights, record = fit_tables(train, against, settings)
    last, same = fit_tables(train, train, settings)
    assert same.best_epoch == 12
    assert same.train_loss < record.train_loss
    first, early = fit_tables(train, against, replace(settings, epochs=record.best_epoch))
    assert record.best_epoch < 6
    assert (early.best_epoch, early.held_out_loss) == (record.best_epoch, record.held_out_loss)
    assert all(np.array_equal(weights[name], first[name]) for name in weights)
    assert not all(np.array_equal(weights[name], last[name]) for name in weights)


@pytest.mark.parametrize("hidden", [0, 4])
def test_logits_against_torch(hidden: int) -> None:
    """Inference by numpy gives the loss that training saw."""
    train, held_out = (tabulate(SCORERS, toy_world(n, n)) for n in (120, 60))
    settings = replace(QUICK, hidden=hidden, epochs=3)
    weights, record = fit_tables(train, held_out, settings)
    logits = relative_logits(weights, held_out)
    gold, losses = targets(held_out.rows, absent="nil"), []
    for m, (start, stop) in enumerate(pairwise(held_out.rows.offsets)):
        with_nil = np.concatenate([[0.0], logits[start:stop]])
        losses.append(np.log(np.exp(with_nil).sum()) - with_nil[gold[m] + 1])
    assert np.mean(losses) == pytest.approx(record.held_out_loss, abs=1e-5)


def test_save_open_same_scores(model: Reranker, tmp_path: Path) -> None:
    texts = toy_world(20, 5)
    model.save(tmp_path / "model")
    again = Reranker.open(tmp_path / "model", SCORERS)
    assert flat(again.scores(texts)) == flat(model.scores(texts))
    assert again.record == model.record
    assert Reranker.scorer_names(tmp_path / "model") == ("prior", "rough")
    with pytest.raises(ExistsError, match="--force"):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()
    with pytest.raises(ExistsError, match="no re-ranker"):
        model.save(tmp_path / "other", force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "other"]


def test_other_scorers_are_refused(model: Reranker, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    for names in (["prior"], ["rough", "prior"], ["prior", "smooth"], []):
        with pytest.raises(LinkIndexError, match="trained with the scorers prior, rough, not with"):
            Reranker.open(tmp_path / "model", dict.fromkeys(names, PriorScorer()))


def test_damaged_folders_are_refused(model: Reranker, tmp_path: Path) -> None:
    with pytest.raises(LinkIndexError, match=r"not a re-ranker: it has no manifest\.json"):
        Reranker.open(tmp_path, SCORERS)
    model.save(tmp_path / "model")
    manifest = tmp_path / "model/manifest.json"
    text = manifest.read_text()
    for wrong, message in (
        (text.replace("rough.lead", "rough.leap"), "manifest.json is damaged"),
        (text[:100], "train the re-ranker again"),
    ):
        manifest.write_text(wrong)
        with pytest.raises(LinkIndexError, match=message):
            Reranker.open(tmp_path / "model", SCORERS)
    for changes, message in (
        ({"format_version": 9}, "version 9"),
        ({"candidate_features.0": "leap"}, "other features"),
    ):
        manifest.write_text(text)
        forge(tmp_path / "model", changes)
        with pytest.raises(LinkIndexError, match=message):
            Reranker.open(tmp_path / "model", SCORERS)
    manifest.write_text(text)
    weights = tmp_path / "model/weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(LinkIndexError, match=r"weights.safetensors has"):
        Reranker.open(tmp_path / "model", SCORERS)


def test_permuted_candidates_permute_scores(model: Reranker) -> None:
    texts = toy_world(30, 6)
    order = [2, 0, 3, 1]
    turned = [
        replace(
            t,
            links=(replace(t.links[0], candidates=tuple(t.links[0].candidates[i] for i in order)),),
        )
        for t in texts
    ]
    for before, after in zip(model.scores(texts), model.scores(turned), strict=True):
        np.testing.assert_allclose(before[0][order], after[0], atol=1e-12)


def test_batch_of_n_is_n_batches_of_one(model: Reranker) -> None:
    texts = [*toy_world(40, 7), linked("none here"), linked("none", ("none", [], None))]
    assert flat(model.scores(texts)) == [flat(model.scores([text]))[0] for text in texts]


def test_features_against_loops(small_graph: KnowledgeGraph) -> None:
    texts = [
        linked("Big apple", ("Big apple", [("a", 0.5), ("b", 0.5), ("c", 0.1)], "a")),
        linked("x y z", ("x", [("a", 0.3)], None), ("y", [], None), ("z", [("b", 1.0)], "b")),
    ]
    table = tabulate({"prior": PriorScorer()}, texts)
    logs = np.log([0.5, 0.5, 0.1, 0.3, 1.0])
    leads = [0.0, 0.0, logs[2] - logs[0], 0.0, 0.0]
    ranks = [1.0, 1.0, 1 / 3, 1.0, 1.0]
    np.testing.assert_allclose(table.candidates, np.stack([logs, leads, ranks], axis=1))
    expected = [  # candidates, alone, words, capitals, others, best, gap
        [np.log(3), 0, np.log(3), 0.5, 0, logs[0], 0],
        [0, 1, np.log(2), 0, np.log(2), logs[3], 0],
        [0, 0, np.log(2), 0, np.log(3), 0, 0],
        [0, 1, np.log(2), 0, np.log(2), 0, 0],
    ]
    np.testing.assert_allclose(table.mentions, expected)
    assert [len(names) for names in feature_names(["prior"])] == [3, 7]
    assert targets(table.rows, absent="nil").tolist() == [0, -1, -2, 0]
    both = tabulate(SCORERS, texts)
    np.testing.assert_array_equal(both.without("rough").candidates, table.candidates)
    np.testing.assert_array_equal(both.without("rough").mentions, table.mentions)


def test_absent_gold_trains_nil_or_is_left_out() -> None:
    text = linked("a b", ("a", [("Q1", 1.0)], "Q9"), ("b", [("Q1", 1.0)], "Q1"))
    rows = tabulate(SCORERS, [text]).rows
    assert targets(rows, absent="nil").tolist() == [-1, 0]
    assert targets(rows, absent="skip").tolist() == [-2, 0]


def test_ablation_finds_what_matters(small_graph: KnowledgeGraph) -> None:
    scorers: dict[str, Scorer] = {"prior": PriorScorer(), "none": NeighbourScorer(small_graph)}
    parts = [toy_world(n, n) for n in (200, 60, 200)]
    actual = ablation(scorers, *parts, settings=QUICK)
    assert list(actual) == ["", "prior", "none"]
    assert actual[""] > actual["prior"] + 0.2
    assert abs(actual[""] - actual["none"]) < 0.05


def test_gold_joins_candidates() -> None:
    gold = toy_world(3, 0)
    blank = [replace(t, links=(replace(t.links[0], entity=None),)) for t in gold]
    assert with_gold(blank, gold) == gold
    with pytest.raises(LinkingError, match="2 texts with candidates but 3"):
        with_gold(blank[:2], gold)
    with pytest.raises(LinkingError, match="text 0"):
        with_gold([blank[1], *blank[1:]], gold)


def test_split_keeps_equal_texts_together() -> None:
    texts = toy_world(200, 0)
    train, held_out = split_by_text([*texts, *texts], share=0.2, seed=0)
    assert not {t.text for t in train} & {t.text for t in held_out}
    assert 40 < len(held_out) < 130
    assert split_by_text(texts, share=0.2, seed=1)[1] != held_out[: len(held_out) // 2]
    with pytest.raises(LinkingError, match="share is 1"):
        split_by_text(texts, share=1.0, seed=0)


def test_nothing_to_learn_from_is_told() -> None:
    without_candidates = [linked("none", ("none", [], None))]
    with pytest.raises(LinkingError, match="held-out texts hold no mention"):
        Reranker.fit(SCORERS, toy_world(5, 0), without_candidates)
    with pytest.raises(LinkingError, match="needs at least one cheap scorer"):
        Reranker.fit({}, toy_world(5, 0), without_candidates)
    with pytest.raises(LinkingError, match="absent is 'maybe'"):
        RerankSettings(absent="maybe")  # type: ignore[arg-type]
    with pytest.raises(LinkingError, match="count below 1"):
        RerankSettings(epochs=0)


def trained_on_a_graph(graph: KnowledgeGraph, folder: Path) -> None:
    linker = DictionaryLinker(graph)
    texts = linker.link(["Paris in France", "a city in Texas: Paris", "Bonn, Paris, Germany"])
    settings = RerankSettings(epochs=3, hidden=2)
    Reranker.fit(default_scorers(graph), texts, texts, settings=settings).save(folder)


PROGRAM = """
import sys
from pathlib import Path
from tests.entity_linking.scorers.test_reranker import trained_on_a_graph
from kg_loaders import KnowledgeGraph
trained_on_a_graph(KnowledgeGraph.open(sys.argv[1]), Path(sys.argv[2]))
"""


def test_same_in_every_process(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    """Another string hash changes no byte."""
    here, there, graph = (tmp_path / name for name in ("here", "there", "kg"))
    small_graph.save(graph)
    trained_on_a_graph(small_graph, here)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(graph), str(there)],
        env=with_tests(PYTHONHASHSEED=seed),
        check=True,
    )
    names = ["manifest.json", "weights.safetensors"]
    assert sorted(file.name for file in there.iterdir()) == names
    assert [(here / n).read_bytes() for n in names] == [(there / n).read_bytes() for n in names]


def test_using_a_model_loads_no_torch() -> None:
    program = (
        "import sys, entity_linking.scorers.reranker, entity_linking.scorers.mix;"
        "import kept.apps.cli.link.train;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_default_scorers_train(small_graph: KnowledgeGraph) -> None:
    texts: list[LinkedText] = toy_world(50, 0)
    model = Reranker.fit(default_scorers(small_graph), texts, texts, settings=QUICK)
    assert np.isfinite(np.concatenate([s[0] for s in model.scores(texts)])).all()


def test_networks_answer_by_the_mean_of_their_shares(tmp_path: Path) -> None:
    train, held_out = (tabulate(SCORERS, toy_world(n, n)) for n in (120, 60))
    weights, record = fit_tables(train, held_out, replace(QUICK, networks=3, epochs=3))
    moments = {name: weights[name] for name in weights if name.endswith((".mean", ".deviation"))}
    alone = [relative_logits({**moments, **network}, held_out) for network in networks(weights)]
    first, _ = fit_tables(train, held_out, replace(QUICK, epochs=3))
    assert np.array_equal(alone[0], relative_logits(first, held_out))
    assert len(alone) == 3
    assert not np.allclose(alone[0], alone[1])
    shares = []
    for start, stop in pairwise(held_out.rows.offsets):
        each = np.exp([np.concatenate([[0.0], logits[start:stop]]) for logits in alone])
        shares.append((each / each.sum(axis=1, keepdims=True)).mean(axis=0))
    logits = np.concatenate([np.log(share[1:] / share[0]) for share in shares])
    assert relative_logits(weights, held_out) == pytest.approx(logits, abs=1e-9)
    gold = targets(held_out.rows, absent="nil")
    losses = [-np.log(share[position + 1]) for share, position in zip(shares, gold, strict=True)]
    assert record.held_out_loss == pytest.approx(np.mean(losses), abs=1e-6)
    Reranker(SCORERS, weights, record).save(tmp_path / "several")
    again = Reranker.open(tmp_path / "several", SCORERS).scores(held_out.rows.texts)
    numbers = np.concatenate([scores for row in again for scores in row])
    assert np.array_equal(numbers, relative_logits(weights, held_out))


def test_tables_stand_together() -> None:
    parts = [toy_world(20, 0), toy_world(30, 1)]
    one = tabulate(SCORERS, [text for part in parts for text in part])
    both = together([tabulate(SCORERS, part) for part in parts])
    assert np.array_equal(one.candidates, both.candidates)
    assert np.array_equal(one.mentions, both.mentions)
    assert np.array_equal(one.rows.offsets, both.rows.offsets)


def test_training_examples_are_sure_of_their_entities() -> None:
    """However sure the linker was that proposed their candidates."""
    proposed = linked("one", ("one", [("a", 0.5)], None))
    unsure = replace(proposed, links=tuple(replace(k, confidence=0.25) for k in proposed.links))
    gold = linked("one", ("one", [], "a"))
    (example,) = with_gold([unsure], [gold])
    assert [(k.entity, k.confidence, len(k.candidates)) for k in example.links] == [("a", 1.0, 1)]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 1.5])
def test_nothing_and_all_are_no_share_to_hold_out(share: float) -> None:
    with pytest.raises(LinkingError, match="hold out more than nothing and less than all"):
        split_by_text(toy_world(3, 0), share=share, seed=0)
