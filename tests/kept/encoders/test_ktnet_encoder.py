"""KT-NET's two layers against loops, its vectors, and what it does without concepts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS, NONE, KnowledgeBatch, Visibility
from kept.encoders.ktnet import KTNET
from kept.errors import BatchError, CheckpointError
from kept.graphs.views.ktnet import CONCEPTS
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import small_batch, tiny_host

WIDTH = 5


def encoder_of(graph: KnowledgeGraph) -> KTNET:
    ktnet = KTNET.from_host(tiny_host(), graph, concept_width=WIDTH).eval()
    with torch.no_grad():
        ktnet.memory.sentinel.copy_(torch.randn(WIDTH))
        for weight in (ktnet.matching.query, ktnet.matching.key, ktnet.matching.product):
            weight.copy_(torch.randn(len(weight)) * 0.2)
    return ktnet


def words_alone() -> KnowledgeBatch:
    batch = small_batch()
    return KnowledgeBatch(
        node_ids=batch.node_ids.clamp(max=20), node_kinds=torch.zeros_like(batch.node_kinds),
        node_mask=batch.node_mask, positions=batch.positions, segment_ids=batch.segment_ids,
        visibility=Visibility.among(batch.node_mask),
    )  # fmt: skip


def with_concepts(batch: KnowledgeBatch) -> KnowledgeBatch:
    """Two concepts at one word, one at the next, none elsewhere."""
    ids = torch.full((*batch.node_ids.shape, 2), NONE)
    ids[:, 1] = torch.tensor([N_SPECIAL_ROWS, N_SPECIAL_ROWS + 3])
    ids[:, 2, 0] = N_SPECIAL_ROWS + 1
    return batch.replace(extra_ids={CONCEPTS: ids})


def mixed_by(shares: Tensor, states: Sequence[Tensor]) -> Tensor:
    return torch.stack([a * v for a, v in zip(shares, states, strict=True)]).sum(0)


def read(encoder: KTNET, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    """One text, `[node width]`, node by node."""
    memory, matching, joint = encoder.memory, encoder.matching, []
    for state, row in zip(states, ids.tolist(), strict=True):
        concepts = [encoder.concept_vectors.weight[i] for i in row if i != NONE]
        mixed = torch.zeros(WIDTH)
        if concepts:
            slots = torch.stack([memory.sentinel, *concepts])
            mixed = (slots @ memory.projection(state)).softmax(0) @ slots
        joint.append(torch.cat([state, mixed]))
    shares = []
    for i, u in enumerate(joint):
        scores = [
            matching.query @ u + matching.key @ v + (matching.product * u) @ v + matching.bias[0]
            if mask[i, j] else torch.tensor(float("-inf"))
            for j, v in enumerate(joint)
        ]  # fmt: skip
        shares.append(torch.stack(scores).softmax(0))
    direct = [mixed_by(row, joint) for row in shares]
    further = [mixed_by(row, direct) for row in shares]
    return torch.stack([
        state + encoder.output(torch.cat([u, v, u * v, u - v, w, u - w]))
        for state, u, v, w in zip(states, joint, direct, further, strict=True)
    ])  # fmt: skip


@torch.no_grad()
def test_the_two_layers_are_a_loop_over_words(small_graph: KnowledgeGraph) -> None:
    torch.manual_seed(0)
    encoder, batch = encoder_of(small_graph), with_concepts(words_alone())
    output = encoder(batch)
    assert len(output.hidden_states) == encoder.n_states
    ids = (batch.extra_ids or {})[CONCEPTS]
    for i, real in enumerate(batch.node_mask):
        states = output.hidden_states[-2][i]
        expected = read(encoder, states, ids[i], batch.visibility.mask[i])
        torch.testing.assert_close(output.node_states[i][real], expected[real])


@torch.no_grad()
def test_without_concepts_the_vectors_and_the_sentinel_do_not_matter(
    small_graph: KnowledgeGraph,
) -> None:
    encoder, batch = encoder_of(small_graph), words_alone()
    none = batch.replace(extra_ids={CONCEPTS: torch.full((*batch.node_ids.shape, 3), NONE)})
    conceptual, before = with_concepts(batch), encoder(batch).node_states
    assert torch.equal(encoder(none).node_states, before)
    moved = encoder(conceptual).node_states
    encoder.concept_vectors.weight += 1.0
    encoder.memory.sentinel += 1.0
    assert torch.equal(encoder(batch).node_states, before)
    assert not torch.allclose(encoder(conceptual).node_states, moved)


def test_another_graphs_rows_are_refused(small_graph: KnowledgeGraph) -> None:
    encoder, batch = encoder_of(small_graph), with_concepts(words_alone())
    beyond = (batch.extra_ids or {})[CONCEPTS].clone()
    beyond[0, 1, 0] = small_graph.n_entities + N_SPECIAL_ROWS
    row = int(beyond[0, 1, 0])
    with pytest.raises(BatchError, match=f"concept row {row} is beyond the {row} concept vectors"):
        encoder(batch.replace(extra_ids={CONCEPTS: beyond}))


def test_vectors_come_from_a_file_and_stay(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    file = tmp_path / "vectors.txt"
    name = small_graph.entities.name(0)
    file.write_text(f"1 3\nENTITY/{name} 3 0 4\n", encoding="utf-8")
    ktnet = KTNET.for_graph(tiny_host(), small_graph, tokenizer, seed=0, vectors=file)
    table = ktnet.concept_vectors.weight
    assert table.shape == (small_graph.n_entities + N_SPECIAL_ROWS, 3)
    assert not table.requires_grad
    torch.testing.assert_close(table[N_SPECIAL_ROWS], torch.tensor([0.6, 0.0, 0.8]))
    assert not table[:N_SPECIAL_ROWS].any()
    assert not table[N_SPECIAL_ROWS + 1 :].any()
    with pytest.raises(CheckpointError, match="is not a trained scorer"):
        KTNET.for_graph(tiny_host(), small_graph, tokenizer, seed=0, vectors=tmp_path / "nothing")
