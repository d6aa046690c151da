"""The trained encoder: it learns which card is meant, is saved whole, and links by an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from entity_linking import LinkedText, gold_link, write_jsonl
from entity_linking.dense.cards import CardOptions
from entity_linking.dense.context import ContextScorer
from entity_linking.dense.index import DenseIndex
from entity_linking.errors import LinkIndexError, LinkingError
from kept.apps.cli import app
from kept.linking.index import LinkIndex, load_encoder
from kept.linking.matching.encoder import MatchingEncoder, mapped
from kept.linking.matching.training import (
    MatchingSettings,
    accuracy,
    examples_of,
    train_matching,
)
from kept.linking.sentences import HostSentenceEncoder
from kg_loaders import KnowledgeGraph
from tests.kept.linking.matching.ambiguous_places import ambiguous_texts, places_graph

HOST = "minilm"


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return places_graph()


@pytest.fixture(scope="module")
def trained(graph: KnowledgeGraph) -> MatchingEncoder:
    settings = MatchingSettings(epochs=10, mentions_per_step=4, learning_rate=0.01)
    train, held_out = ambiguous_texts(graph, 40), ambiguous_texts(graph, 8)
    inner = HostSentenceEncoder(HOST)
    return train_matching(inner, HOST, graph, train, held_out, settings, trained_on="made up")


def test_it_learns_which_card_is_meant(trained: MatchingEncoder) -> None:
    record = trained.record
    assert (record.n_mentions, record.trained_on) == (40, "made up")
    assert record.before < 0.5
    assert record.after == 1.0


def test_the_same_texts_give_the_same_map(trained: MatchingEncoder, graph: KnowledgeGraph) -> None:
    settings = MatchingSettings(epochs=10, mentions_per_step=4, learning_rate=0.01)
    state = torch.random.get_rng_state()
    again = train_matching(
        HostSentenceEncoder(HOST),
        HOST,
        graph,
        ambiguous_texts(graph, 40),
        ambiguous_texts(graph, 8),
        settings,
    )
    assert again.name == trained.name
    assert torch.equal(state, torch.random.get_rng_state())


def test_examples_put_the_gold_card_first(graph: KnowledgeGraph) -> None:
    settings = MatchingSettings(most_candidates=2)
    examples = examples_of(
        HostSentenceEncoder(HOST), graph, ambiguous_texts(graph, 4), settings, CardOptions()
    )
    assert examples.places.shape == (4, 2)
    assert (examples.places >= 0).all()
    one = torch.eye(examples.cards.shape[1])
    by_query, by_window = examples.logits(one, torch.arange(4))
    query = examples.surfaces[0] + examples.windows[0]
    cosine = torch.cosine_similarity(query, examples.cards[examples.places[0, 0]], dim=0)
    assert by_query[0, 0].item() == pytest.approx(cosine.item() / 0.05, abs=1e-3)
    alone = torch.cosine_similarity(
        examples.windows[1], examples.cards[examples.places[1, 1]], dim=0
    )
    assert by_window[1, 1].item() == pytest.approx(alone.item() / 0.05, abs=1e-3)
    assert 0 <= accuracy(examples, one) <= 1


def test_training_and_linking_compare_the_same_vectors(
    trained: MatchingEncoder, graph: KnowledgeGraph
) -> None:
    """What a candidate is ahead of the other by is the same, over the map that was trained."""
    texts = ambiguous_texts(graph, 6)
    host = HostSentenceEncoder(HOST)
    examples = examples_of(host, graph, texts, MatchingSettings(), CardOptions())
    matrix = torch.from_numpy(trained._matrix)
    index = DenseIndex.build(graph, trained, dtype="float32")
    sides = zip(examples.logits(matrix, torch.arange(6)), (0.5, 0.0), strict=True)
    for by, share in sides:
        linking = ContextScorer(index, trained, surface_share=share).scores(texts)
        for text, logits, (scores,) in zip(texts, by, linking, strict=True):
            names = [candidate.entity for candidate in text.links[0].candidates]
            gold = names.index(str(text.links[0].entity))
            lead = float(logits[0] - logits[1])
            assert scores[gold] - scores[1 - gold] == pytest.approx(lead, abs=1e-3)


def test_nothing_to_tell_apart(graph: KnowledgeGraph) -> None:
    unlinked = [LinkedText("Arden", (gold_link(0, 5, "R0"),))]
    with pytest.raises(LinkingError, match="give texts with ambiguous names"):
        train_matching(HostSentenceEncoder(HOST), HOST, graph, unlinked, unlinked)
    with pytest.raises(LinkingError, match="too small"):
        MatchingSettings(epochs=0)


def test_saved_and_opened_it_says_the_same(trained: MatchingEncoder, tmp_path: Path) -> None:
    trained.save(tmp_path / "encoder")
    again = load_encoder(str(tmp_path / "encoder"))
    assert again.name == trained.name != HostSentenceEncoder(HOST).name
    assert np.array_equal(again.encode(["Arden flows"]), trained.encode(["Arden flows"]))
    lengths = np.linalg.norm(again.encode(["a", "b c"]), axis=1)
    assert np.allclose(lengths, 1.0)
    assert mapped(np.zeros((1, 2), np.float32), np.eye(2, dtype=np.float32)).tolist() == [[0, 0]]


def test_another_map_is_another_name(trained: MatchingEncoder) -> None:
    inner = HostSentenceEncoder(HOST)
    doubled = MatchingEncoder(inner, np.eye(inner.width, dtype=np.float32), trained.record)
    assert doubled.name != trained.name
    with pytest.raises(LinkIndexError, match="the same weights"):
        trained.over(HostSentenceEncoder(HOST, pooling="cls"))


def test_damage_is_refused(trained: MatchingEncoder, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    trained.save(folder)
    weights = folder / "map.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(bytes(raw))
    with pytest.raises(LinkIndexError, match=r"map\.safetensors"):
        MatchingEncoder.open(folder)


def test_from_gold_to_links(graph: KnowledgeGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "kg")
    write_jsonl(ambiguous_texts(graph, 40), tmp_path / "gold.jsonl")

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, ["link", *map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.output

    kg, encoder, index = tmp_path / "kg", tmp_path / "encoder", tmp_path / "index"
    output = run(
        "train-encoder", tmp_path / "gold.jsonl", "--kg", kg, "-o", encoder, "--host", HOST
    )
    assert "ambiguous mentions; the right card is nearest for" in output
    run("index", kg, "-o", index, "--dense", encoder)
    run(
        "train", tmp_path / "gold.jsonl", "--kg", kg, "--index", index, "--add", "dense",
        "-o", tmp_path / "model",
    )  # fmt: skip
    link_output = run(
        "Holm sang a ballad", "--kg", kg, "--index", index, "--method", "trained",
        "--model", tmp_path / "model", "--explain",
    )  # fmt: skip
    assert "1:0-4  Holm" in link_output
    assert LinkIndex.open(index).encoder().name == load_encoder(str(encoder)).name
