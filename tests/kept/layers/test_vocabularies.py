"""Vocabularies beside the word pieces: their input, their scores, and losses of allowed sets."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from kept.batches import IGNORE, NONE
from kept.errors import BatchError
from kept.layers.vocabularies import Vocabulary, VocabularyHead, allowed_losses


@pytest.mark.parametrize("empty", [None, 0, 4])
def test_the_rows_of_a_nodes_ids_are_added_up(empty: int | None) -> None:
    table = Vocabulary(n_entries=5, embedding=3, empty=empty)
    ids = torch.tensor([[[1, 4, NONE], [NONE, NONE, NONE], [2, 2, 3]]])
    rows = table.vectors.weight
    nothing = torch.zeros(3) if empty is None else rows[empty]
    wanted = [rows[1] + rows[4] + nothing, 3 * nothing, 2 * rows[2] + rows[3]]
    torch.testing.assert_close(table(ids)[0], torch.stack(wanted))


def test_scores_are_products_with_the_vectors() -> None:
    states, vectors = torch.randn(4, 6), torch.randn(7, 6)
    plain = VocabularyHead(width=6, embedding=6, n_entries=7, transform=False)
    with torch.no_grad():
        plain.bias += torch.arange(7.0)
    torch.testing.assert_close(plain(states, vectors), states @ vectors.T + torch.arange(7.0))
    head = VocabularyHead(width=6, embedding=3, n_entries=7)
    narrow = torch.randn(7, 3)
    torch.testing.assert_close(head(states, narrow), head.transform(states) @ narrow.T)


def test_allowed_losses_are_those_of_a_loop() -> None:
    logits = torch.randn(5, 6)
    labels = torch.tensor([[0, 1, IGNORE], [IGNORE] * 3, [IGNORE, 5, IGNORE], [3, 3, 2], [4, 0, 5]])
    together, each = allowed_losses(logits, labels)
    for i, row in enumerate(labels.tolist()):
        allowed = {label for label in row if label != IGNORE}
        shares = logits[i].softmax(0).tolist()
        if not allowed:
            assert together[i] == each[i] == 0
            continue
        assert together[i].item() == pytest.approx(-math.log(sum(shares[j] for j in allowed)))
        mean = sum(-math.log(shares[j]) for j in allowed) / len(allowed)
        assert each[i].item() == pytest.approx(mean)


def test_one_label_is_the_cross_entropy_and_none_has_no_gradient() -> None:
    logits = torch.randn(3, 4, requires_grad=True)
    labels = torch.tensor([[2], [IGNORE], [0]])
    together, each = allowed_losses(logits, labels)
    wanted = F.cross_entropy(logits, labels[:, 0], reduction="none", ignore_index=IGNORE)
    torch.testing.assert_close(together, wanted)
    torch.testing.assert_close(each, wanted)
    (together + each).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not logits.grad[1].any()


@pytest.mark.parametrize("label", [4, -1])
def test_a_label_outside_the_vocabulary_is_refused(label: int) -> None:
    with pytest.raises(BatchError, match=f"label {label} is outside the 4 entries"):
        allowed_losses(torch.zeros(1, 4), torch.tensor([[label]]))
