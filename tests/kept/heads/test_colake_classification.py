"""Fine-tuning models: what they start from, what is frozen, saving; ready-made inputs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, UNKNOWN_ROW, KnowledgeBatch
from kept.encoders.colake import CoLAKEConfig
from kept.errors import BatchError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import N_WORDS, pretraining_model, small_batch, tiny_host
from tests.reference.original_colake_heads import for_classification
from tests.reference.original_colake_samples import (
    GraphSample,
    collate,
    entity_rows,
    entity_vocabulary,
    label_vocabulary,
)


@pytest.fixture
def pretrained(small_graph: KnowledgeGraph) -> KnowledgeForPreTraining:
    torch.manual_seed(0)
    return pretraining_model(tiny_host(), small_graph, initializer_range=0.2)


def labelled(labels: torch.Tensor) -> KnowledgeBatch:
    return dataclasses.replace(small_batch(), node_labels=None, labels=labels)


def test_keeps_the_graph_and_the_encoder(
    pretrained: KnowledgeForPreTraining, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    model = for_classification(pretrained, labels=["a", "b", "c"], transform_from="entity").eval()
    pretrained.eval()
    batch = labelled(torch.tensor([0, 2]))
    output = model(batch)
    assert torch.equal(output.node_states, pretrained(batch).node_states)
    assert output.class_logits.shape == (2, 3)
    model.save_pretrained(tmp_path / "tuned")
    again = KnowledgeForTask.from_pretrained(tmp_path / "tuned", graph=small_graph)
    assert torch.equal(again(batch).class_logits, output.class_logits)
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert not again.encoder.entity_embeddings.weight.requires_grad
    assert pretrained.encoder.entity_embeddings.weight.requires_grad


def test_a_temporary_vocabulary_leaves_the_graph(
    pretrained: KnowledgeForPreTraining, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    model = for_classification(
        pretrained,
        labels=["a", "b"],
        transform_from="relation",
        relation_rows=[4, 3],
        entity_rows=[0, 1, 2, 9],
        n_new_words=2,
    )
    relations = pretrained.encoder.relation_embeddings.weight
    assert torch.equal(model.head.classes.weight, relations[[4, 3]])
    entities = pretrained.encoder.entity_embeddings.weight
    assert torch.equal(model.encoder.entity_embeddings.weight, entities[[0, 1, 2, 9]])
    assert hosts.word_table(pretrained.encoder.host).num_embeddings == N_WORDS
    with pytest.raises(GraphMismatchError, match="temporary entity vocabulary"):
        model.require_graph(small_graph)
    model.save_pretrained(tmp_path / "tuned")
    again = KnowledgeForTask.from_pretrained(tmp_path / "tuned")
    assert hosts.word_table(again.encoder.host).num_embeddings == N_WORDS + 2
    with pytest.raises(ConfigError, match="1 relation_rows for 2 labels"):
        for_classification(
            pretrained, labels=["a", "b"], transform_from="relation", relation_rows=[4]
        )


def test_label_shapes_and_problem_type(pretrained: KnowledgeForPreTraining) -> None:
    model = for_classification(
        pretrained, labels=["a", "b"], transform_from="entity", multi_label=True
    )
    with pytest.raises(BatchError, match=r"labels have shape \(2,\)"):
        model(labelled(torch.tensor([0, 1])))
    assert model(labelled(torch.tensor([[0, 1], [1, 1]]))).losses["class"].isfinite()
    with pytest.raises(ConfigError, match="problem_type is None"):
        KnowledgeForTask(CoLAKEConfig(host=tiny_host().config.to_dict()))


@pytest.mark.parametrize("multi_label", [False, True])
def test_overfits_one_batch(pretrained: KnowledgeForPreTraining, multi_label: bool) -> None:
    labels = torch.tensor([[0, 1], [1, 1]]) if multi_label else torch.tensor([1, 0])
    model = for_classification(
        pretrained, labels=["a", "b"], transform_from="entity", multi_label=multi_label
    ).eval()
    frozen = model.encoder.entity_embeddings.weight.clone()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        model(labelled(labels)).losses["class"].backward()
        optimizer.step()
    assert model(labelled(labels)).losses["class"].item() < 0.05
    assert torch.equal(model.encoder.entity_embeddings.weight, frozen)


SAMPLE = GraphSample(
    words=(2, 7, 3), entities=("Q9", "Q1"), positions=(0, 1, 2, 1, 2), labels=("x",)
)


def test_vocabularies_follow_appearance() -> None:
    other = GraphSample(words=(2, 3), entities=("Q1", "Q4"), positions=(0, 1, 1, 1), labels=("y",))
    vocabulary = entity_vocabulary([SAMPLE], [other])
    assert list(vocabulary) == ["<unk>", "<pad>", "<mask>", "Q9", "Q1", "Q4"]
    assert label_vocabulary([other, SAMPLE]) == {"y": 0, "x": 1}
    rows = entity_rows(vocabulary, {"Q1": 0, "Q4": 1, "Q9": 2})
    assert rows == [0, 1, 2, *(graph_id + N_SPECIAL_ROWS for graph_id in (2, 0, 1))]
    with pytest.raises(BatchError, match="2 entities are not in the graph, the first: 'Q9'"):
        entity_rows(vocabulary, {"Q1": 0})


def test_collate() -> None:
    short = GraphSample(words=(2, 3), entities=(), positions=(0, 1), labels=("x",))
    batch = collate([SAMPLE, short], entities={"Q1": 3}, labels={"x": 0}, multi_label=False)
    assert batch.node_ids.tolist() == [[2, 7, 3, UNKNOWN_ROW, 3], [2, 3, 1, 1, 1]]
    assert batch.node_mask.tolist() == [[True] * 5, [True, True, False, False, False]]
    assert batch.visibility.mask[1].tolist() == [
        [True, True, False, False, False],
        [True, True, False, False, False],
        [False, False, True, False, False],
        [False, False, False, True, False],
        [False, False, False, False, True],
    ]
    with pytest.raises(BatchError, match="label 'x' is not among the 0"):
        collate([SAMPLE], entities={}, labels={}, multi_label=False)
    two = dataclasses.replace(SAMPLE, labels=("x", "y"))
    with pytest.raises(BatchError, match="expected one label"):
        collate([two], entities={}, labels={"x": 0, "y": 1}, multi_label=False)
    many = collate([two], entities={}, labels={"x": 0, "y": 1, "z": 2}, multi_label=True)
    assert many.labels.tolist() == [[1, 1, 0]]
    with pytest.raises(BatchError, match="2 positions for 5 nodes"):
        dataclasses.replace(SAMPLE, positions=(0, 1))
