"""ERNIE's own promises, beside those of every encoder: slots, divisions, vectors from a graph."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch, Visibility
from kept.encoders.ernie import ERNIE, ERNIEConfig, divide
from kept.errors import BatchError, CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.inputs.views import builder_for
from kept.kge.scorers import make_scorer
from kept.kge.trained import save_scorer
from kept.layers.packing import dense_rows
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import tiny_host


def sample(n_node: int, entities: dict[int, int], seed: int = 0) -> KnowledgeBatch:
    """One text of random words with entity rows at some nodes."""
    draws = torch.Generator().manual_seed(seed)
    ids = torch.full((1, n_node), PAD_ROW)
    for node, row in entities.items():
        ids[0, node] = row
    return KnowledgeBatch(
        node_ids=torch.randint(3, 30, (1, n_node), generator=draws),
        node_kinds=torch.zeros(1, n_node, dtype=torch.int64),
        node_mask=torch.ones(1, n_node, dtype=torch.bool),
        positions=torch.arange(n_node)[None],
        segment_ids=torch.zeros(1, n_node, dtype=torch.int64),
        visibility=Visibility.everyone(1, n_node),
        entity_ids=ids,
    )


@pytest.fixture(scope="module")
def encoder(small_graph: KnowledgeGraph) -> ERNIE:
    """A fusion without and one with entity attention, from the first layer on."""
    ernie = ERNIE.from_host(
        tiny_host(), small_graph, layer_types=["mix", "norm"], entity_width=12, entity_heads=3
    ).eval()
    with torch.no_grad():  # as far from the identity as a trained model
        for parameter in ernie.fusions.parameters():
            parameter.normal_(0, 0.5)
    return ernie


SAMPLES = [sample(9, {2: 5, 6: 8}), sample(5, {}, seed=1), sample(3, {1: 4}, seed=2)]


def test_divisions() -> None:
    assert divide(12) == ["sim"] * 6 + ["mix"] + ["norm"] * 5
    assert [divide(n) for n in (1, 2, 3)] == [["mix"], ["sim", "mix"], ["sim", "mix", "norm"]]


@torch.no_grad()
def test_packed_rows_padding_and_single_texts_agree(encoder: ERNIE) -> None:
    batch = KnowledgeBatch.stack(SAMPLES)
    assert dense_rows(batch.node_mask) is not None
    together = encoder(batch)
    for index, alone in enumerate(SAMPLES):
        expected, n = encoder(alone), alone.node_ids.shape[1]
        assert dense_rows(alone.node_mask) is None
        for name in ("node_states", "entity_states"):
            packed = getattr(together, name)[index, :n]
            torch.testing.assert_close(packed, getattr(expected, name)[0], atol=5e-6, rtol=1e-5)
    assert together.entity_states.shape == (3, 9, 12)


@torch.no_grad()
def test_eager_and_sdpa_agree_with_entity_attention(encoder: ERNIE) -> None:
    batch = KnowledgeBatch.stack(SAMPLES)
    expected = encoder(batch).node_states
    encoder.set_attn_implementation("eager")
    try:
        states = encoder(batch).node_states
    finally:
        encoder.set_attn_implementation("sdpa")
    torch.testing.assert_close(states[batch.node_mask], expected[batch.node_mask])


@torch.no_grad()
def test_an_entity_reaches_words_and_a_slot_without_one_does_not(encoder: ERNIE) -> None:
    text = SAMPLES[0]
    ids = text.entity_ids.clone()
    ids[0, 2] = 7
    other = dataclasses.replace(text, entity_ids=ids)
    before, after = encoder(text), encoder(other)
    assert not torch.allclose(before.node_states[0, 2], after.node_states[0, 2], atol=1e-4)
    assert not torch.allclose(before.node_states[0, 0], after.node_states[0, 0], atol=1e-5)
    unknown = dataclasses.replace(text, entity_ids=text.entity_ids.where(text.entity_ids > 2, 0))
    assert torch.equal(encoder(unknown).node_states, before.node_states)


def test_slots_that_see_nothing_see_themselves() -> None:
    visible = torch.ones(1, 3, 3, dtype=torch.bool)
    visible[0, 2] = torch.tensor([False, False, True])
    is_slot = torch.tensor([[True, True, False]])
    seen = Visibility(visible).attention("sdpa", torch.float32, keys=is_slot)
    assert seen[:, 0].int().tolist() == [[[1, 1, 0], [1, 1, 0], [0, 0, 1]]]


def test_nothing_reads_the_last_slots_and_vectors_are_frozen(encoder: ERNIE) -> None:
    encoder.zero_grad()
    encoder(SAMPLES[0]).node_states.sum().backward()
    silent = {name for name, p in encoder.named_parameters() if p.grad is None}
    assert "entity_vectors.weight" in silent
    assert not encoder.entity_vectors.weight.requires_grad
    assert silent - {"entity_vectors.weight"} == {
        name for name, _ in encoder.named_parameters() if name.startswith(encoder.unused)
    }
    assert "fusions.1.output." in encoder.unused


def test_vectors_come_from_the_graph(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    models = [
        ERNIE.for_graph(tiny_host(), small_graph, tokenizer, seed=seed, vector_epochs=3)
        for seed in (0, 0, 1)
    ]
    one, again, other = (model.entity_vectors.weight for model in models)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not one[:N_SPECIAL_ROWS].any()
    assert float(one[N_SPECIAL_ROWS:].norm(dim=1).mean()) == pytest.approx(1, abs=1e-5)
    assert not one.requires_grad
    longer = ERNIE.for_graph(tiny_host(), small_graph, tokenizer, seed=0, vector_epochs=4)
    assert not torch.equal(longer.entity_vectors.weight, one)


def test_vectors_of_a_trained_scorer(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    sizes = {"n_entities": small_graph.n_entities, "n_relations": small_graph.n_relations}
    scorer = make_scorer("distmult", **sizes, width=16, generator=torch.Generator().manual_seed(1))
    save_scorer(tmp_path / "kge", scorer, small_graph, {})
    model = ERNIE.for_graph(
        tiny_host(), small_graph, tokenizer, seed=0, vectors=str(tmp_path / "kge")
    )
    assert model.config.entity_width == 16
    vectors = model.entity_vectors.weight[N_SPECIAL_ROWS:]
    expected = scorer.entities.detach()
    torch.testing.assert_close(vectors, expected / expected.norm(dim=1).mean())
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    with pytest.raises(GraphMismatchError, match="id space"):
        ERNIE.for_graph(tiny_host(), other, tokenizer, seed=0, vectors=str(tmp_path / "kge"))
    with pytest.raises(CheckpointError, match="not a trained scorer"):
        ERNIE.for_graph(tiny_host(), small_graph, tokenizer, seed=0, vectors=tmp_path / "none")


def test_bad_input_is_refused(encoder: ERNIE, small_graph: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match="'mixed'; use sim, mix, norm"):
        ERNIEConfig(layer_types=["mixed"])
    with pytest.raises(ConfigError, match="multiple of entity_heads 3"):
        ERNIEConfig(entity_width=100, entity_heads=3)
    for types in (["mix"], ["sim", "sim"]):
        with pytest.raises(ConfigError, match="all 2 layers"):
            ERNIE.from_host(tiny_host(), small_graph, layer_types=types)
    without = dataclasses.replace(SAMPLES[0], entity_ids=None)
    with pytest.raises(BatchError, match="ERNIEView"):
        encoder(without)
    beyond = torch.full_like(SAMPLES[0].node_ids, 999)
    with pytest.raises(BatchError, match="row 999 is beyond"):
        encoder(dataclasses.replace(SAMPLES[0], entity_ids=beyond))


def test_all_three_objectives_on_pairs_of_texts(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    """The paper's whole pre-training: each loss falls on one batch of pairs."""
    method = METHODS["ernie"]
    objectives = {"mlm": {}, "nsp": {}, "dea": {}}
    data = WordGraphData(
        linked,
        small_graph,
        tokenizer,
        builder=builder_for(method, BuilderConfig(max_words=60, max_nodes=120), {}),
        view=method.view.of(small_graph, tokenizer),
        objectives=objectives,
    )
    samples = [data.sample(i, epoch=0, seed=0) for i in range(6)]
    batch = data.collate(samples, epoch=0, seed=0, step=0)
    assert batch.segment_ids.any()
    assert ((batch.positions == 0) & batch.node_mask).sum() == len(batch)
    host = tiny_host(n_words=len(tokenizer), n_positions=128)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = ERNIE.for_graph(host, small_graph, tokenizer, seed=0)
        model = KnowledgeForPreTraining.of(encoder, objectives).eval()
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    history = []
    for _ in range(40):
        losses = model(batch).losses
        history.append({name: loss.item() for name, loss in losses.items()})
        optimiser.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimiser.step()
    assert history[0].keys() == set(objectives)
    assert all(history[-1][name] < 0.8 * history[0][name] for name in objectives), history[-1]
    assert model.encoder.host.pooler.dense.weight.grad is not None
