"""The masked-node objective: labels by kind, sampled entities, empty losses, learning."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from kept import hosts
from kept.batches import IGNORE, N_SPECIAL_ROWS
from kept.errors import BatchError
from kept.graphs.graph import NodeKind
from kept.objectives.masked_nodes import entity_slots, relation_scores
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.row_adam import RowAdam
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import one_of, padded, pretraining_model, small_batch, tiny_host


@pytest.fixture
def model(small_graph: KnowledgeGraph) -> KnowledgeForPreTraining:
    torch.manual_seed(0)
    return pretraining_model(tiny_host(), small_graph, initializer_range=0.2).eval()


def test_losses_are_those_of_a_loop(model: KnowledgeForPreTraining) -> None:
    batch = small_batch(n_pads=1)
    output = model(batch)
    encoder, objective = model.encoder, model.objectives["masked_nodes"]
    sampled = batch.sampled_entities.tolist()
    tables = {
        NodeKind.WORD: ("word", hosts.word_table(encoder.host).weight, objective.word_bias),
        NodeKind.ENTITY: ("entity", encoder.entity_embeddings.weight[sampled], None),
        NodeKind.RELATION: (
            "relation",
            encoder.relation_embeddings.weight,
            objective.relation_bias,
        ),
    }
    terms: dict[str, list[torch.Tensor]] = {"word": [], "entity": [], "relation": []}
    for row, node in (batch.node_labels != IGNORE).nonzero().tolist():
        kind = NodeKind(int(batch.node_kinds[row, node]))
        name, table, bias = tables[kind]
        transform = getattr(objective, f"{name}_transform")
        scores = table @ transform(output.node_states[row, node])
        scores = scores if bias is None else scores + bias
        label = int(batch.node_labels[row, node])
        target = sampled.index(label) if kind == NodeKind.ENTITY else label
        terms[name].append(-scores.log_softmax(0)[target])
    for name, values in terms.items():
        assert values
        torch.testing.assert_close(output.losses[name], torch.stack(values).mean())


def test_padding_does_not_change_losses(model: KnowledgeForPreTraining) -> None:
    plain, longer = model(small_batch()).losses, model(padded(small_batch(), 4)).losses
    for name in plain:
        torch.testing.assert_close(plain[name], longer[name])


def test_only_labelled_kinds_count(model: KnowledgeForPreTraining) -> None:
    batch = one_of(small_batch(), 0)  # no relation label
    losses = model(batch).losses
    assert losses["relation"].item() == 0
    sum(losses.values()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in dense(model))
    model.objectives["masked_nodes"].empty_loss = "nan"
    assert model(batch).losses["relation"].isnan()


def test_a_batch_without_labels_can_go_backward(model: KnowledgeForPreTraining) -> None:
    batch = small_batch()
    empty = dataclasses.replace(
        batch, node_labels=torch.full_like(batch.node_ids, IGNORE), sampled_entities=None
    )
    losses = model(empty).losses
    assert [loss.item() for loss in losses.values()] == [0, 0, 0]
    sum(losses.values()).backward()
    assert model(dataclasses.replace(batch, node_labels=None)).losses == {}


def test_entity_labels_must_be_sampled(model: KnowledgeForPreTraining) -> None:
    batch = small_batch()
    with pytest.raises(BatchError, match="entity label 5 is not among"):
        model(dataclasses.replace(batch, sampled_entities=torch.tensor([9, 3, 11])))
    with pytest.raises(BatchError, match="no sampled_entities"):
        model(dataclasses.replace(batch, sampled_entities=None))
    slots = entity_slots(torch.tensor([9, 3, 9]), torch.tensor([3, 12, 9]))
    assert slots.tolist() == [2, 0, 2]


def test_relation_scores(model: KnowledgeForPreTraining, small_graph: KnowledgeGraph) -> None:
    """By default the masked relation node (text 1, node 7); columns are relation ids."""
    batch = small_batch()
    output = model(batch)
    parts = (model.objectives["masked_nodes"], model.encoder, output, batch)
    scores = relation_scores(*parts)
    assert scores.shape == (1, small_graph.n_relations)
    whole = model.objectives["masked_nodes"].relation_logits(
        output.node_states[1, 7], model.encoder.relation_embeddings.weight
    )
    torch.testing.assert_close(scores[0], whole[N_SPECIAL_ROWS:])
    both = relation_scores(*parts, batch.node_kinds == NodeKind.RELATION)
    torch.testing.assert_close(both[1], scores[0])
    gold = batch.node_labels[1, 7]
    torch.testing.assert_close(F.cross_entropy(whole, gold), output.losses["relation"])


def dense(model: KnowledgeForPreTraining) -> list[torch.nn.Parameter]:
    return [p for p in model.parameters() if p is not model.encoder.entity_embeddings.weight]


def test_overfits_one_batch(model: KnowledgeForPreTraining) -> None:
    batch = small_batch()
    optimizers = (
        torch.optim.Adam(dense(model), lr=3e-3),
        RowAdam([model.encoder.entity_embeddings.weight], lr=3e-3),
    )
    first = sum(model(batch).losses.values()).item()
    for _ in range(80):
        for optimizer in optimizers:
            optimizer.zero_grad()
        sum(model(batch).losses.values()).backward()
        for optimizer in optimizers:
            optimizer.step()
    last = sum(model(batch).losses.values()).item()
    assert first > 3
    assert last < 0.1
