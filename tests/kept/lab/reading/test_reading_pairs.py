"""The pairs' control: what the adapter learns from, and what the task asks."""

from __future__ import annotations

from typing import Any

import torch

from kept.encoders.kadapter import KAdapter
from kept.lab.reading.pairs import LEARNED, N_PAIRS, N_TEST, trained_pairs
from kept.lab.reading.worlds import SENTENCES, Size
from kept.objectives.adapter_features import AdapterFeatures, features_for
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host


def test_the_adapter_meets_all_pairs_and_the_task_is_taught_some() -> None:
    stage, task = trained_pairs(Size(), 0)
    assert (len(task.train), len(task.test)) == (N_PAIRS, N_TEST)
    assert len(stage.train) == len(LEARNED) * (N_PAIRS + N_TEST)

    def pairs(examples: list[Any]) -> set[tuple[str, ...]]:
        return {tuple(link.entity for link in e.linked.links) for e in examples}

    assert pairs(stage.train) == pairs(task.train) | pairs(task.test)
    assert not pairs(task.train) & pairs(task.test)
    assert not {*LEARNED} & {*SENTENCES}
    graph = stage.graph
    for example in (*stage.train, *task.test):
        head, tail = (graph.entities.find(link.entity or "") for link in example.linked.links)
        relations = [r for _, r, t in graph.outgoing(head).tolist() if t == tail]
        assert [graph.relation_label(r) for r in relations] == [f"{example.labels[0]} of"]


def test_features_of_the_adapter_alone_do_not_see_the_host(small_graph: KnowledgeGraph) -> None:
    encoder = KAdapter.from_host(tiny_host(), small_graph)
    states = [torch.randn(1, 4, 16, requires_grad=True) for _ in range(3)]
    adapter_states = torch.randn(1, 4, 16, requires_grad=True)
    output = KnowledgeOutput(
        node_states=states[-1],
        hidden_states=tuple(states),
        pooled_state=states[-1][:, 0],
        adapter_states={"factual": adapter_states},
    )
    for alone in (False, True):
        features = features_for(encoder, "", alone=alone)
        assert isinstance(features, AdapterFeatures)
        gradients = torch.autograd.grad(
            features(output).sum(), [*states, adapter_states], allow_unused=True
        )
        assert [gradient is not None for gradient in gradients] == [False, not alone, False, True]
