"""Skip-gram with negative sampling over one vocabulary, as the Wikipedia2Vec toolkit computes it.

Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their Compositionality"
(NeurIPS), equation 4 and section 2.3 (frequent words).

Axis legend: item, pair, negative, width, column (the output of a pair, then its negatives).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

MAX_DOT = 6
"""A pair whose vectors' product lies beyond is left as it is."""
N_SIGMOIDS = 1000


@dataclass(frozen=True, eq=False)
class Tables:
    """Input and output vectors `[item width]`; the input ones are the result."""

    inputs: Tensor
    outputs: Tensor

    @classmethod
    def fresh(cls, n_items: int, width: int, generator: torch.Generator) -> Tables:
        """Input vectors uniform in +-1/2 over the width, output vectors 0."""
        values = torch.rand(n_items, width, generator=generator)
        return cls((values - 0.5) / width, torch.zeros(n_items, width))


def sigmoids(n: int = N_SIGMOIDS) -> Tensor:
    """Sigmoids of `n` evenly spaced numbers from -6 on, below 6: `[n]` float32."""
    steps = torch.arange(n, dtype=torch.float64) / n
    return torch.sigmoid((steps * 2 - 1) * MAX_DOT).float()


def noise_table(counts: NDArray[np.integer], power: float, size: int) -> NDArray[np.int64]:
    """Rows to draw from evenly: each once where `power` is 0, else in the share of count^power.

    A row ends with the first place past its share, as in the released code, so that the first row
    has one too many and a rare last one may have none: take a `size` far above the number of rows.
    """
    n = len(counts)
    if power == 0:
        return np.arange(n)
    weights = counts.astype(np.float64) ** power
    shares = np.cumsum(weights / weights.sum())
    near = np.floor(shares * size)
    past = np.where(near / size > shares, near, near + 1).astype(np.int64)
    rows = np.arange(n)
    ends = np.maximum.accumulate(past - rows) + rows + 1
    ends[-1] = max(size, ends[-1])
    return np.repeat(rows, np.diff(np.concatenate([[0], ends])))[:size]


def keep_table(counts: NDArray[np.integer], sample: float) -> NDArray[np.uint32]:
    """The largest 32-bit draw at which a word stays; a frequent one goes more often.

    The share is `(sqrt(c / sN) + 1) sN / c` of a word that occurs c of N times; `sample` s = 0
    keeps all.
    """
    share = np.ones(len(counts))
    if sample > 0:
        threshold = sample * counts.sum()
        share = np.minimum(1, (np.sqrt(counts / threshold) + 1) * (threshold / counts))
    return np.round(share * np.iinfo(np.uint32).max).astype(np.uint32)


def update(
    tables: Tables, inputs: Tensor, outputs: Tensor, negatives: Tensor, rates: Tensor, table: Tensor
) -> tuple[Tensor, int]:
    """One step on `inputs [pair]`, `outputs [pair]`, `negatives [pair negative]` in place.

    `rates [pair]` are learning rates, `table` is `sigmoids()`. Column by column, each column's
    output vectors move at once and the input vectors after all; a draw that is the output itself
    and a product of `MAX_DOT` or more are left out. With one pair it is the released code's step;
    with several, pairs of one call read the same vectors. Returns the sum of the losses of what was
    used, and how many terms that are.
    """
    states = tables.inputs[inputs]
    total, n_used = states.new_zeros((), dtype=torch.float64), 0
    moved = torch.zeros_like(states)
    for column, ids in enumerate([outputs, *negatives.T]):
        others = tables.outputs[ids]
        products = (states * others).sum(1)
        used = products.abs() < MAX_DOT
        if column:
            used &= ids != outputs
        bins = (products.clamp(-MAX_DOT, MAX_DOT) + MAX_DOT) * (len(table) / MAX_DOT / 2)
        label = float(column == 0)
        slopes = (label - table[bins.long().clamp_max(len(table) - 1)]) * rates * used
        moved.addcmul_(slopes[:, None], others)
        tables.outputs.index_add_(0, ids, slopes[:, None] * states)
        losses = F.softplus(products if column else -products)
        total += (losses * used).sum(dtype=torch.float64)
        n_used += int(used.sum())
    tables.inputs.index_add_(0, inputs, moved)
    return total, n_used
