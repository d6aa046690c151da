"""A link that is sure changes nothing, one that is not at all is as if it were not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.encoders.base import KnowledgeEncoder
from kept.errors import BatchError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.graph import NodeKind
from kept.graphs.views import WORDS_ONLY
from kept.graphs.views.knowbert import KnowBERTView
from kept.graphs.views.linked_words import LinkedWordsView
from kept.methods import METHODS
from kept.objectives.relation_pairs import (
    RelationPairs,
    RelationPairsOptions,
    RelationPairsPreparation,
)
from kept.outputs import KnowledgeOutput
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder

INJECTING = [name for name, line in METHODS.items() if line.injects == "beside"]
MOVING = {name for name, line in METHODS.items() if line.injects == "between"}
"""Where a link moves the words behind it, one without confidence is not as if it were none."""
OPTIONS = {name: line.view.option_names() for name, line in METHODS.items()}
WEIGHING = {name for name in METHODS if "weigh_links" in OPTIONS[name]}
"""The others see words alone, or classes of a mention as ids, which have no weight."""
UNSURE = 1e-30


def with_confidence(texts: Sequence[LinkedText], *confidences: float) -> list[LinkedText]:
    """The same links, as sure as told, in turn."""
    return [
        dataclasses.replace(
            text,
            links=tuple(
                dataclasses.replace(link, confidence=confidences[i % len(confidences)])
                for i, link in enumerate(text.links)
            ),
        )
        for text in texts
    ]


class Inputs:
    """Samples and an encoder of one method; anchors stand beside their words."""

    def __init__(self, name: str, graph: KnowledgeGraph, tokenizer: Any) -> None:
        self.name, self.graph, self.tokenizer = name, graph, tokenizer
        self.encoder: KnowledgeEncoder = method_encoder(name, graph, tokenizer)

    def samples(self, texts: Sequence[LinkedText], **options: Any) -> list[KnowledgeBatch]:
        line = METHODS[self.name]
        if "min_confidence" in OPTIONS[self.name]:
            options["min_confidence"] = 0.0
        view = line.view.of(self.graph, self.tokenizer, **options)
        fields = {"max_neighbours": 2, **line.builder, "replace_mentions": False}
        config = BuilderConfig(policy="degree", max_words=40, max_nodes=90, **fields)
        graphs = build_many(texts, self.tokenizer, self.graph, seed=0, config=config)
        return [view(graph) for graph in graphs]

    @torch.no_grad()
    def word_states(self, sample: KnowledgeBatch) -> Tensor:
        is_word = sample.node_kinds[0] == NodeKind.WORD
        return self.encoder(sample).node_states[0][is_word]


@pytest.fixture(params=INJECTING)
def world(request: pytest.FixtureRequest, small_graph: KnowledgeGraph, tokenizer: Any) -> Inputs:
    return Inputs(request.param, small_graph, tokenizer)


@pytest.fixture
def texts(linked: list[LinkedText]) -> list[LinkedText]:
    return [text for text in linked if len(text.links) > 1][:4]


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=5e-6, rtol=1e-5)


def test_every_method_that_reads_links_can_weigh_them(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    for name in WEIGHING:
        view = METHODS[name].view
        weighed = view.of(small_graph, tokenizer, weigh_links=True)
        assert weighed.fingerprint != view.of(small_graph, tokenizer).fingerprint
    reading_links = {name for name, line in METHODS.items() if line.reads in ("pairs", "mentions")}
    assert {*INJECTING, *MOVING, *reading_links} <= WEIGHING
    assert len(INJECTING) > 2


def test_sure_links_change_nothing(world: Inputs, texts: list[LinkedText]) -> None:
    sure = with_confidence(texts, 1.0)
    for weighed, plain in zip(
        world.samples(sure, weigh_links=True), world.samples(sure), strict=True
    ):
        assert weighed.node_weights is not None
        assert plain.node_weights is None
        close(world.word_states(weighed), world.word_states(plain))


def test_a_link_without_confidence_is_as_none(world: Inputs, texts: list[LinkedText]) -> None:
    unlinked = [dataclasses.replace(text, links=()) for text in texts]
    none = world.samples(unlinked)
    unsure = world.samples(with_confidence(texts, UNSURE), weigh_links=True)
    linked = world.samples(with_confidence(texts, 1.0), weigh_links=True)
    half = world.samples(with_confidence(texts, 0.5), weigh_links=True)
    for nothing, hardly, some, all_ in zip(none, unsure, half, linked, strict=True):
        expected = world.word_states(nothing)
        close(world.word_states(hardly), expected)
        with_half, with_all = world.word_states(some), world.word_states(all_)
        assert (with_all - expected).abs().max() > 1e-4
        assert (with_half - expected).abs().max() > 1e-5
        assert (with_half - with_all).abs().max() > 1e-5


@torch.no_grad()
def test_batches_packing_and_attention_agree(world: Inputs, texts: list[LinkedText]) -> None:
    samples = world.samples(with_confidence(texts, 0.9, 0.2, 0.6), weigh_links=True)
    whole = world.encoder(KnowledgeBatch.stack(samples).pad_to(140))
    eager = method_encoder(world.name, world.graph, world.tokenizer, attention="eager")
    eager.load_state_dict(world.encoder.state_dict())
    for i, sample in enumerate(samples):
        alone = world.encoder(sample).node_states[0]
        close(whole.node_states[i, : len(alone)], alone)
        close(eager(sample).node_states[0], alone)


def test_an_anchor_in_the_place_of_its_words_keeps_its_weight(
    texts: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    config = BuilderConfig(max_neighbours=2, policy="degree", max_words=40, max_nodes=90)
    unsure = with_confidence(texts, 0.25)
    graphs = build_many(unsure, tokenizer, small_graph, seed=0, config=config)
    view = METHODS["colake"].view.of(small_graph, tokenizer, weigh_links=True)
    for graph in graphs:
        weights = view(graph).node_weights
        assert weights is not None
        is_visible = (graph.kinds == NodeKind.WORD) | (graph.spans[:, 0] >= 0)
        expected = torch.from_numpy(np.where(is_visible, 1.0, 0.25).astype(np.float32))
        assert torch.equal(weights[0], expected)
    assert sum(int((graph.kinds == NodeKind.RELATION).sum()) for graph in graphs) > 4


def test_priors_of_knowbert_sum_to_the_confidence(
    texts: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    config = BuilderConfig(max_words=40, **WORDS_ONLY)
    graphs = build_many(with_confidence(texts, 0.7), tokenizer, small_graph, seed=0, config=config)
    for graph in graphs:
        sample = KnowBERTView(small_graph, weigh_links=True)(graph)
        assert sample.candidate_priors is not None
        sums = sample.candidate_priors.sum(dim=2)
        close(sums, torch.full_like(sums, 0.7))


def test_a_pair_counts_as_much_as_both_links(
    texts: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    config = BuilderConfig(max_words=40, **WORDS_ONLY)
    weighed = with_confidence(texts, 0.5, 0.25, 1.0)
    graphs = build_many(weighed, tokenizer, small_graph, seed=0, config=config)
    view, preparation = LinkedWordsView(weigh_links=True), RelationPairsPreparation(small_graph)
    samples = [
        preparation.mark(view(graph), generator(0, "pair", i)) for i, graph in enumerate(graphs)
    ]
    batch = KnowledgeBatch.stack(samples)
    encoder = method_encoder("none", small_graph, tokenizer)
    objective = RelationPairs.for_encoder(encoder, RelationPairsOptions()).eval()
    output: KnowledgeOutput = encoder(batch)
    loss = objective(output, batch, encoder)["relation_pairs"]
    losses = []
    assert batch.labels is not None
    assert batch.target_spans is not None
    for i, text in enumerate(weighed):
        if batch.labels[i] == IGNORE:
            continue
        confidence = {
            tuple(span): link.confidence
            for span, link in zip(view(graphs[i]).mention_spans[0].tolist(), text.links)  # type: ignore[index]  # noqa: B905
        }
        head, tail = (confidence[tuple(span)] for span in batch.target_spans[i].tolist())
        logits = objective.logits(output.node_states[i : i + 1], batch.target_spans[i : i + 1])
        losses.append(head * tail * F.cross_entropy(logits, batch.labels[i : i + 1]))
    assert len(losses) > 1
    close(loss, torch.stack(losses).mean())


@pytest.mark.parametrize("weights", [torch.tensor([[1.5, 0.0]]), torch.tensor([[-0.1, 1.0]])])
def test_weights_are_shares(weights: Tensor) -> None:
    row = torch.zeros(1, 2, dtype=torch.int64)
    seen = Visibility.everyone(1, 2)
    with pytest.raises(BatchError, match="from 0 to 1"):
        KnowledgeBatch(row, row, row == 0, row, row, seen, node_weights=weights)
