"""A table in host memory reads and learns what a table on the device does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from kept.encoders.colake import CoLAKE, CoLAKEConfig
from kept.errors import ConfigError
from kept.layers.host_table import HostTable
from kept.training.row_adam import RowAdam
from tests.kept.tiny_hosts import tiny_host


def pair() -> tuple[HostTable, nn.Embedding]:
    ours, theirs = HostTable(9, 4), nn.Embedding(9, 4, sparse=True)
    with torch.no_grad():
        ours.weight.copy_(theirs.weight)
    return ours, theirs


def test_it_reads_and_learns_what_an_embedding_does() -> None:
    ours, theirs = pair()
    optimisers = [RowAdam(table.parameters(), lr=0.1) for table in (ours, theirs)]
    for ids in (torch.tensor([[3, 3, 1], [0, 8, 3]]), torch.tensor([[1, 0, 0], [0, 0, 0]])):
        weights = torch.rand(2, 3, 4)
        assert torch.equal(ours(ids), theirs(ids))
        for table, optimiser in zip((ours, theirs), optimisers, strict=True):
            optimiser.zero_grad()
            (table(ids) * weights).pow(2).sum().backward()
            assert table.weight.grad is not None
            assert table.weight.grad.is_sparse
            optimiser.step()
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_each_row_that_is_read_has_one_gradient() -> None:
    ours, _ = pair()
    ours(torch.tensor([[1] * 50 + [2] * 50])).sum().backward()
    assert ours.weight.grad is not None
    assert ours.weight.grad._nnz() == 2
    assert ours.weight.grad.to_dense()[1].tolist() == [50.0] * 4


def test_only_its_type_follows_the_model() -> None:
    ours, _ = pair()
    model = nn.Sequential(ours, nn.Linear(4, 4)).to("meta")
    assert model[1].weight.is_meta
    assert ours.weight.device.type == "cpu"
    assert ours(torch.tensor([1])).device.type == "cpu"
    model.to(torch.bfloat16)
    assert ours.weight.dtype == torch.bfloat16
    with torch.device("meta"):
        table = HostTable(3, 2)
    assert table.to_empty(device="cpu").weight.device.type == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gradient_comes_back_from_a_gpu() -> None:
    ours, theirs = pair()
    ids = torch.tensor([2, 2, 5])
    ours(ids.cuda()).square().sum().backward()
    theirs(ids).square().sum().backward()
    assert ours.weight.grad is not None
    assert theirs.weight.grad is not None
    torch.testing.assert_close(ours.weight.grad.to_dense(), theirs.weight.grad.to_dense())


def test_a_model_with_it_is_saved_and_opened(tmp_path: Path) -> None:
    config = CoLAKEConfig(host=tiny_host().config.to_dict(), n_entities=6, n_relations=2,
                          entity_table="host")  # fmt: skip
    model = CoLAKE(config, host=tiny_host())
    model.save_pretrained(tmp_path)
    again = CoLAKE.from_pretrained(tmp_path)
    assert isinstance(again.entity_embeddings, HostTable)
    assert torch.equal(again.entity_embeddings.weight, model.entity_embeddings.weight)
    with pytest.raises(ConfigError, match="use 'device' or 'host'"):
        CoLAKEConfig(entity_table="disk")
    with pytest.raises(ConfigError, match="leave sparse_entities on"):
        CoLAKEConfig(entity_table="host", sparse_entities=False)
