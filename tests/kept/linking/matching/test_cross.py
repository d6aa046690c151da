"""The cross-encoder: it learns which card is meant, reads the best few, is saved whole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from entity_linking import LinkedText, gold_link, write_jsonl
from entity_linking.dense.cards import CardOptions
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.mentions import Candidate, Link, Mention
from kept.apps.cli import app
from kept.batches import Visibility
from kept.hosts import attention_mask, layers, load_host, word_table
from kept.linking.first_layers import FirstPosition
from kept.linking.matching.cross import UNREAD, Cards, CrossScorer, marked, pairs_of
from kept.linking.matching.cross_training import CrossSettings, examples_of, train_cross
from kg_loaders import KnowledgeGraph
from tests.flips import forge
from tests.kept.linking.matching.ambiguous_places import PLACES, ambiguous_texts, places_graph
from tests.kept.training.tiny_pretraining import write_host

SETTINGS = CrossSettings(
    n_layers=1, epochs=12, mentions_per_step=4, learning_rate=5e-3, head_learning_rate=1e-2
)


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return places_graph()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_host(tmp_path_factory.mktemp("host") / "host"))


@pytest.fixture(scope="module")
def trained(graph: KnowledgeGraph) -> CrossScorer:
    train, held_out = ambiguous_texts(graph, 64), ambiguous_texts(graph, 8)
    return train_cross("minilm", graph, train, held_out, SETTINGS, trained_on="made up")


def test_it_learns_which_card_is_meant(trained: CrossScorer) -> None:
    record = trained.record
    assert (record.n_mentions, record.trained_on) == (64, "made up")
    assert record.before == 0.5
    assert record.after == 1.0


def test_the_right_one_has_the_best_score(trained: CrossScorer, graph: KnowledgeGraph) -> None:
    texts = ambiguous_texts(graph, 8)
    for text, (scores,) in zip(texts, trained.scores(texts), strict=True):
        (link,) = text.links
        assert link.candidates[int(scores.argmax())].entity == link.entity


def test_other_texts_of_a_batch_change_nothing(trained: CrossScorer, graph: KnowledgeGraph) -> None:
    texts = ambiguous_texts(graph, 6)
    together = trained.scores(texts)
    for text, scores in zip(texts, together, strict=True):
        assert np.allclose(trained.scores([text])[0][0], scores[0], atol=1e-5)
    assert trained.scores([]) == []
    assert trained.scores([LinkedText("no link", ())]) == [[]]


def test_each_link_is_judged_by_itself(trained: CrossScorer) -> None:
    """So that a re-ranker may ask about some of a text's mentions."""
    candidates = tuple(Candidate(name, 0.1, 0.0) for name in ("R0", "S0", "R1"))
    places = (Mention(0, 5), Mention(6, 10), Mention(15, 20))
    links = tuple(Link(mention, candidates, None, 1.0) for mention in places)
    together = trained.scores([LinkedText("Arden Holm and Garth fell", links)])[0]
    for link, scores in zip(links, together, strict=True):
        (alone,) = trained.scores([LinkedText("Arden Holm and Garth fell", (link,))])[0]
        assert np.allclose(alone, scores, atol=1e-5)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_last_layer_for_the_first_position_alone(host: str, attention: str) -> None:
    """The states are those of the whole layer, beside padding and without it."""
    model = load_host(host)
    model.set_attn_implementation(attention)
    layer, table = layers(model)[0], word_table(model).weight
    states = torch.randn(3, 7, table.shape[1], generator=torch.Generator().manual_seed(0))
    seen = torch.ones(3, 7, 7, dtype=torch.bool)
    seen[1, :4, 4:] = False
    masks = [attention_mask(model, Visibility(seen))] + [None] * (attention == "sdpa")
    for mask in masks:
        with torch.no_grad():
            whole, first = layer(states, mask), FirstPosition(layer)(states, mask)
        assert first.shape == (3, 1, table.shape[1])
        assert torch.allclose(first, whole[:, :1], atol=1e-5)


def test_only_the_best_few_are_read(trained: CrossScorer) -> None:
    names = ["R0", "S0", "R1", "S1", "R2", "S2", "not there"]
    link = Link(Mention(0, 5), tuple(Candidate(n, 0.1, 0.0) for n in names), None, 1.0)
    none = Link(Mention(6, 9), (), None, 1.0)
    first, second = trained.scores([LinkedText("Arden fell", (link, none))])[0]
    most = trained.record.most
    assert first.shape == (7,)
    assert len(set(first[most:].tolist())) == 1
    assert first[most] == pytest.approx(first[:most].min() - UNREAD)
    assert second.shape == (0,)


def test_cards_of_what_the_graph_lacks(graph: KnowledgeGraph) -> None:
    known = Cards(graph, CardOptions())
    assert known.of(["nobody", "R0"]) == ["nobody", "Arden, river in the north"]
    assert known.of(["R0"]) == ["Arden, river in the north"]
    assert marked(("Arden", "in Arden now")) == "Arden | in Arden now"


