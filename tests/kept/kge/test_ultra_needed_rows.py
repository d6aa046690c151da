"""Scores from the states they depend on: those of all states, with the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kept.kge.ultra.graphs import Edges, relation_graph
from kept.kge.ultra.nbfnet import NBFNet
from kept.kge.ultra.needed_rows import needed_rows
from kept.kge.ultra.networks import (
    EntityNetwork,
    LayerOptions,
    NetworkOptions,
    Relations,
    Ultra,
    make_ultra,
)

N_ENTITIES, N_RELATIONS, N_LAYERS = 40, 3, 4


def sparse_edges(seed: int = 0) -> Edges:
    """Two chains with branches, repeats, a loop, and entities without any edge."""
    draws = np.random.default_rng(seed)
    chains = [(i, draws.integers(N_RELATIONS), i + 1) for i in range(34) if i != 17]
    others = [(0, 0, 1), (5, 1, 5), (3, 2, 9), (3, 2, 9), (20, 0, 25)]
    return Edges.of(chains + others, n_entities=N_ENTITIES, n_relations=N_RELATIONS)


def both_ways(monkeypatch: pytest.MonkeyPatch, model: Any, *question: Any) -> list[list[Tensor]]:
    """Scores and gradients by needed rows, and by all."""
    results = []
    for skips in (True, False):
        if not skips:
            monkeypatch.setattr(EntityNetwork, "skips_rows", lambda *_: False)
        model.zero_grad()
        scores = model(*question)
        weights = torch.linspace(-1, 1, scores.numel(), dtype=scores.dtype).view(scores.shape)
        (scores.sigmoid() * weights).sum().backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        results.append([scores.detach(), *gradients])
    monkeypatch.undo()
    return results


def questions(n: int, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    anchors = torch.randint(N_ENTITIES, (n,), generator=draws)
    anchors[0] = N_ENTITIES - 1  # without an edge
    return anchors, torch.randint(N_RELATIONS, (n,), generator=draws), torch.arange(n) >= n // 2


def models() -> dict[str, Any]:
    every: dict[str, Any] = {
        "ultra": make_ultra(width=4, n_layers=N_LAYERS),
        "nbfnet": NBFNet(N_RELATIONS, width=4, n_layers=N_LAYERS),
    }
    kinds: tuple[Relations, ...] = ("independent", "dependent", "projected")
    relations = NetworkOptions(layer=LayerOptions(width=4), n_layers=2)
    for kind in kinds:
        layer = LayerOptions(width=4, relations=kind, to="second")
        options = NetworkOptions(layer=layer, n_layers=N_LAYERS, residual=False)
        every[f"{kind}, to second"] = Ultra(relations, options)
        every[f"{kind}, to second"].entity_model = EntityNetwork(options, 2 * N_RELATIONS)
    return every


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("candidates", ["few", "all"])
def test_scores_and_gradients_are_those_of_all_states(
    name: str, candidates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = models()[name].double()
    edges = sparse_edges()
    query = questions(9)
    few = torch.randint(N_ENTITIES, (9, 3), generator=torch.Generator().manual_seed(2))
    few[1] = few[1, 0]  # one candidate several times
    by_rows, by_all = both_ways(
        monkeypatch, model, edges, relation_graph(edges), *query,
        few if candidates == "few" else None,
    )  # fmt: skip
    assert len(by_rows) == len(by_all) > 5
    for ours, wanted in zip(by_rows, by_all, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-9, atol=1e-11)
    with torch.no_grad():
        scores = model(edges, relation_graph(edges), *query)
    if candidates == "all":
        torch.testing.assert_close(scores, by_all[0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("numbers", [1, 64])
def test_blocks_change_no_score(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, edges = make_ultra(width=4, n_layers=N_LAYERS).double(), sparse_edges()
    with torch.no_grad():
        whole = model(edges, relation_graph(edges), *questions(6))
        for module in ("messages", "networks"):
            monkeypatch.setattr(f"kept.kge.ultra.{module}.CACHE_NUMBERS", numbers)
        torch.testing.assert_close(model(edges, relation_graph(edges), *questions(6)), whole)


def test_far_states_are_not_computed() -> None:
    """Of two chains of 17: the last layer has candidates alone, the first what anchors reach."""
    edges = sparse_edges()
    anchors, kinds = np.array([0, 0, 20]), np.array([0, 0, 1])
    candidates = np.array([[1, 30], [1, 30], [30, 2]])
    rows = needed_rows(edges.messages(0), anchors, kinds, candidates, N_LAYERS)
    sizes = [len(layer.previous) for layer in rows.layers]
    # 1 of both questions; 30 of the background that both share; 30 and 2 of the other's
    assert sizes[-1] == 5
    assert max(sizes) < 3 * N_ENTITIES // 2
    assert rows.answers[0, 1] == rows.answers[1, 1]  # not reached: one state for both
    assert rows.answers[0, 0] != rows.answers[1, 0]


def test_a_batch_without_questions_has_no_scores() -> None:
    model, edges = make_ultra(width=4, n_layers=2), sparse_edges()
    none = torch.zeros(0, dtype=torch.int64)
    scores = model(edges, relation_graph(edges), none, none, none.bool())
    assert scores.shape == (0, N_ENTITIES)
