"""`KnowledgeBatch`: strict checks, and padding, grouping and packing that change nothing."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import config
from torch import Tensor

from kept.batches import IGNORE, NONE, PAD_ROW, KnowledgeBatch, Visibility, pack
from kept.errors import BatchError


def sample(n_nodes: int, n_mentions: int, seed: int) -> KnowledgeBatch:
    """A batch of one with every field that a sample can carry."""
    g = torch.Generator().manual_seed(seed)

    def ids(*shape: int) -> Tensor:
        return torch.randint(3, 50, shape, generator=g)

    starts = torch.randint(0, n_nodes, (1, n_mentions), generator=g)
    visible = torch.rand(1, n_nodes, n_nodes, generator=g) < 0.5
    return KnowledgeBatch(
        node_ids=ids(1, n_nodes),
        node_kinds=torch.randint(0, 3, (1, n_nodes), generator=g),
        node_mask=torch.ones(1, n_nodes, dtype=torch.bool),
        positions=ids(1, n_nodes),
        segment_ids=ids(1, n_nodes),
        visibility=Visibility(visible | visible.mT | torch.eye(n_nodes, dtype=torch.bool)),
        entity_ids=ids(1, n_nodes),
        mention_spans=torch.stack([starts, starts + 1], dim=2),
        candidate_ids=ids(1, n_mentions, 1 + n_mentions % 3),
        candidate_priors=torch.rand(1, n_mentions, 1 + n_mentions % 3, generator=g),
        node_labels=ids(1, n_nodes),
        extra_ids={"sense": ids(1, n_nodes, 1 + n_nodes % 3), "tag": ids(1, n_nodes, 1)},
        extra_labels={"sense": ids(1, n_nodes, 1 + n_nodes % 2)},
        labels=None,
    )


samples = st.lists(
    st.builds(sample, st.integers(1, 9), st.integers(0, 4), st.integers(0, 10**6)),
    min_size=1,
    max_size=6,
)
NODE_FIELDS = ("node_ids", "node_kinds", "positions", "segment_ids", "entity_ids", "node_labels")


def assert_same_sample(
    batch: KnowledgeBatch, row: int, nodes: Tensor, one: KnowledgeBatch, mentions: slice
) -> None:
    """`one` lies in `batch[row]` at `nodes`, and sees nothing else."""
    for name in NODE_FIELDS:
        assert torch.equal(getattr(batch, name)[row, nodes], getattr(one, name)[0]), name
    for name, fill in (("extra_ids", NONE), ("extra_labels", IGNORE)):
        assert getattr(batch, name).keys() == getattr(one, name).keys()
        for extra, wanted in getattr(one, name).items():
            values = getattr(batch, name)[extra][row, nodes]
            assert torch.equal(values[:, : wanted.shape[2]], wanted[0])
            assert bool((values[:, wanted.shape[2] :] == fill).all())
    assert bool(batch.node_mask[row, nodes].all())
    visible = batch.visibility.mask[row][nodes]
    assert torch.equal(visible[:, nodes], one.visibility.mask[0])
    assert int(visible.sum()) == int(one.visibility.mask.sum())
    spans, ours = batch.mention_spans, one.mention_spans
    assert spans is not None
    assert ours is not None
    assert torch.equal(spans[row, mentions, 0], nodes[ours[0, :, 0]])
    assert torch.equal(spans[row, mentions, 1], nodes[ours[0, :, 1] - 1] + 1)
    for name in ("candidate_ids", "candidate_priors"):
        wanted = getattr(one, name)[0]
        values = getattr(batch, name)[row, mentions]
        assert torch.equal(values[:, : wanted.shape[1]], wanted)
        pad = PAD_ROW if name == "candidate_ids" else 0
        assert bool((values[:, wanted.shape[1] :] == pad).all())


def assert_padding(batch: KnowledgeBatch, word_pad_id: int) -> None:
    pads = ~batch.node_mask
    eye = torch.eye(batch.node_ids.shape[1], dtype=torch.bool).expand_as(batch.visibility.mask)
    assert torch.equal(batch.visibility.mask[pads], eye[pads])
    wanted = torch.where(batch.node_kinds == 0, word_pad_id, PAD_ROW)[pads]
    assert torch.equal(batch.node_ids[pads], wanted)
    assert batch.node_labels is not None
    assert bool((batch.node_labels[pads] == IGNORE).all())
    for field, fill in ((batch.extra_ids, NONE), (batch.extra_labels, IGNORE)):
        assert field is not None
        assert all(bool((ids[pads] == fill).all()) for ids in field.values())
    assert not batch.positions[pads].any()
    assert not batch.segment_ids[pads].any()


@given(samples, st.integers(0, 3))
@settings(deadline=None, max_examples=25)
def test_stacking_pads_at_the_end(ones: list[KnowledgeBatch], word_pad_id: int) -> None:
    batch = KnowledgeBatch.stack(ones, word_pad_id=word_pad_id)
    assert len(batch) == len(ones)
    for row, one in enumerate(ones):
        n = one.node_ids.shape[1]
        n_mentions = one.mention_spans.shape[1] if one.mention_spans is not None else 0
        assert_same_sample(batch, row, torch.arange(n), one, slice(0, n_mentions))
        assert int(batch.node_mask[row].sum()) == n
        assert batch.mention_spans is not None
        assert not batch.mention_spans[row, n_mentions:].any()
    assert_padding(batch, word_pad_id)
    half = max(len(ones) // 2, 1)
    parts = [KnowledgeBatch.stack(part) for part in (ones[:half], ones[half:]) if part]
    assert KnowledgeBatch.stack(parts).same_as(KnowledgeBatch.stack(ones))


@given(samples, st.integers(0, 3))
@settings(deadline=None, max_examples=25)
def test_grouping_gives_each_kind_a_range(ones: list[KnowledgeBatch], word_pad_id: int) -> None:
    batch = KnowledgeBatch.stack(ones, layout="grouped", word_pad_id=word_pad_id)
    kinds = batch.node_kinds
    assert bool((kinds == kinds[0]).all())
    assert bool((kinds[0].diff() >= 0).all())
    counts = [[int((one.node_kinds == kind).sum()) for one in ones] for kind in range(3)]
    widths = [max(counts[0]), max(*counts[1], 1), max(*counts[2], 1)]
    assert torch.bincount(kinds[0], minlength=3).tolist() == widths
    for row, one in enumerate(ones):
        places = []
        for j, kind in enumerate(one.node_kinds[0].tolist()):
            before = int((one.node_kinds[0, :j] == kind).sum())
            places.append(sum(widths[:kind]) + before)
        n_mentions = one.mention_spans.shape[1] if one.mention_spans is not None else 0
        assert_same_sample(batch, row, torch.tensor(places), one, slice(0, n_mentions))
    assert_padding(batch, word_pad_id)


@given(samples, st.integers(9, 20))
@settings(deadline=None, max_examples=25)
def test_packing_keeps_samples_apart(ones: list[KnowledgeBatch], n_nodes: int) -> None:
    packed = pack(ones, n_nodes)
    batch = packed.batch
    assert batch.node_ids.shape[1] == n_nodes
    first_mention = [0] * len(batch)
    for i, one in enumerate(ones):
        row, start, stop = packed.rows[i], packed.starts[i], packed.stops[i]
        assert one.mention_spans is not None
        n = one.mention_spans.shape[1]
        mentions = slice(first_mention[row], first_mention[row] + n)
        first_mention[row] += n
        assert_same_sample(batch, row, torch.arange(start, stop), one, mentions)
    assert int(batch.node_mask.sum()) == sum(one.node_ids.shape[1] for one in ones)
    assert_padding(batch, 0)
    states = torch.rand(*batch.node_ids.shape, 2)
    for i, part in enumerate(packed.unpack(states)):
        start, stop = packed.starts[i], packed.stops[i]
        assert torch.equal(part, states[packed.rows[i], start:stop])
        assert len(part) == ones[i].node_ids.shape[1]


def test_take_and_to() -> None:
    batch = KnowledgeBatch.stack([sample(4, 1, 0), sample(6, 2, 1)])
    second = batch.take(slice(1, 2)).to("cpu")
    assert torch.equal(second.node_ids, batch.node_ids[1:])
    assert repr(second).startswith("KnowledgeBatch(batch=1, node=6, fields=['node_ids'")


@pytest.fixture
def _unchecked_shapes() -> Iterator[None]:
    """Switch the shape checks of the test run off, to meet those of the batch itself."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("_unchecked_shapes")
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("positions", torch.zeros(1, 3, dtype=torch.int64), "positions has shape"),
        ("node_mask", torch.ones(1, 4, dtype=torch.int64), "node_mask must be bool"),
        ("node_ids", torch.zeros(1, 4), "node_ids must be an integer type"),
        ("visibility", Visibility.everyone(1, 5), r"\(1, 5, 5\), the batch \(1, 4\)"),
        ("node_mask", torch.tensor([[True, True, True, False]]), "is padding"),
        ("mention_spans", torch.tensor([[[1, 5], [0, 1]]]), r"mention_spans 0 is \[1, 5\]"),
        ("mention_spans", torch.tensor([[[2, 1], [0, 1]]]), r"mention_spans 0 is \[2, 1\]"),
        ("mention_spans", torch.tensor([[1, 2]]), "mention_spans need shape"),
        ("candidate_ids", torch.zeros(1, 7, 2, dtype=torch.int64), "as many mentions"),
        ("candidate_priors", torch.zeros(1, 2, 9), "candidate_ids of that shape"),
        ("sampled_entities", torch.zeros(1, 2, dtype=torch.int64), "one axis"),
        ("extra_ids", {"sense": torch.zeros(1, 4, dtype=torch.int64)}, "extra_ids of 'sense'"),
        ("extra_labels", {"tag": torch.zeros(1, 4, 1)}, "extra_labels of 'tag' are torch.float32"),
    ],
)
def test_faulty_batches_are_refused(field: str, value: Any, message: str) -> None:
    one = sample(4, 2, 0).replace(visibility=Visibility.everyone(1, 4))
    for replaced in (one.replace, functools.partial(dataclasses.replace, one)):
        with pytest.raises(BatchError, match=message):
            replaced(**{field: value})


