"""One number a row: against loops, and against Adagrad where a row is one number."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from kept.errors import ConfigError
from kept.training.config import TrainConfig, binding
from kept.training.optimisers import ROWS, make_optimisers
from kept.training.row_adagrad import RowAdagrad
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything
from tests.kept.training.train_processes import run


def table(width: int) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(5, width, sparse=True)


def step(embedding: nn.Embedding, optimiser: torch.optim.Optimizer, rows: list[int]) -> None:
    optimiser.zero_grad()
    embedding(torch.tensor(rows)).pow(3).sum().backward()
    optimiser.step()


def test_with_rows_of_one_number_it_is_adagrad() -> None:
    ours, theirs = table(1), table(1)
    theirs.sparse = False
    one = RowAdagrad(ours.parameters(), lr=0.1)
    other = torch.optim.Adagrad(theirs.parameters(), lr=0.1, eps=1e-8)
    for rows in ([1, 4, 4], [4], [0, 1]):
        step(ours, one, rows)
        step(theirs, other, rows)
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_it_equals_loops_and_leaves_other_rows() -> None:
    embedding = table(3)
    optimiser, before = RowAdagrad(embedding.parameters(), lr=0.1), embedding.weight.detach()
    expected, sums = before.clone().double().tolist(), [0.0] * 5
    for rows in ([1, 4], [4], [1, 1]):
        step(embedding, optimiser, rows)
        for row in set(rows):
            gradient = [3 * rows.count(row) * x**2 for x in expected[row]]
            sums[row] += sum(g * g for g in gradient) / 3
            scale = 0.1 / (math.sqrt(sums[row]) + 1e-8)
            expected[row] = [x - scale * g for x, g in zip(expected[row], gradient, strict=True)]
    torch.testing.assert_close(embedding.weight.double(), torch.tensor(expected).double())
    assert optimiser.state[embedding.weight]["sum"].shape == (5,)
    with pytest.raises(ConfigError, match="lr >= 0"):
        RowAdagrad(embedding.parameters(), lr=-1.0)


def test_a_rate_of_nothing_is_allowed_and_changes_nothing() -> None:
    embedding = table(3)
    before = embedding.weight.detach().clone()
    step(embedding, RowAdagrad(embedding.parameters(), lr=0.0), [1, 4])
    torch.testing.assert_close(embedding.weight.detach(), before, rtol=0, atol=0)
    with pytest.raises(ConfigError, match="eps > 0; got"):
        RowAdagrad(embedding.parameters(), lr=0.1, eps=0.0)


def test_its_state_is_where_its_table_is() -> None:
    """Whatever the device on which new tensors are put by default."""
    embedding = table(3)
    optimiser = RowAdagrad(embedding.parameters(), lr=0.1)
    embedding(torch.tensor([1, 4])).sum().backward()
    with torch.device("meta"):
        optimiser.step()
    assert optimiser.state[embedding.weight]["sum"].device.type == "cpu"


def test_a_closure_gives_the_loss_and_a_table_without_gradient_is_left() -> None:
    used, unused = table(3), table(2)
    optimiser = RowAdagrad([*used.parameters(), *unused.parameters()], lr=0.1)
    before = unused.weight.detach().clone()

    def closure() -> float:
        loss = used(torch.tensor([0])).sum()
        loss.backward()
        return float(loss.detach())

    loss = optimiser.step(closure)
    assert loss == pytest.approx(float(used.weight.detach()[0].sum()) + 3 * 0.1, abs=1e-4)
    torch.testing.assert_close(unused.weight.detach(), before, rtol=0, atol=0)
    assert optimiser.step() is None


def test_a_run_may_name_it_and_older_checkpoints_still_fit() -> None:
    adam = TrainConfig(steps=1, batch_size=1)
    named = TrainConfig(steps=1, batch_size=1, row_optimiser="adagrad")
    assert "row_optimiser" not in binding(adam)
    assert binding(named)["row_optimiser"] == "adagrad"
    assert isinstance(make_optimisers(table(2), named)[ROWS], RowAdagrad)


def test_colake_learns_with_it_and_resumes(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    fields = write_everything(tmp_path, small_graph)
    changes = {"row_optimiser": "adagrad", "entity_learning_rate": 0.05}
    fields |= {"options": {"entity_table": "host"}, "training": fields["training"] | changes}
    result = run(fields, tmp_path / "run")
    assert result.first is not None
    assert result.last is not None
    assert result.last.row_gradient_norm is not None
    assert result.last.losses["entity"] < result.first.losses["entity"]
