"""The batch stream: one order, whatever the hash seed or worker count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kept.errors import ConfigError
from kept.training.stream import BatchStream
from tests.kept.training.atlas_stream import atlas_data
from tests.kept.training.stream_toy import ToyData, stream_hash


@pytest.mark.slow
@pytest.mark.minilm
def test_one_stream_under_any_hash_seed_and_worker_count(start: Any) -> None:
    """Of toy data and of real data: here without workers; there under a seed, with two and one."""
    there = start("atlas_stream.py", hash_seed=1)
    here = [stream_hash(0), stream_hash(0, atlas_data())]
    assert there.communicate()[0].split() == here
    assert len({*here}) == 2
    assert len(here[1]) == 64


def test_another_order_or_mask_changes_the_hash() -> None:
    assert stream_hash(0) != stream_hash(0, batch_size=6)


@pytest.mark.parametrize("how", [{"batch_size": 5}, {"node_budget": 24}])
def test_each_epoch_shows_every_sample_once_in_a_new_order(how: dict[str, int]) -> None:
    stream = BatchStream(ToyData(), seed=1, **how)
    orders, number = [], 0
    for epoch in range(3):
        located = [stream.locate(number + i) for i in range(stream.n_batches(epoch))]
        number += len(located)
        assert [place[0] for place in located] == [epoch] * len(located)
        orders.append(np.concatenate([place[1] for place in located]).tolist())
    assert [sorted(order) for order in orders] == [list(range(24))] * 3
    assert orders[0] != orders[1] != orders[2]


def test_node_budget_holds_and_is_used() -> None:
    stream = BatchStream(ToyData(), seed=1, node_budget=24)
    sizes = [stream[i].node_mask.shape for i in range(stream.n_batches(0))]
    areas = [n_batch * n_node for n_batch, n_node in sizes]
    assert max(areas) <= 24
    assert len(sizes) < 24 / 2


def test_samples_are_masked_anew_each_epoch_and_alike_in_each_reading() -> None:
    data = ToyData()
    first, again, later = (data.sample(4, epoch=e, seed=1) for e in (0, 0, 1))
    assert first.node_ids.equal(again.node_ids)
    assert not all(
        data.sample(i, epoch=0, seed=1).node_ids.equal(data.sample(i, epoch=1, seed=1).node_ids)
        for i in range(24)
    )
    assert later.node_ids.shape == first.node_ids.shape


@pytest.mark.parametrize(
    ("data", "how", "message"),
    [
        (ToyData(), {}, "exactly one"),
        (ToyData(), {"batch_size": 2, "node_budget": 9}, "exactly one"),
        (ToyData(n_samples=0), {"batch_size": 2}, "no sample"),
        (ToyData(), {"node_budget": 6}, "sample 4, which may have 7"),
    ],
)
def test_what_cannot_be_cut_is_refused(data: ToyData, how: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BatchStream(data, seed=1, **how)


def test_node_budget_needs_data_that_count_nodes() -> None:
    class Uncounted:
        fingerprint = ""

        def __len__(self) -> int:
            return 1

    with pytest.raises(ConfigError, match="Uncounted does not, give batch_size"):
        BatchStream(Uncounted(), seed=1, node_budget=9)  # type: ignore[arg-type]