def test_what_cannot_be_joined_is_refused() -> None:
    one: Any = sample(4, 2, 0)
    with pytest.raises(BatchError, match="nothing to stack"):
        KnowledgeBatch.stack([])
    with pytest.raises(BatchError, match="nothing to pack"):
        pack([], 8)
    with pytest.raises(BatchError, match="absent in batch 1"):
        KnowledgeBatch.stack([one, dataclasses.replace(one, node_labels=None)])
    other = dataclasses.replace(one, extra_ids={"tag": one.extra_ids["tag"]})
    with pytest.raises(BatchError, match=r"extra_ids are of \['sense', 'tag'\] in one batch and"):
        KnowledgeBatch.stack([one, other])
    with pytest.raises(BatchError, match="after stacking"):
        KnowledgeBatch.stack([dataclasses.replace(one, sampled_entities=torch.tensor([3]))])
    with pytest.raises(BatchError, match="4 nodes, a packed row 3"):
        pack([one], 3)
    with pytest.raises(BatchError, match="none of labels"):
        pack([dataclasses.replace(one, labels=torch.tensor([1]))], 8)
    with pytest.raises(BatchError, match="cannot be padded to 3"):
        one.pad_to(3)
    with pytest.raises(BatchError, match="only unpadded"):
        KnowledgeBatch.stack([one.pad_to(6)], layout="grouped")
