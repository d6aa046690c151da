"""Which row a sample is packed into, and on which device its parts are."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kept.batches import KnowledgeBatch, Visibility, pack


def sample(n: int) -> KnowledgeBatch:
    """`n` words that see one another."""
    ids = torch.arange(n)[None]
    return KnowledgeBatch(
        node_ids=ids, node_kinds=torch.zeros_like(ids),
        node_mask=torch.ones_like(ids, dtype=torch.bool), positions=ids,
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility(torch.ones(1, n, n, dtype=torch.bool)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "rows", "starts"),
    [
        ([5, 3, 4, 4], (0, 0, 1, 1), (0, 5, 0, 4)), ([5, 4, 3, 8], (0, 1, 0, 2), (0, 0, 5, 0)),
        ([8], (0,), (0,)), ([4, 5, 4, 3], (0, 1, 0, 1), (0, 0, 4, 5)),
    ],
)  # fmt: skip
def test_a_sample_goes_into_the_first_row_with_room(
    sizes: list[int], rows: tuple[int, ...], starts: tuple[int, ...]
) -> None:
    """A row of eight nodes may be filled to its last."""
    packed = pack([sample(n) for n in sizes], 8)
    assert (packed.rows, packed.starts) == (rows, starts)
    assert packed.stops == tuple(s + n for s, n in zip(starts, sizes, strict=True))
    assert len(packed.batch) == max(rows) + 1
    parts = packed.unpack(packed.batch.node_ids)
    assert [part.tolist() for part in parts] == [list(range(n)) for n in sizes]
    assert packed.batch.node_mask.sum(1).tolist() == [
        sum(n for n, row in zip(sizes, rows, strict=True) if row == i) for i in range(max(rows) + 1)
    ]


def test_visibility_is_where_the_samples_are() -> None:
    """Whatever the device on which new tensors are put by default."""
    samples = [sample(3), dataclasses.replace(sample(2))]
    with torch.device("meta"):
        packed = pack(samples, 5)
    assert packed.batch.visibility.mask.device.type == "cpu"
