"""Cross entropy in less memory: every bit of loss and gradient is torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from kept.kge.all_entities_loss import mean_cross_entropy


@pytest.mark.parametrize("seed", range(30))
def test_every_bit_is_that_of_torch(seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    n_batch, n_classes = (int(n) for n in torch.randint(1, 700, (2,), generator=draws))
    scale = 10.0 ** (seed % 7 - 3)
    scores = torch.randn(n_batch, n_classes, generator=draws) * scale
    target = torch.randint(n_classes, (n_batch,), generator=draws)
    losses = []
    for loss_of in (mean_cross_entropy, cross_entropy):
        leaf = scores.clone().requires_grad_()
        loss = loss_of(leaf * 1.0, target)
        (loss * 3.0 + loss).backward()
        assert leaf.grad is not None
        losses.append((loss.detach(), leaf.grad))
    assert torch.equal(losses[0][0], losses[1][0])
    assert torch.equal(losses[0][1], losses[1][1])


def test_two_losses_of_one_matrix() -> None:
    """Heads and tails share the matrix of entities; what one saved the other does not overwrite."""
    torch.manual_seed(0)
    entities, rows = torch.randn(300, 8), torch.randn(2, 40, 8)
    target = torch.randint(300, (2, 40))
    gradients = []
    for loss_of in (mean_cross_entropy, cross_entropy):
        leaf = entities.clone().requires_grad_()
        sum(loss_of(rows[i] @ leaf.T, target[i]) for i in range(2)).backward()  # type: ignore[union-attr]
        gradients.append(leaf.grad)
    assert gradients[0] is not None
    assert torch.equal(gradients[0], gradients[1])
