"""Masking: shares, anchors, entities of one fate, independence of batch and padding; negatives."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch, Visibility
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import NodeKind
from kept.objectives.masking import EntitySampler, MaskingConfig, anchor_mask, mask_nodes
from kept.randomness import generator

N = 4000
CONFIG = MaskingConfig(
    word_mask_id=4, n_words=1000, n_entities=500, n_relations=50, special_word_ids=(0, 1, 2, 3)
)
KINDS = ("words", "anchors", "neighbours", "relations")


def sample(n: int, seed: int = 0) -> KnowledgeBatch:
    """`n` distinct words, anchors, neighbours and relations, the first word being special."""
    g = torch.Generator().manual_seed(seed)
    kinds = torch.repeat_interleave(torch.tensor([0, 1, 1, 2]), n)
    ids = torch.cat([
        torch.randint(4, 1000, (n,), generator=g), N_SPECIAL_ROWS + torch.arange(n),
        N_SPECIAL_ROWS + n + torch.arange(n), torch.randint(3, 50, (n,), generator=g),
    ])  # fmt: skip
    ids[0] = 2
    visible = torch.eye(4 * n, dtype=torch.bool)
    visible[: 2 * n, : 2 * n] = True
    zeros = torch.zeros_like(ids)[None]
    return KnowledgeBatch(
        ids[None], kinds[None], zeros == 0, zeros, zeros, Visibility(visible[None])
    )  # fmt: skip


def part(values: torch.Tensor, name: str, n: int) -> torch.Tensor:
    start = KINDS.index(name) * n
    return values[0, start : start + n]


@pytest.fixture(scope="module")
def masked() -> tuple[KnowledgeBatch, KnowledgeBatch]:
    batch = sample(N // 4)
    config = dataclasses.replace(CONFIG, n_entities=10_000)
    return batch, mask_nodes(batch, generators=[np.random.default_rng(2)], config=config)


@pytest.mark.parametrize(
    ("name", "share", "hidden", "mask_id"),
    [
        ("words", 0.15, 0.8, 4),
        ("neighbours", 0.15, 0.8, MASK_ROW),
        ("relations", 0.15, 0.8, MASK_ROW),
        ("anchors", 1.0, 0.15 * 0.8 + 0.85 * 0.1, MASK_ROW),
    ],
)
def test_shares(
    masked: tuple[KnowledgeBatch, KnowledgeBatch],
    name: str,
    share: float,
    hidden: float,
    mask_id: int,
) -> None:
    before, after = masked
    n = N // 4
    assert after.node_labels is not None
    labels = part(after.node_labels, name, n)
    old, new = part(before.node_ids, name, n), part(after.node_ids, name, n)
    chosen = labels != IGNORE
    assert torch.equal(labels[chosen], old[chosen])
    assert torch.equal(old[~chosen], new[~chosen])
    assert float(chosen.float().mean()) == pytest.approx(share, abs=0.04)
    assert float((new[chosen] == mask_id).float().mean()) == pytest.approx(hidden, abs=0.1)
    replaced = chosen & (new != old) & (new != mask_id)
    assert float(replaced.sum() / chosen.sum()) == pytest.approx(0.1, abs=0.07)
    if name != "words":
        assert int(new.min()) >= MASK_ROW
        assert int(new[replaced].min()) >= N_SPECIAL_ROWS
    else:
        assert labels[0] == IGNORE


def test_anchors_are_left_alone_when_told(masked: tuple[KnowledgeBatch, KnowledgeBatch]) -> None:
    batch, _ = masked
    config = dataclasses.replace(CONFIG, n_entities=10_000, anchors=False)
    after = mask_nodes(batch, generators=[np.random.default_rng(0)], config=config)
    assert after.node_labels is not None
    is_target = part(after.node_labels, "anchors", N // 4) != IGNORE
    assert float(is_target.float().mean()) == pytest.approx(0.15, abs=0.04)
    assert anchor_mask(batch).nonzero()[:, 1].tolist() == list(range(N // 4, N // 2))


def test_one_entity_has_one_fate() -> None:
    batch = sample(200)
    ids = batch.node_ids.clone()
    entities = batch.node_kinds == NodeKind.ENTITY
    ids[entities] = N_SPECIAL_ROWS + torch.arange(400) % 20
    batch = dataclasses.replace(batch, node_ids=ids)
    config = dataclasses.replace(CONFIG, anchors=False)
    after = mask_nodes(batch, generators=[np.random.default_rng(1)], config=config)
    fates: dict[int, set[int]] = {}
    for old, new in zip(ids[entities].tolist(), after.node_ids[entities].tolist(), strict=True):
        fates.setdefault(old, set()).add(new)
    assert all(len(fate) == 1 for fate in fates.values())
    assert any(fate != {old} for old, fate in fates.items())


def test_a_sample_does_not_feel_batch_or_padding() -> None:
    ones = [sample(n, seed=n) for n in (3, 9, 5)]
    for layout in ("joined", "grouped"):
        batch = KnowledgeBatch.stack(ones, layout=layout)  # type: ignore[arg-type]
        generators = [generator(7, "graph", 1, i) for i in range(3)]
        whole = mask_nodes(batch, generators=generators, config=CONFIG)
        singles = [
            mask_nodes(one, generators=[generator(7, "graph", 1, i)], config=CONFIG)
            for i, one in enumerate(ones)
        ]
        again = KnowledgeBatch.stack(singles, layout=layout)  # type: ignore[arg-type]
        assert again.node_labels is not None
        assert whole.node_labels is not None
        assert torch.equal(whole.node_ids, again.node_ids)
        assert torch.equal(whole.node_labels, again.node_labels)
        assert bool((whole.node_labels[~whole.node_mask] == IGNORE).all())


def test_masks_change_with_the_epoch() -> None:
    batch = sample(50)
    labels = [
        mask_nodes(batch, generators=[generator(0, "graph", epoch, 0)], config=CONFIG).node_labels
        for epoch in (0, 0, 1)
    ]
    assert torch.equal(labels[0], labels[1])  # type: ignore[arg-type]
    assert not torch.equal(labels[0], labels[2])  # type: ignore[arg-type]


def test_faults_are_named() -> None:
    with pytest.raises(BatchError, match="1 samples need as many generators, not 2"):
        mask_nodes(sample(1), generators=[np.random.default_rng()] * 2, config=CONFIG)
    with pytest.raises(ConfigError, match=r"probability 2.*word_mask_id 9.*n_entities 3"):
        MaskingConfig(
            word_mask_id=9, n_words=5, n_entities=3, n_relations=9, special_word_ids=(),
            probability=2,
        )  # fmt: skip
    wrong: Any
    for wrong in ([], [0, 0], [-1, 2], [[1.0]]):
        with pytest.raises(ConfigError, match="frequencies need"):
            EntitySampler(wrong)


def test_sampled_entities_are_golds_then_new_rows() -> None:
    sampler = EntitySampler([0, 0, 0, 5, 1, 0, 3, 2])
    golds = torch.tensor([[6, IGNORE, 4], [6, 4, IGNORE]])
    for seed in range(30):
        rows = sampler.sample(golds, 3, np.random.default_rng(seed)).tolist()
        assert rows[:2] == [6, 4]
        assert len(set(rows)) == len(rows) <= 8
        assert set(rows[2:]) <= {3, 7}
    same = [sampler.sample(golds, 3, np.random.default_rng(1)).tolist() for _ in range(2)]
    assert same[0] == same[1]


def test_draws_follow_the_frequencies() -> None:
    counts = np.array([0, 0, 0, 1, 16, 81, 0])
    rows = EntitySampler(counts).draw(200_000, np.random.default_rng(0))
    shares = np.bincount(rows, minlength=7) / len(rows)
    assert shares == pytest.approx(counts**0.75 / (counts**0.75).sum(), abs=0.005)
    assert not shares[counts == 0].any()
