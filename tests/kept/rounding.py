"""How far two trainings may end apart that differ only in the order of their sums.

Two processes, two threads, another processor or another library add the same numbers in another
order. One error model says what that may do, so that a tolerance is not a number found by trying:

1. A gradient is a sum of some thousand products. Another order changes it by about `TERMS * eps`
   of the size of the tensor's gradients, where `eps` is that of the numbers' type and `TERMS` the
   square root of the number of terms.
2. Adam moves a weight by `rate * m / sqrt(v)`. A gradient `g` that is off by `d` changes that by
   `rate * d / |g|`: next to nothing for a gradient of usual size. The weights whose gradients are
   so near to zero that this exceeds `USUAL * rate` are about `TERMS * eps / USUAL` of all, under
   0.1 % a step. For these the direction itself may turn.
3. So after `n_steps`, all but `RARE` of the numbers agree within `n_steps * USUAL * rate` (and the
   rounding of the weight itself), and those few within `2 * n_steps * rate`, which is as far as two
   weights can be moved apart.

A training on other data, or with a forgotten term, moves nearly all weights apart by the order of
`rate`, a hundred times the tolerance: `tests/kept/test_rounding.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.training.log import read_log

TERMS = 64
USUAL = 0.01
RARE = 0.005
ALWAYS = 8
"""Numbers that may be among the rare ones however few there are: a model of a test is small."""


def differences(
    actual: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    *,
    n_steps: int,
    rate: float = 1e-4,
    highest_rate: float | None = None,
) -> str:
    """Return what rounding does not explain in the weights of two trainings; "" if nothing.

    `rate` is the learning rate (the lowest where there are several), `highest_rate` that of tables.
    """
    reach = 2 * n_steps * (highest_rate or rate)
    if actual.keys() != expected.keys():
        return f"other weights: {sorted(actual.keys() ^ expected.keys())}"
    n_rare, n_numbers, worst = 0, 0, ("", 0.0)
    for key, value in expected.items():
        if not value.is_floating_point():
            if not torch.equal(actual[key], value):
                return f"{key} holds other numbers, and they are whole"
            continue
        eps = torch.finfo(value.dtype).eps
        apart = (actual[key].double() - value.double()).abs()
        rounded = 2 * n_steps * eps * value.double().abs()
        over = apart > n_steps * USUAL * rate + rounded
        beyond = apart > reach + rounded
        if beyond.any() or apart.isnan().any():
            return f"{key} is {apart.max():.3g} apart: further than {n_steps} steps reach"
        n_rare, n_numbers = n_rare + int(over.sum()), n_numbers + value.numel()
        if over.any() and apart.max() > worst[1]:
            worst = (key, float(apart.max()))
    if n_rare > max(ALWAYS, RARE * n_numbers):
        return (
            f"{n_rare} of {n_numbers} weights are more than {n_steps * USUAL * rate:.3g} apart, "
            f"{worst[0]} by {worst[1]:.3g}"
        )
    return ""


def require_same_training(
    actual: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    *,
    n_steps: int,
    rate: float = 1e-4,
    highest_rate: float | None = None,
) -> None:
    """Fail where rounding does not explain how the weights of two trainings differ."""
    reason = differences(actual, expected, n_steps=n_steps, rate=rate, highest_rate=highest_rate)
    assert not reason, reason


def of_run(folder: Path) -> dict[str, Any]:
    """Return the steps and rates of the run in `folder`, from its log, for the functions above.

    A folder of several trainings, one after the other, has the log of each below it. The log holds
    the rate of most weights; that of tables is ten times as high everywhere here.
    """
    paths = [folder / "log.jsonl", *sorted(folder.glob("*/log.jsonl"))]
    log = [row for path in paths if path.is_file() for row in read_log(path)]
    rate = max(row["learning_rate"] for row in log)
    return {"n_steps": len(log), "rate": rate, "highest_rate": 10 * rate}


def require_same_state(
    actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], *, n_steps: int
) -> None:
    """The same of an optimiser's state: averages of gradients, and of their squares.

    They are off as far as gradients are: point 1 above, and what weights that are `USUAL` of a step
    apart bring, in relation to the largest of the tensor. What is nothing but rounding (the bias of
    keys in attention, whose gradient is zero) has no size to compare with: `TERMS * eps` of
    gradients up to 1.
    """
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        if not value.is_floating_point():
            assert torch.equal(actual[key], value), key
            continue
        size = float(value.abs().max()) if value.numel() else 0.0
        atol = n_steps * USUAL * size + TERMS * torch.finfo(value.dtype).eps
        torch.testing.assert_close(
            actual[key], value, atol=atol, rtol=0, msg=lambda text, key=key: f"{key}: {text}"
        )
