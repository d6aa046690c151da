"""The batch stream: one order, whatever the hash seed or worker count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kept.errors import ConfigError
from kept.randomness import generator
from kept.training.config import TrainConfig
from kept.training.stream import BatchStream, stream_of
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


SIZES: list[dict[str, Any]] = [{"batch_size": 5}, {"node_budget": 24}]


@pytest.mark.parametrize("how", [*SIZES, *({**size, "by_length": True} for size in SIZES)])
def test_each_epoch_shows_every_sample_once_in_a_new_order(how: dict[str, Any]) -> None:
    stream = BatchStream(ToyData(), seed=1, **how)
    orders, number = [], 0
    for epoch in range(3):
        located = [stream.locate(number + i) for i in range(stream.n_batches(epoch))]
        number += len(located)
        assert [place_in_epoch[0] for place_in_epoch in located] == [epoch] * len(located)
        orders.append(np.concatenate([place_in_epoch[1] for place_in_epoch in located]).tolist())
    assert [sorted(order) for order in orders] == [list(range(24))] * 3
    assert orders[0] != orders[1] != orders[2]


def test_batches_by_length_have_almost_no_padding_and_come_in_any_order_of_length() -> None:
    data = ToyData(n_samples=400)
    padded, longest = {}, []
    for by_length in (False, True):
        stream = BatchStream(data, seed=1, batch_size=5, by_length=by_length)
        masks = [stream[i].node_mask for i in range(stream.n_batches(0))]
        padded[by_length] = 1 - sum(int(m.sum()) for m in masks) / sum(m.numel() for m in masks)
        longest = [mask.shape[1] for mask in masks]
    assert padded[True] < 0.03 < 0.2 < padded[False]
    assert longest != sorted(longest)
    assert len({*longest[:20]}) > 3  # a training does not begin with short texts alone


def test_an_order_by_length_is_one_of_data_that_know_their_lengths() -> None:
    class Uncounted:
        fingerprint = ""

        def __len__(self) -> int:
            return 1

    class WithoutLengths:
        fingerprint, per_epoch = "", 1

        def share(self, number: int, *, seed: int, rank: int, n: int) -> None: ...

    config = TrainConfig(steps=1, batch_size=1, order="by_length")
    with pytest.raises(ConfigError, match="Uncounted does not, give order shuffled"):
        stream_of(Uncounted(), config)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="WithoutLengths makes batches in its own order"):
        stream_of(WithoutLengths(), config)  # type: ignore[arg-type]


def test_a_mixture_by_length_keeps_batches_of_one_task() -> None:
    class Two(ToyData):
        def strata(self, *, epoch: int, seed: int) -> list[Any]:
            return [generator(seed, "of", k, epoch).permutation(50) + 50 * k for k in range(2)]

    stream = BatchStream(Two(n_samples=100), seed=1, batch_size=5, by_length=True)
    batches = [stream.locate(i)[1] for i in range(stream.n_batches(0))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(100))
    assert all(len({*(batch // 50).tolist()}) == 1 for batch in batches)
    spans = [np.ptp([3 + i % 5 for i in batch]) for batch in batches]
    assert max(spans) <= 1


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
