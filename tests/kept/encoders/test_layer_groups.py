"""Groups of layers: every method on every host family says where each parameter works."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.batches import KnowledgeBatch
from kept.errors import ConfigError
from kept.graphs.builder import build_many
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph
from tests.kept.encoders.test_encoder_contract import builder
from tests.kept.tiny_hosts import BERT_LIKE, FAMILIES, untaught_encoder

CASES = [
    (name, family)
    for name, method in METHODS.items()
    for family in (BERT_LIKE if method.encoder.needs_bert_layers else FAMILIES)
]
PLACES = {
    "entity_embeddings.weight": "embeddings", "relation_embeddings.weight": "embeddings",
    "kind_embeddings.weight": "embeddings", "entity_vectors.weight": "embeddings",
    "fusions.1.inner.weight": "layer.1", "linkers.kg.projection.weight": "layer.0",
    "linkers.kg.entities.vectors.weight": "embeddings", "host.pooler.dense.weight": "head",
    "recontextualisations.kg.projection.weight": "layer.0",
    "adapters.factual.blocks.0.down_project.weight": "embeddings",
    "adapters.factual.blocks.1.down_project.weight": "layer.0",
    "host.encoder.layer.1.output.dense.bias": "layer.1",
    "host.embeddings.word_embeddings.weight": "embeddings",
    "host.embeddings_project.weight": "embeddings",
    "host.final_norm.weight": "layer.1", "host.layers.1.attn.Wqkv.weight": "layer.1",
    "host.transformer.layer.0.ffn.lin1.weight": "layer.0",
    "host.encoder.rel_embeddings.weight": "embeddings",
    "host.encoder.relative_attention_bias.weight": "embeddings",
}  # fmt: skip
"""Where parameters belong, by hand."""


@pytest.mark.parametrize(("name", "family"), CASES)
def test_a_group_works_where_it_stands(
    name: str,
    family: str,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked: list[LinkedText],
) -> None:
    """Every parameter has one group; it has no influence on any state below that group."""
    encoder = untaught_encoder(name, small_graph, tokenizer, family)
    texts = [text for text in linked if len(text.links) > 1][:2]
    view = METHODS[name].view.of(small_graph, tokenizer)
    graphs = build_many(texts, tokenizer, small_graph, seed=0, config=builder(name))
    batch = KnowledgeBatch.stack([view(graph) for graph in graphs])
    assert encoder.groups == ("embeddings", "layer.0", "layer.1", "head")
    parameters = dict(encoder.named_parameters())
    groups = {key: encoder.group_of(key) for key in parameters}
    expected = set(encoder.groups[:-1])
    if family == "albert":  # whose two passes share a layer, which belongs to the first
        expected -= {"layer.1"}
    assert expected <= set(groups.values()) <= set(encoder.groups)
    assert {key: groups[key] for key in PLACES if key in groups} == {
        key: PLACES[key] for key in PLACES if key in groups
    }
    states = encoder(batch).hidden_states
    assert len(states) == encoder.n_states
    moving = {key: p for key, p in parameters.items() if p.requires_grad}
    for layer in range(3):
        if not states[layer].requires_grad:
            continue
        gradients = torch.autograd.grad(
            states[layer].sum(), [*moving.values()], retain_graph=True, allow_unused=True
        )
        reached = {
            groups[key] for key, one in zip(moving, gradients, strict=True) if one is not None
        }
        assert reached <= set(encoder.groups[: layer + 1]), layer


def test_the_places_by_hand_are_all_met(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    places: set[str] = set()
    for name, family in CASES:
        encoder = untaught_encoder(name, small_graph, tokenizer, family)
        places |= {key for key, _ in encoder.named_parameters()}
    assert set(PLACES) <= places


def test_an_unknown_parameter_is_refused(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    encoder = untaught_encoder("none", small_graph, tokenizer)
    with pytest.raises(ConfigError, match="does not know the parameter 'table'"):
        encoder.group_of("table")