def test_examples_put_the_right_one_first(graph: KnowledgeGraph) -> None:
    for pairs, text in zip(
        examples_of(ambiguous_texts(graph, 4), Cards(graph, CardOptions()), 8, 2),
        ambiguous_texts(graph, 4),
        strict=True,
    ):
        assert len(pairs) == 2
        word = "river" if str(text.links[0].entity).startswith("R") else "singer"
        assert word in pairs[0][1]
        assert pairs[0][0].startswith(PLACES[0]) or pairs[0][0].split(" | ")[0] in PLACES


def test_training_and_linking_read_the_same_pairs(
    trained: CrossScorer, graph: KnowledgeGraph
) -> None:
    texts, known = ambiguous_texts(graph, 8), Cards(graph, CardOptions())
    record = trained.record
    teaches = examples_of(texts, known, record.window, record.most)
    pairs, limits = pairs_of(texts, known, record)
    read = [pairs[a:b] for a, b in pairwise(limits)]
    assert [sorted(pairs) for pairs in read] == [sorted(pairs) for pairs in teaches]


def test_saved_and_opened_it_says_nearly_the_same(
    trained: CrossScorer, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    trained.save(tmp_path / "cross")
    again = CrossScorer.open(tmp_path / "cross", graph)
    assert again.record == trained.record
    for ours, theirs in zip(
        again.scores(ambiguous_texts(graph, 4)),
        trained.scores(ambiguous_texts(graph, 4)),
        strict=True,
    ):
        assert np.allclose(ours[0], theirs[0], atol=0.05)  # half precision


def test_damage_is_refused(trained: CrossScorer, graph: KnowledgeGraph, tmp_path: Path) -> None:
    folder = tmp_path / "cross"
    trained.save(folder)
    weights = folder / "weights.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(bytes(raw))
    with pytest.raises(LinkIndexError, match=r"weights\.safetensors"):
        CrossScorer.open(folder, graph)


def test_a_folder_from_before_is_refused(
    trained: CrossScorer, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    trained.save(tmp_path / "cross")
    forge(tmp_path / "cross", {"format_version": 1})
    with pytest.raises(LinkIndexError, match="format version 1, this kept reads 2; train it again"):
        CrossScorer.open(tmp_path / "cross", graph)


def test_nothing_to_tell_apart(graph: KnowledgeGraph, host: str) -> None:
    unlinked = [LinkedText("Arden", (gold_link(0, 5, "R0"),))]
    with pytest.raises(LinkingError, match="give texts with ambiguous names"):
        train_cross(host, graph, unlinked, unlinked)
    with pytest.raises(LinkingError, match="too small"):
        CrossSettings(most=1)


def test_the_same_texts_give_the_same_weights(graph: KnowledgeGraph, host: str) -> None:
    state = torch.random.get_rng_state()
    texts = ambiguous_texts(graph, 8)
    settings = CrossSettings(n_layers=1, mentions_per_step=4)
    ours, theirs = (train_cross(host, graph, texts, texts, settings) for _ in range(2))
    assert np.array_equal(ours.scores(texts)[0][0], theirs.scores(texts)[0][0])
    assert torch.equal(state, torch.random.get_rng_state())


def test_from_gold_to_links(graph: KnowledgeGraph, host: str, tmp_path: Path) -> None:
    graph.save(tmp_path / "kg")
    gold = tmp_path / "gold.jsonl"
    write_jsonl(ambiguous_texts(graph, 24), gold)

    def run(*arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["link", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result.output

    kg, cross, index, model = (tmp_path / name for name in ("kg", "cross", "index", "model"))
    output = run("train-encoder", gold, "--kg", kg, "-o", cross, "--host", host, "--cross")
    assert "ambiguous mentions; the right card is first for" in output
    assert "after epoch 1" in output
    index_output = run("index", kg, "-o", index, "--cross", cross)
    assert "CrossScorer" in index_output
    train = ["train", gold, "--kg", kg, "--index", index, "--add", "cross", "-o", model]
    assert "cross asked where" not in run(*train, "--everywhere")
    output = run(*train, "--force")
    assert "cross used where the best answer without it has at most 1.0000: for 100.0%" in output
    linked = run(
        "Holm sang a ballad", "--kg", kg, "--index", index, "--method", "trained",
        "--model", model, "--explain",
    )  # fmt: skip
    assert "1:0-4  Holm" in linked
    assert "cross used: without it the best answer has" in linked
    assert "(used up to 1.000)" in linked
    text = ["Holm sang", "--kg", kg, "--method", "trained", "--model", model]
    assert "a cross-encoder is part of an index" in run(*text, code=1)
    plain = tmp_path / "bare"
    run("index", kg, "-o", plain)
    assert "has no cross-encoder" in run(*text, "--index", plain, code=1)
