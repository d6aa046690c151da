"""LUKE's view: words, then linked entities with the words of their mentions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import LUKEView, words_of
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph

PLAIN = BuilderConfig(max_words=40, max_nodes=90, **METHODS["luke"].builder)


@pytest.fixture
def graphs(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> list[WordKnowledgeGraph]:
    texts = [text for text in linked if len(text.links) > 1][:6]
    return build_many(texts, tokenizer, small_graph, seed=0, config=PLAIN)


def by_loop(graph: WordKnowledgeGraph) -> list[tuple[int, int, int, float]]:
    """Row, first word, end and confidence of each linked entity, by the characters of its link."""
    words = np.flatnonzero(graph.kinds == NodeKind.WORD)
    mentions = []
    for node in range(graph.n_nodes):
        if graph.kinds[node] != NodeKind.ENTITY:
            continue
        link = graph.links[int(graph.origins[node, 0])]
        inside = [
            position
            for position, word in enumerate(words.tolist())
            if graph.spans[word, 0] >= 0
            and graph.spans[word, 0] < link.mention.end
            and graph.spans[word, 1] > link.mention.start
        ]
        row = int(graph.ids[node]) + N_SPECIAL_ROWS
        mentions.append((row, inside[0], inside[-1] + 1, link.confidence))
    return sorted(mentions, key=lambda entity: entity[1])


@pytest.mark.parametrize("weighs", [False, True])
def test_it_is_what_a_loop_finds(graphs: list[WordKnowledgeGraph], weighs: bool) -> None:
    view = LUKEView(weigh_links=weighs)
    for graph in graphs:
        batch, words, entities = view(graph), words_of(graph), by_loop(graph)
        n_words = words.node_ids.shape[1]
        assert len(entities) > 1
        assert batch.node_ids[0, :n_words].equal(words.node_ids[0])
        assert batch.positions[0, :n_words].tolist() == list(range(n_words))
        assert batch.node_ids[0, n_words:].tolist() == [row for row, *_ in entities]
        assert batch.node_kinds[0].tolist() == [0] * n_words + [1] * len(entities)
        assert batch.mention_spans is not None
        assert batch.mention_spans[0].tolist() == [[a, b] for _, a, b, _ in entities]
        assert bool(batch.visibility.mask.all())
        if not weighs:
            assert batch.node_weights is None
            continue
        expected = [1.0] * n_words + [confidence for *_, confidence in entities]
        np.testing.assert_allclose(batch.node_weights[0], expected, rtol=1e-6)


def test_places_lead_to_words_and_entities(graphs: list[WordKnowledgeGraph]) -> None:
    view = LUKEView()
    for graph in graphs:
        batch = view(graph)
        places = view.places(graph, batch)
        for node in range(graph.n_nodes):
            shift = N_SPECIAL_ROWS if graph.kinds[node] == NodeKind.ENTITY else 0
            assert int(batch.node_ids[0, places[node]]) == int(graph.ids[node]) + shift


def test_a_long_mention_is_cut(graphs: list[WordKnowledgeGraph]) -> None:
    whole, cut = (
        LUKEView()(graphs[0]).mention_spans,
        LUKEView(max_mention=1)(graphs[0]).mention_spans,
    )
    assert whole is not None
    assert cut is not None
    assert cut[..., 0].equal(whole[..., 0])
    assert (cut[..., 1] - cut[..., 0]).tolist() == [[1] * whole.shape[1]]
    assert LUKEView(max_mention=1).fingerprint != LUKEView().fingerprint
    with pytest.raises(ConfigError, match="max_mention is 0"):
        LUKEView(max_mention=0)


def test_no_text_has_more_nodes_than_it_says(graphs: list[WordKnowledgeGraph]) -> None:
    for graph in graphs:
        n_words = int((graph.kinds == NodeKind.WORD).sum())
        counts = (np.array([n]) for n in (n_words, len(graph.links), 0))
        assert LUKEView()(graph).node_ids.shape[1] <= LUKEView().n_nodes(*counts)[0]
