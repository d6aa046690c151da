"""Training of graph models: what carries messages, determinism, resuming, learning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from kept.errors import ConfigError, TrainingError
from kept.evaluation.ranking import Filter, rank
from kept.kge.gnn import training as gnn_training
from kept.kge.gnn.networks import (
    RGCN,
    CompGCN,
    GraphModel,
    MessageGraph,
    RelationFeatures,
    TextFeatures,
)
from kept.kge.gnn.training import train_graph_model
from kept.kge.training_config import TrainingConfig

# two chains of groups: members of group i point to members of group i + 1
TRIPLES = np.array([(a, b % 2, 6 + b) for a in range(6) for b in range(4) if (a + b) % 3])
CONFIG = TrainingConfig(n_epochs=4, batch_size=5, learning_rate=0.02, optimiser="adam")


def model_of(kind: str = "compgcn") -> tuple[GraphModel, torch.Generator]:
    draws = torch.Generator().manual_seed(4)
    layers: Any = (
        CompGCN(width=8, n_layers=2, composition="mult", dropout=0.3, generator=draws)
        if kind == "compgcn"
        else RGCN(width=8, n_types=4, n_layers=2, n_bases=2, dropout=0.3, generator=draws)
    )
    features = TextFeatures(text_width=10, width=8, generator=draws)
    model = GraphModel(
        features=features, layers=layers, decoder="complex", n_relations=2, width=8,
        generator=draws,
    )  # fmt: skip
    return model, draws


def run(model: GraphModel, draws: torch.Generator, **changes: Any) -> Any:
    options: dict[str, Any] = {"config": CONFIG, "text": torch.eye(10), "n_entities": 10, **changes}
    return train_graph_model(model, TRIPLES, generator=draws, **options)


def test_asked_triples_carry_no_message(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[set[Any], set[Any]]] = []
    real = gnn_training.batch_loss
    carried: list[set[Any]] = []

    class Spy(MessageGraph):
        @classmethod
        def of(cls, triples: Any, **options: Any) -> MessageGraph:
            carried.append({tuple(row) for row in triples.tolist()})
            return MessageGraph.of(triples, **options)

    def loss(scorer: Any, batch: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append(({tuple(row) for row in batch.tolist()}, carried[-1]))
        return real(scorer, batch, *rest)

    monkeypatch.setattr(gnn_training, "MessageGraph", Spy)
    monkeypatch.setattr(gnn_training, "batch_loss", loss)
    run(*model_of())
    everything = {tuple(row) for row in TRIPLES.tolist()}
    assert len(seen) == 4 * -(-len(TRIPLES) // 5)
    for queries, messages in seen:
        assert not queries & messages
        assert queries | messages == everything


@pytest.mark.parametrize("kind", ["compgcn", "rgcn"])
def test_equal_seeds_give_equal_bits_also_after_a_cut(kind: str):
    model, draws = model_of(kind)
    whole = run(model, draws)
    again, draws = model_of(kind)
    cut = run(again, draws, config=replace(CONFIG, n_epochs=2))
    other, draws = model_of(kind)
    resumed = run(other, draws, state=cut.state)
    assert resumed.losses == whole.losses
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.parametrize("kind", ["compgcn", "rgcn"])
def test_overfits(kind: str):
    model, draws = model_of(kind)
    history = run(
        model, draws, config=replace(CONFIG, n_epochs=60, batch_size=8, learning_rate=0.04)
    )
    assert history.losses[-1] < 0.6 * history.losses[0]
    graph = MessageGraph.of(TRIPLES, n_entities=10, n_relations=2, text=torch.eye(10))
    ranks = rank(
        model.scorer(graph), TRIPLES, candidates="all", ties="realistic",
        filter=Filter({"train": TRIPLES}, n_entities=10, n_relations=2), directions=("tail",),
    )  # fmt: skip
    assert ranks.mrr > 0.75  # a guess among these ten is right at 0.29


def test_best_weights_come_back_and_patience_stops():
    values = iter([0.3, 0.5, 0.4, 0.4, 0.4])
    states = []

    def validate(model: GraphModel) -> float:
        states.append({name: t.clone() for name, t in model.state_dict().items()})
        return next(values)

    model, draws = model_of()
    config = replace(CONFIG, n_epochs=9, validate_every=1, patience=2)
    history = run(model, draws, config=config, validate=validate)
    assert (history.best_epoch, history.stopped_early, len(history.losses)) == (2, True, 4)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, states[1][name])


def test_a_trained_model_reads_another_graph():
    """Relation features hold nothing of an entity: a copy of the graph scores the same."""
    draws = torch.Generator().manual_seed(4)
    model = GraphModel(
        features=RelationFeatures(n_types=4, width=8, generator=draws),
        layers=RGCN(width=8, n_types=4, n_layers=1, n_bases=2, dropout=0, generator=draws),
        decoder="distmult", n_relations=2, width=8, generator=draws,
    )  # fmt: skip
    run(model, draws, text=None)
    moved = TRIPLES.copy()
    moved[:, [0, 2]] = moved[:, [0, 2]] + 3
    first = model.scorer(MessageGraph.of(TRIPLES, n_entities=10, n_relations=2))
    second = model.scorer(MessageGraph.of(moved, n_entities=13, n_relations=2))
    torch.testing.assert_close(first.entities, second.entities[3:])


def test_faults_are_named():
    model, draws = model_of()
    with pytest.raises(ConfigError, match="leaves none for messages"):
        run(model, draws, config=replace(CONFIG, batch_size=len(TRIPLES)))
    with pytest.raises(TrainingError, match="epoch 1; lower learning_rate"):
        run(model, draws, text=torch.eye(10) * float("inf"))
