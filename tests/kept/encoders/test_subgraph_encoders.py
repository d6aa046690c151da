"""QA-GNN and GreaseLM: another fact gives another answer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from entity_linking.mentions import Link, LinkedText, Mention
from kept.batches import KnowledgeBatch
from kept.graphs.builder import BuilderConfig, build_many
from kept.heads.model import KnowledgeForTask
from kept.layers.typed_graph import typed_graph
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host

N = 8
CLASSES = {"A": "river", "B": "old"}
TEXT = "the city of berlin"


def graph_of(classes: str) -> KnowledgeGraph:
    """Things of one name; the fact of each says its class, and nothing else does."""
    names = {f"Q{i}": "city" for i in range(N)}
    facts = [(f"Q{i}", "P31", classes[i]) for i in range(N)]
    return KnowledgeGraph.from_triples(facts, {**names, **CLASSES})


def batch_of(graph: KnowledgeGraph, method: str, tokenizer: Any) -> KnowledgeBatch:
    """One text, linked to each thing in turn."""
    line = METHODS[method]
    texts = [LinkedText(TEXT, (Link(Mention(4, 8), (), f"Q{i}", 1.0),), str(i)) for i in range(N)]
    config = BuilderConfig(max_neighbours=2, **{**line.builder, **line.recipe.graph})
    view = line.view.of(graph, tokenizer, **line.recipe.view)
    graphs = build_many(texts, tokenizer, graph, seed=0, config=config)
    return KnowledgeBatch.stack([view(each) for each in graphs])


@pytest.mark.parametrize("method", ["qagnn", "greaselm"])
def test_another_fact_changes_the_answer(method: str, tokenizer: Any) -> None:
    """Texts and names are all the same: after training, answers follow facts that were changed."""
    before, after = "ABABABAB", "BBAABABA"
    graph, changed = graph_of(before), graph_of(after)
    assert graph.id_space_hash == changed.id_space_hash
    host = tiny_host(n_words=len(tokenizer), n_positions=64)
    torch.manual_seed(0)
    encoder = METHODS[method].encoder.for_graph(
        host, graph, tokenizer, seed=0, graph_width=32, graph_dropout=0.0, entity_dropout=0.0,
        text_dropout=0.0,
    )  # fmt: skip
    model = KnowledgeForTask.of(encoder, "pooled", [*CLASSES], read="mean", dropout=0.0)
    labels = torch.tensor([[*CLASSES].index(each) for each in before])
    batch = batch_of(graph, method, tokenizer).replace(labels=labels)
    assert len({tuple(row) for row in batch.node_ids.tolist()}) == 1
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    model.train()
    for _ in range(60):
        optimiser.zero_grad()
        model(batch).losses["class"].backward()
        optimiser.step()
    model.eval()
    for answering, expected in ((graph, before), (changed, after)):
        with torch.no_grad():
            scores = model(batch_of(answering, method, tokenizer)).class_logits
        assert "".join([*CLASSES][i] for i in scores.argmax(1)) == expected


@pytest.mark.parametrize("all_entities", [False, True])
def test_edges_that_fill_up_a_batch_are_left_out(all_entities: bool, tokenizer: Any) -> None:
    batch = batch_of(graph_of("ABABABAB"), "qagnn", tokenizer)
    assert batch.subgraph_edges is not None
    edges = batch.subgraph_edges.clone()
    edges[0] = -1  # a text whose entities have no facts
    graph = typed_graph(
        batch.replace(subgraph_edges=edges), n_relations=1, all_entities=all_entities,
        with_padding=False,
    )  # fmt: skip
    spare = len(graph.node_types) - 1
    sources, targets = graph.edge_index[:, : -len(graph.node_types)]
    assert len(sources) >= 2 * int((edges[..., 0] >= 0).sum()) > 0
    assert not ((sources == spare) | (targets == spare)).any()
    assert graph.edge_mask[: len(sources)].all()
