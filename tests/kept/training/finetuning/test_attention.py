"""Attention rollout, against transformers' own attention; which nodes are whose fact's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kept.batches import N_SPECIAL_ROWS
from kept.methods import METHODS
from kept.training.finetuning.attention import rollout
from kg_loaders import KnowledgeGraph
from tests.kept.training.finetuning.test_predictor import _example, _graph, _predictor

GRAPH = _graph()


def _batch(name: str, host: Path, graph: KnowledgeGraph = GRAPH) -> tuple[Any, Any, Any, Any]:
    predictor = _predictor(name, graph, host)
    data = predictor._data([_example()], graph)
    word_graph = data.sample_graph(0, epoch=0, seed=0)
    return predictor.model, data, word_graph, data.encode_graph(0, word_graph)


def test_of_words_alone_it_is_what_transformers_gives(host: Path) -> None:
    model, _, _, batch = _batch("none", host)
    shares = rollout(model, batch)
    plain = model.encoder.host
    plain.set_attn_implementation("eager")
    n = batch.node_ids.shape[1]
    attentions = plain(batch.node_ids, torch.ones(1, n), output_attentions=True).attentions
    wanted = torch.eye(n, dtype=torch.float64)
    for each in attentions:
        wanted = 0.5 * (each[0].double().mean(0) + torch.eye(n)) @ wanted
    torch.testing.assert_close(shares, wanted.detach(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(shares.sum(1), torch.ones(n, dtype=torch.float64))


def test_the_model_stays_as_it_was(host: Path) -> None:
    model, _, _, batch = _batch("kbert", host)
    kind, before = model.encoder.host.config._attn_implementation, model(batch).class_logits
    rollout(model, batch)
    assert model.encoder.host.config._attn_implementation == kind
    assert torch.equal(model(batch).class_logits, before)
    for module in model.modules():
        assert not module._forward_hooks


def test_what_is_not_seen_has_no_share(host: Path) -> None:
    """In one layer a branch of K-BERT reaches its own mention alone."""
    model, data, graph, batch = _batch("kbert", host)
    layers = model.encoder.host.encoder.layer
    model.encoder.host.encoder.layer = layers[:1]
    shares = rollout(model, batch)
    (start, stop) = batch.mention_spans[0, 0].tolist()
    for node in (graph.kinds == 2).nonzero()[0].tolist():
        nodes = data.fact_nodes(graph, node)
        is_own = int(graph.origins[node, 0]) == 0
        assert bool((shares[start:stop][:, nodes] > 0).all()) == is_own
        assert bool((shares[0, nodes] == 0).all())


@pytest.mark.parametrize("name", ["kbert", "colake"])
def test_the_nodes_of_a_fact_are_what_it_alone_brings(name: str, host: Path) -> None:
    _, data, graph, batch = _batch(name, host)
    words = data.view.__dict__.get("_tokenizer")
    for node in (graph.kinds == 2).nonzero()[0].tolist():
        ids = batch.node_ids[0, data.fact_nodes(graph, node)].tolist()
        _, relation, tail = GRAPH.triples[graph.origins[node, 1]].tolist()
        if words is None:
            assert sorted(ids) == sorted([relation + N_SPECIAL_ROWS, tail + N_SPECIAL_ROWS])
        else:
            words_of_node = "".join(words.convert_ids_to_tokens(ids)).replace("##", "")
            assert words_of_node == f"{GRAPH.relation_label(relation)}{GRAPH.label(tail)}"


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].view.reads_graph])
def test_facts_have_attention_where_they_are_nodes(name: str, host: Path) -> None:
    explanation = _predictor(name, GRAPH, host).explain(_example(), GRAPH)
    for one in explanation.influences:
        has_share = name in ("kbert", "colake", "words") and one.kind == "fact"
        assert (one.attention is not None) == has_share
    shares = [one.attention for one in explanation.influences if one.attention is not None]
    assert 0 < sum(shares) < 1 or not shares
