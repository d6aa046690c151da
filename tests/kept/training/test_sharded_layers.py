"""Two processes that share a model's layers out train what one process trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from test_processes import finish, start
from tiny_pretraining import write_everything
from torch import nn
from train_sharded_layers import run

from kept.training.processes.sharded_layers import load_whole_state, share_layers, whole_state
from kept.training.processes.together import Losses, Processes
from kg_loaders import KnowledgeGraph

SCRIPT = Path(__file__).with_name("train_sharded_layers.py")


def by_two(folder: Path, out: str, *begin: str) -> Any:
    flags = [str(SCRIPT), str(folder / "run.json"), str(folder / out), *begin]
    for code, output in finish(start(flags, 2)):
        assert code == 0, output
    return torch.load(folder / out)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["colake", "ernie"])
def test_two_processes_with_half_the_weights_end_as_one(
    method: str, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    given = write_everything(tmp_path, small_graph) | {"method": method}
    (tmp_path / "run.json").write_text(json.dumps(given), encoding="utf-8")
    run(given, tmp_path / "one.pt", None)
    one, two = torch.load(tmp_path / "one.pt"), by_two(tmp_path, "two.pt")
    assert two["held"] < 0.6 * one["held"]
    assert one["weights"].keys() == two["weights"].keys()
    for name, value in one["weights"].items():
        torch.testing.assert_close(two["weights"][name], value, atol=5e-6, rtol=1e-4)
    if method == "colake":  # what one process saved is opened by two
        run(given, tmp_path / "one-more.pt", tmp_path / "one.pt")
        more = torch.load(tmp_path / "one-more.pt")["weights"]
        resumed = by_two(tmp_path, "two-more.pt", str(tmp_path / "one.pt"))["weights"]
        assert any(not torch.equal(more[name], value) for name, value in one["weights"].items())
        for name, value in more.items():
            torch.testing.assert_close(resumed[name], value, atol=5e-6, rtol=1e-4)


def test_alone_nothing_is_shared_out() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    losses = share_layers(model, Processes())
    assert isinstance(losses, Losses)
    assert [type(p) for p in model.parameters()] == [nn.Parameter, nn.Parameter]
    state = whole_state(model)
    assert state.keys() == model.state_dict().keys()
    other = nn.Sequential(nn.Linear(2, 2))
    load_whole_state(other, state)
    assert torch.equal(other[0].weight, model[0].weight)
