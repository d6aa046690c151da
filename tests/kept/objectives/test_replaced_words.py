"""Replaced words: sampling, labels, losses against ELECTRA's own head, and learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import ElectraConfig
from transformers.models.electra.modeling_electra import ElectraDiscriminatorPredictions

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.batches import IGNORE
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.graph import NodeKind
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kept.objectives.replaced_words import (
    N_LEVELS,
    SAMPLES,
    ReplacedWords,
    ReplacedWordsOptions,
    sample,
)
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder

NAME = "replaced_words"


def batch_of(method: str, linked: list[LinkedText], graph: KnowledgeGraph, tokenizer: Any) -> Any:
    line = METHODS[method]
    data = WordGraphData(
        linked, graph, tokenizer,
        builder=builder_for(line, BuilderConfig(max_neighbours=2, max_words=40), {}),
        view=line.view.of(graph, tokenizer),
        objectives={NAME: {"probability": 0.4}},
    )  # fmt: skip
    samples = [data.sample(i, epoch=0, seed=0) for i in range(6)]
    return data.collate(samples, epoch=0, seed=0, step=0)


@pytest.fixture(params=["none", "colake", "kbert"])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(method: str, small_graph: KnowledgeGraph, tokenizer: Any) -> KnowledgeForPreTraining:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = method_encoder(method, small_graph, tokenizer)
        return KnowledgeForPreTraining.of(encoder, {NAME: {}}).eval()


def test_samples_have_the_distribution_of_the_logits() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0])
    levels = torch.arange(0, N_LEVELS, N_LEVELS // 1000)
    sampled = sample(logits.expand(len(levels), 4), levels)
    shares = torch.bincount(sampled, minlength=4) / len(levels)
    torch.testing.assert_close(shares, logits.softmax(0), atol=2e-3, rtol=0)
    sure = torch.full((1, 4), -1e9)
    sure[0, 2] = 0.0
    for level in (0, N_LEVELS // 2, N_LEVELS - 1):
        assert sample(sure, torch.tensor([level])).tolist() == [2]


def test_masks_are_all_masks_and_each_has_a_level(
    method: str, linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    batch = batch_of(method, linked, small_graph, tokenizer)
    levels = batch.extra_labels[SAMPLES][..., 0]
    is_labelled = batch.node_labels != IGNORE
    assert torch.equal(levels != IGNORE, is_labelled)
    assert (batch.node_ids[is_labelled] == tokenizer.mask_token_id).all()
    assert (batch.node_kinds[is_labelled] == NodeKind.WORD).all()
    levels_of_masks = levels[is_labelled]
    assert len(set(levels_of_masks.tolist())) == len(levels_of_masks) > 5
    assert 0 <= int(levels_of_masks.min()) < int(levels_of_masks.max()) < N_LEVELS


@torch.no_grad()
def test_losses_are_electras(
    method: str, model: KnowledgeForPreTraining, linked: list[LinkedText],
    small_graph: KnowledgeGraph, tokenizer: Any,
) -> None:  # fmt: skip
    """The encoder run twice by hand, under transformers' own discriminator head."""
    batch = batch_of(method, linked, small_graph, tokenizer)
    objective, encoder = model.objectives[NAME], model.encoder
    assert isinstance(objective, ReplacedWords)
    width = encoder.host.config.hidden_size
    head = ElectraDiscriminatorPredictions(ElectraConfig(hidden_size=width, hidden_act="gelu"))
    head.dense, head.dense_prediction = objective.dense, objective.score
    masked = batch.node_labels != IGNORE
    table = hosts.word_table(encoder.host).weight
    ids, replaced = batch.node_ids.clone(), torch.zeros_like(masked)
    states, total = encoder(batch).node_states, 0.0
    for i, j in masked.nonzero().tolist():
        logits = objective.generator.logits(states[i, j], table)
        gold = int(batch.node_labels[i, j])
        total -= float(logits.log_softmax(-1)[gold])
        level = int(batch.extra_labels[SAMPLES][i, j, 0]) / N_LEVELS
        cumulative = logits.double().softmax(-1).cumsum(-1)
        ids[i, j] = int((cumulative <= level).sum())
        replaced[i, j] = ids[i, j] != gold
    again = encoder(batch.replace(node_ids=ids)).node_states
    words = (batch.node_kinds == NodeKind.WORD) & batch.node_mask
    wanted = torch.nn.BCEWithLogitsLoss()(head(again)[words], replaced[words].float())
    losses = model(batch).losses
    assert set(losses) == {"replaced_words", "replaced_words_mlm"}
    torch.testing.assert_close(losses["replaced_words"], wanted)
    assert float(losses["replaced_words_mlm"]) == pytest.approx(total / int(masked.sum()), rel=1e-5)
    assert 0 < int(replaced.sum()) <= int(masked.sum())


def test_it_learns_to_tell(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = method_encoder("none", small_graph, tokenizer)
        model = KnowledgeForPreTraining.of(encoder, {NAME: {}}).eval()
        batch = batch_of("none", linked, small_graph, tokenizer)
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        losses = []
        for _ in range(60):
            values = model(batch).losses
            (values["replaced_words_mlm"] + 5 * values["replaced_words"]).backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append([value.item() for value in values.values()])
    first, last = np.array(losses[0]), np.array(losses[-1])
    assert (last < 0.7 * first).all(), (first, last)


def test_options_are_those_of_masking() -> None:
    assert ReplacedWordsOptions().words().mask_share == 1
    with pytest.raises(ConfigError, match="probability 0"):
        ReplacedWordsOptions(probability=0.0)
    with pytest.raises(ConfigError, match="strategy 'word'"):
        ReplacedWordsOptions(strategy="word")
