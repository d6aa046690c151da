"""Negatives that a batch shares: the loss over all entities, estimated."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from kept.batches import N_SPECIAL_ROWS, PAD_ROW
from kept.errors import ConfigError
from kept.objectives.masked_nodes import MaskedNodesOptions, corrected, entity_slots
from kept.objectives.masking import EntitySampler

FREQUENCIES = np.r_[0, 0, 0, np.random.default_rng(0).zipf(1.5, 60)].astype(float)
GOLDS = torch.tensor([5, 9, 9, 40, 62])


def test_with_many_samples_it_is_the_full_softmax() -> None:
    draws = np.random.default_rng(1)
    torch.manual_seed(0)
    vectors, states = torch.randn(63, 8), torch.randn(5, 8)
    rows, shares = EntitySampler(FREQUENCIES).shared(GOLDS, 200_000, draws)
    assert len(rows) == 60
    slots = entity_slots(GOLDS, rows)
    ours = F.cross_entropy(corrected(states @ vectors[rows].T, slots, shares), slots)
    full = F.cross_entropy(states @ vectors[N_SPECIAL_ROWS:].T, GOLDS - N_SPECIAL_ROWS)
    assert float(ours) == pytest.approx(float(full), abs=1e-4)


def test_the_sum_over_entities_is_right_in_expectation() -> None:
    draws = np.random.default_rng(2)
    torch.manual_seed(0)
    scores = torch.randn(5, 63) * 0.5
    sampler, sums = EntitySampler(FREQUENCIES), []
    for _ in range(3000):
        rows, shares = sampler.shared(GOLDS, 40, draws)
        slots = entity_slots(GOLDS, rows)
        sums.append(corrected(scores[:, rows], slots, shares).exp().sum(1))
    whole = scores[:, N_SPECIAL_ROWS:].exp().sum(1)
    estimates = torch.stack(sums)
    error = estimates.std(0) / len(sums) ** 0.5
    assert ((estimates.mean(0) - whole).abs() < 4 * error).all()
    assert (error < 0.02 * whole).all()


def test_golds_that_were_not_drawn_are_negatives_of_none() -> None:
    draws = np.random.default_rng(3)
    rows, shares = EntitySampler(FREQUENCIES).shared(torch.tensor([5, 9]), 1, draws)
    slots = entity_slots(torch.tensor([5, 9]), rows)
    logits = corrected(torch.zeros(2, len(rows)), slots, shares)
    assert logits[0, 0] == logits[1, 1] == 0
    assert logits[0, 1] == -torch.inf or bool(shares[1].isfinite())
    assert bool(logits.softmax(1).isfinite().all())


def test_nothing_is_drawn_without_a_gold() -> None:
    none = torch.tensor([-100])
    rows, shares = EntitySampler(FREQUENCIES).shared(none, 8, np.random.default_rng(0))
    assert rows.tolist() == [PAD_ROW]
    assert shares.tolist() == [0]
    slots = entity_slots(none[:0], rows)
    assert corrected(torch.zeros(0, 1), slots, shares).shape == (0, 1)
    with pytest.raises(ConfigError, match="shared_negatives is 0"):
        MaskedNodesOptions(shared_negatives=0)
