"""Masked entities: which are masked, and what a sample of negatives estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders.luke import LUKE
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import NodeKind
from kept.graphs.views import LUKEView
from kept.methods import METHODS
from kept.objectives.base import PreparationContext
from kept.objectives.masked_entities import MaskedEntitiesOptions, MaskedEntitiesPreparation
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder, tiny_host

CONFIG = BuilderConfig(max_words=40, max_nodes=90, **METHODS["luke"].builder)


@pytest.fixture
def samples(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> list[KnowledgeBatch]:
    texts = [text for text in linked if len(text.links) > 1][:6]
    graphs = build_many(texts, tokenizer, small_graph, seed=0, config=CONFIG)
    return [LUKEView()(graph) for graph in graphs]


def preparation(graph: KnowledgeGraph, tokenizer: Any, **options: Any) -> MaskedEntitiesPreparation:
    counts = np.ones(graph.n_entities + N_SPECIAL_ROWS)
    counts[:N_SPECIAL_ROWS] = 0
    world = PreparationContext(graph, tokenizer, counts)
    return MaskedEntitiesPreparation.of(MaskedEntitiesOptions(**options), world)


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_a_share_of_the_entities_is_always_masked(
    share: float, samples: list[KnowledgeBatch], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """At least one; words stay, and labels are the rows that stood there."""
    prepared = preparation(small_graph, tokenizer, probability=share)
    for number, sample in enumerate(samples):
        marked = prepared.mark(sample, np.random.default_rng(number))
        is_entity, labels = sample.node_kinds == NodeKind.ENTITY, marked.node_labels
        assert labels is not None
        chosen = labels != IGNORE
        assert int(chosen.sum()) == max(1, round(int(is_entity.sum()) * share))
        assert bool(is_entity[chosen].all())
        assert bool((marked.node_ids[chosen] == MASK_ROW).all())
        assert labels[chosen].equal(sample.node_ids[chosen])
        assert marked.node_ids[~chosen].equal(sample.node_ids[~chosen])


def test_every_entity_is_masked_in_some_epoch(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    prepared, sample = preparation(small_graph, tokenizer), samples[0]
    draws = np.random.default_rng(0)
    masked = set()
    for _ in range(60):
        labels = prepared.mark(sample, draws).node_labels
        assert labels is not None
        masked.add(int((labels[0] != IGNORE).nonzero()[0]))
    assert len(masked) == int((sample.node_kinds == NodeKind.ENTITY).sum()) > 1


def test_labels_of_another_objective_stay(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    sample = samples[0]
    taken = torch.full_like(sample.node_ids, IGNORE)
    taken[0, 1] = 7
    marked = preparation(small_graph, tokenizer).mark(
        sample.replace(node_labels=taken), np.random.default_rng(0)
    )
    assert marked.node_labels is not None
    assert int(marked.node_labels[0, 1]) == 7
    assert int((marked.node_labels != IGNORE).sum()) == 2


def test_texts_without_entities_are_counted(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    texts = [np.array([3, -1]), np.array([-1]), np.array([], np.int64), np.array([0])]
    assert preparation(small_graph, tokenizer).share_read(texts) == 0.5


def test_a_sample_estimates_the_loss_over_all(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """The mean over many samples is near the loss of the whole softmax, special rows aside."""
    encoder = method_encoder("luke", small_graph, tokenizer)
    model = KnowledgeForPreTraining.of(encoder, {"masked_entities": {"shared_negatives": 40}})
    model.eval()
    prepared = preparation(small_graph, tokenizer, shared_negatives=40)
    draws = np.random.default_rng(3)
    marked = KnowledgeBatch.stack([prepared.mark(sample, draws) for sample in samples])
    assert marked.node_labels is not None
    chosen = (marked.node_labels != IGNORE) & (marked.node_kinds == NodeKind.ENTITY)
    objective = model.objectives["masked_entities"]
    with torch.no_grad():
        states = encoder(marked).node_states[chosen]
        logits = objective.all_logits(states, encoder)[:, N_SPECIAL_ROWS:]
        whole = F.cross_entropy(logits, marked.node_labels[chosen] - N_SPECIAL_ROWS)
        losses = [
            model(prepared.complete(marked, draws)).losses["masked_entities"] for _ in range(60)
        ]
    assert float(torch.stack(losses).mean()) == pytest.approx(float(whole), rel=0.1)


def test_sparse_gradients_want_a_sample(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    def model(**options: Any) -> KnowledgeForPreTraining:
        encoder = LUKE.for_graph(
            tiny_host(n_words=len(tokenizer), n_positions=128), small_graph, tokenizer, seed=0,
            sparse_entities=True,
        )  # fmt: skip
        return KnowledgeForPreTraining.of(encoder, {"masked_entities": options})

    with pytest.raises(ConfigError, match="give shared_negatives"):
        model()
    assert model(shared_negatives=4).encoder.entity_vectors.sparse


def test_another_encoder_and_options_are_refused(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    with pytest.raises(ConfigError, match="CoLAKE has none"):
        KnowledgeForPreTraining.of(
            method_encoder("colake", small_graph, tokenizer), {"masked_entities": {}}
        )
    with pytest.raises(ConfigError, match=r"probability 0: .*shared_negatives 0"):
        MaskedEntitiesOptions(probability=0, shared_negatives=0)
