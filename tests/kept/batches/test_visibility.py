"""Who sees whom: checked once, moved for nothing, the same mask in whatever form it is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import config
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kept.batches import KnowledgeBatch, TripleBatch, Visibility
from kept.batches.visibility import derived
from kept.errors import BatchError
from tests.kept.batches.test_batches import sample

READS = ("aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default")
"""What waits for a GPU: values that the program reads, and shapes that depend on them."""


class Counted(TorchDispatchMode):
    """Counts operations that read values."""

    def __init__(self) -> None:
        super().__init__()
        self.n_reads = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.n_reads += str(func) in READS
        return func(*args, **kwargs or {})


def n_reads(work: Callable[[], object]) -> int:
    with Counted() as counted:
        work()
    return counted.n_reads


def full_batch() -> KnowledgeBatch:
    """Several samples with weights, spans and triples."""
    batch = KnowledgeBatch.stack([sample(n, 2, n) for n in (4, 7, 6)])
    assert batch.mention_spans is not None
    heads, none = torch.tensor([0, 1]), torch.zeros(2, 0, dtype=torch.int64)
    return batch.replace(
        node_weights=torch.full(batch.node_ids.shape, 0.5),
        mention_weights=torch.ones(batch.mention_spans.shape[:2]),
        triples=TripleBatch(batch, heads, heads, heads, none, none),
    )


def test_a_batch_is_moved_and_cut_without_reading_a_value() -> None:
    batch = full_batch()
    labels = torch.zeros_like(batch.node_ids)
    assert n_reads(lambda: batch.to("cpu")) == 0
    assert n_reads(lambda: batch.take(slice(1, 3))) == 0
    assert n_reads(lambda: batch.replace(node_labels=labels, node_ids=labels)) == 0
    assert n_reads(lambda: KnowledgeBatch(**vars(batch))) > 3, "making one reads nothing?"
    moved = batch.to("meta")  # where no value could be read
    assert moved.node_ids.is_meta
    assert moved.visibility.mask.is_meta
    assert moved.triples is not None
    assert moved.triples.texts.visibility.mask.is_meta
    assert moved.take(torch.arange(2, device="meta")).visibility.mask.shape == (2, 7, 7)


def test_equal_batches_and_what_tells_them_apart() -> None:
    batch = full_batch()
    assert batch.same_as(full_batch())
    assert batch.same_as(batch.take(slice(0, 3)))
    assert not batch.same_as(batch.take(slice(0, 2)))
    blind = batch.replace(visibility=Visibility.among(torch.zeros_like(batch.node_mask)))
    assert not batch.same_as(blind)
    assert batch.same_as(blind, but=("visibility",))
    assert not batch.same_as(batch.replace(triples=None))
    with pytest.raises(BatchError, match="no field 'visible'"):
        batch.replace(visible=batch.visibility)


def test_only_what_is_new_is_checked() -> None:
    batch = full_batch()
    spoilt = derived(KnowledgeBatch, vars(batch) | {"node_weights": batch.node_weights * 3})
    assert spoilt.replace(node_labels=None).node_labels is None
    with pytest.raises(BatchError, match="from 0 to 1"):
        spoilt.replace(node_weights=spoilt.node_weights)
    with pytest.raises(BatchError, match="node_kinds has shape"):
        batch.replace(node_ids=batch.node_ids[:, :2])


def test_faulty_masks_are_refused() -> None:
    config.update("jaxtyping_disable", True)
    try:
        for mask in (torch.ones(1, 4, 4), torch.ones(4, 4).bool(), torch.ones(1, 4, 3).bool()):
            with pytest.raises(BatchError, match="must be bool"):
                Visibility(mask)
    finally:
        config.update("jaxtyping_disable", False)
    with pytest.raises(BatchError, match="must see itself"):
        Visibility(torch.zeros(1, 4, 4, dtype=torch.bool))


def naive(batch: Visibility, keys: Tensor, query: tuple[int, int]) -> list[int]:
    """Nodes that one node may read, itself where there is none."""
    row, node = query
    n_nodes = batch.mask.shape[1]
    return [j for j in range(n_nodes) if batch.mask[row, node, j] and keys[row, j]] or [node]


@pytest.mark.parametrize("weighed", [False, True])
def test_every_form_of_the_mask_says_the_same(weighed: bool) -> None:
    draws = torch.Generator().manual_seed(4)
    seen = torch.rand(3, 6, 6, generator=draws) < 0.4
    visibility = Visibility(seen | torch.eye(6, dtype=torch.bool))
    keys = torch.rand(3, 6, generator=draws) < 0.5
    weights = torch.rand(3, 6, generator=draws) if weighed else None
    read, added = (
        visibility.attention(kind, torch.float32, keys=keys, weights=weights)
        for kind in ("sdpa", "eager")
    )
    assert (read.dtype == torch.bool) == (not weighed)
    least = torch.finfo(torch.float32).min
    for row in range(3):
        for node in range(6):
            open_ = naive(visibility, keys, (row, node))
            assert (added[row, 0, node] > least).nonzero()[:, 0].tolist() == open_
            if weights is not None:
                wanted = weights[row, open_].log()
                torch.testing.assert_close(added[row, 0, node, open_], wanted)
            else:
                assert read[row, 0, node].nonzero()[:, 0].tolist() == open_
    by = torch.zeros(3, 6, dtype=torch.bool)
    by[:, 2] = True
    assert torch.equal(visibility.seen_by(by), visibility.mask[:, 2])
    places = torch.tensor([[1, 4]] * 3)
    assert torch.equal(visibility.of_keys(places), visibility.mask[:, :, [1, 4]])


def test_masks_of_real_nodes_and_blocks() -> None:
    real = torch.tensor([[True, True, False]])
    assert Visibility.among(real).mask.int().tolist() == [[[1, 1, 0], [1, 1, 0], [0, 0, 1]]]
    assert Visibility.of_real(real).mask.int().tolist() == [[[1, 1, 0]] * 3]
    assert Visibility.everyone(2, 3).mask.all()
    Visibility.among(real).check(real)
    with pytest.raises(BatchError, match="sample 0: node 0 sees node 2, which is padding"):
        Visibility.everyone(1, 3).check(real)
    block = torch.ones(2, 2, dtype=torch.bool)
    placed = Visibility.in_blocks([(1, 1, block)], (2, 3))
    assert placed.mask[0].equal(torch.eye(3, dtype=torch.bool))
    assert placed.mask[1].int().tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
    assert repr(placed) == "Visibility(batch=2, node=3)"
