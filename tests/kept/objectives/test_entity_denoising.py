"""dEA: shares of corruption, labels from before it, and a loss over the batch's own entities."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch, Visibility
from kept.encoders.colake import CoLAKE
from kept.encoders.ernie import ERNIE
from kept.errors import BatchError, ConfigError
from kept.objectives.entity_denoising import (
    EntityDenoising,
    EntityDenoisingOptions,
    EntityDenoisingPreparation,
)
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import small_batch, tiny_host


def aligned_batch(n_batch: int, n_node: int, n_entities: int, share: float = 0.5) -> KnowledgeBatch:
    """Random entities beside about `share` of the words."""
    draws = np.random.default_rng(5)
    rows = draws.integers(N_SPECIAL_ROWS, N_SPECIAL_ROWS + n_entities, (n_batch, n_node))
    ids = torch.from_numpy(np.where(draws.random((n_batch, n_node)) < share, rows, PAD_ROW))
    zeros = torch.zeros_like(ids)
    return KnowledgeBatch(
        node_ids=zeros,
        node_kinds=zeros,
        node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=torch.arange(n_node).repeat(n_batch, 1),
        segment_ids=zeros,
        visibility=Visibility.everyone(n_batch, n_node),
        entity_ids=ids,
    )


def corrupted(batch: KnowledgeBatch, seed: int = 0, **options: Any) -> KnowledgeBatch:
    preparation = EntityDenoisingPreparation(EntityDenoisingOptions(**options))
    return preparation.complete(batch, np.random.default_rng(seed))


def test_shares_labels_and_candidates() -> None:
    batch = aligned_batch(40, 200, 50)
    corrupted_batch = corrupted(batch)
    was = batch.entity_ids >= N_SPECIAL_ROWS
    removed = was & (corrupted_batch.entity_ids == PAD_ROW)
    replaced = was & ~removed & (corrupted_batch.entity_ids != batch.entity_ids)
    n = int(was.sum())
    assert n > 3000
    assert float(removed.sum() / n) == pytest.approx(0.15, abs=0.02)
    assert float(replaced.sum() / n) == pytest.approx(0.05 * 49 / 50, abs=0.01)
    assert torch.equal(corrupted_batch.entity_labels, batch.entity_ids.where(was, IGNORE))
    assert torch.equal(corrupted_batch.sampled_entities, batch.entity_ids[was].unique())
    assert set(corrupted_batch.entity_ids.unique().tolist()) <= {
        PAD_ROW,
        *corrupted_batch.sampled_entities.tolist(),
    }
    assert corrupted_batch.entity_ids[~was].eq(PAD_ROW).all()


def test_same_draws_same_batch_and_the_input_is_left_alone() -> None:
    batch = aligned_batch(3, 30, 9)
    before = batch.entity_ids.clone()
    assert torch.equal(corrupted(batch, 7).entity_ids, corrupted(batch, 7).entity_ids)
    assert not torch.equal(corrupted(batch, 7).entity_ids, corrupted(batch, 8).entity_ids)
    assert torch.equal(batch.entity_ids, before)
    kept = corrupted(batch, replace_share=0.0, remove_share=0.0)
    assert torch.equal(kept.entity_ids, before)


def test_the_zero_vector_competes_only_if_asked() -> None:
    batch = aligned_batch(2, 10, 5)
    plain, original = corrupted(batch), corrupted(batch, zero_candidate=True)
    assert PAD_ROW not in plain.sampled_entities
    assert original.sampled_entities.tolist() == [PAD_ROW, *plain.sampled_entities.tolist()]
    assert torch.equal(original.entity_ids, plain.entity_ids)


def test_a_batch_without_entities_has_the_loss_zero(small_graph: KnowledgeGraph) -> None:
    batch = corrupted(aligned_batch(2, 5, 4, share=0.0))
    encoder = ERNIE.from_host(tiny_host(), small_graph)
    objective = EntityDenoising.for_encoder(encoder, EntityDenoisingOptions())
    loss = objective(encoder(batch), batch, encoder)["dea"]
    assert loss.item() == 0.0
    loss.backward()


@torch.no_grad()
def test_the_loss_is_a_plain_softmax_over_dot_products(small_graph: KnowledgeGraph) -> None:
    encoder = ERNIE.from_host(tiny_host(), small_graph, entity_width=8).eval()
    objective = EntityDenoising.for_encoder(encoder, EntityDenoisingOptions())
    batch = corrupted(aligned_batch(2, 6, 4), zero_candidate=True)
    states = encoder(batch).node_states
    total = n = 0.0
    candidates = batch.sampled_entities.tolist()
    for sample, node in (batch.entity_labels != IGNORE).nonzero().tolist():
        state = objective.transform(states[sample, node])
        scores = [float(state @ encoder.entity_vectors.weight[row]) for row in candidates]
        gold = candidates.index(int(batch.entity_labels[sample, node]))
        total += float(np.log(np.exp(scores).sum()) - scores[gold])
        n += 1
    loss = objective(KnowledgeOutput(states), batch, encoder)["dea"]
    assert n > 3
    assert float(loss) == pytest.approx(total / n, abs=1e-5)


def test_bad_input_is_refused(small_graph: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match="together at most 1"):
        EntityDenoisingOptions(replace_share=0.6, remove_share=0.6)
    with pytest.raises(ConfigError, match="CoLAKE has none"):
        EntityDenoising.for_encoder(
            CoLAKE.from_host(tiny_host(), small_graph), EntityDenoisingOptions()
        )
    with pytest.raises(BatchError, match="ERNIEView"):
        corrupted(small_batch())
    encoder = ERNIE.from_host(tiny_host(), small_graph)
    objective = EntityDenoising.for_encoder(encoder, EntityDenoisingOptions())
    batch = corrupted(aligned_batch(2, 6, 4))
    output = encoder(batch)
    lacking = dataclasses.replace(batch, sampled_entities=batch.sampled_entities[:1])
    with pytest.raises(BatchError, match="not among the sampled entities"):
        objective(output, lacking, encoder)
    assert objective(output, dataclasses.replace(batch, entity_labels=None), encoder) == {}
