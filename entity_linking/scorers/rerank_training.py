"""The training of `Reranker`: Adam on the cross-entropy of each mention's list, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from entity_linking.errors import LinkingError
from entity_linking.parts import Scores
from entity_linking.scorers.candidate_rows import Ints
from entity_linking.scorers.rerank_logits import joined, log_shares, relative_logits
from entity_linking.scorers.rerank_parts import RerankRecord, RerankSettings, Weights, standard
from entity_linking.scorers.rerank_table import RerankTable, targets


def train_weights(
    train: RerankTable, held_out: RerankTable, settings: RerankSettings
) -> tuple[Weights, RerankRecord]:
    """The weights of the epochs with the lowest held-out loss; no global random state is touched.

    Of several networks the record has the first one's epoch and the losses of all together.
    """
    moments = {**_moments(train.candidates, "candidate"), **_moments(train.mentions, "mention")}
    sides = [_Side(table, moments, settings.absent) for table in (train, held_out)]
    for name, side in zip(("training", "held-out"), sides, strict=True):
        if not len(side.mentions):
            raise LinkingError(f"the {name} texts hold no mention with a candidate to learn from")
    fitted = [_train(sides, settings, number) for number in range(settings.networks)]
    weights = joined(moments, [network.weights for network in fitted])
    _, best_epoch, loss, held_out_loss = fitted[0]
    if settings.networks > 1:
        loss, held_out_loss = (
            _mean_loss(side, log_shares(relative_logits(weights, table), table.rows))
            for side, table in zip(sides, (train, held_out), strict=True)
        )
    record = RerankRecord(
        settings=settings,
        graph_hash="",
        trained_on="",
        n_mentions=len(sides[0].mentions),
        n_nil=int((sides[0].gold[sides[0].mentions] == -1).sum()),
        n_held_out=len(sides[1].mentions),
        best_epoch=best_epoch,
        train_loss=loss,
        held_out_loss=held_out_loss,
    )
    return weights, record


class _Fitted(NamedTuple):
    weights: Weights
    best_epoch: int
    train_loss: float
    held_out_loss: float


def _train(sides: Sequence[_Side], settings: RerankSettings, number: int) -> _Fitted:
    """A network that begins where its number says; the first as one alone does."""
    rng = np.random.default_rng([settings.seed, number] if number else settings.seed)
    ranker = _Ranker(*sides[0].widths, settings.hidden, rng)
    optimiser = torch.optim.AdamW(
        ranker.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    best = _Fitted(ranker.arrays(), 0, np.inf, np.inf)
    for epoch in range(1, settings.epochs + 1):
        loss = _epoch(ranker, optimiser, sides[0], settings.mentions_per_step, rng)
        held_out_loss = _loss(ranker, sides[1], settings.mentions_per_step)
        if held_out_loss < best.held_out_loss:
            best = _Fitted(ranker.arrays(), epoch, loss, held_out_loss)
        elif epoch - best.best_epoch >= settings.patience:
            break
    return best


def _mean_loss(side: _Side, shares: tuple[Scores, Scores]) -> float:
    """The mean cross-entropy of the gold of a side by logarithms of shares."""
    candidates, nil = shares
    gold = side.gold[side.mentions]
    rows = side.offsets[side.mentions] + np.maximum(gold, 0)
    return float(-np.where(gold < 0, nil[side.mentions], candidates[rows]).mean())


class _Side:
    """A table as standardised tensors; `mentions` are those that teach."""

    def __init__(self, table: RerankTable, moments: Weights, absent: str) -> None:
        self.gold = targets(table.rows, absent=absent)
        self.mentions = np.flatnonzero(self.gold >= -1)
        self.offsets, self._sizes = table.rows.offsets, table.rows.sizes
        self.widths = table.candidates.shape[1], table.mentions.shape[1]
        self._candidates = _tensor(standard(table.candidates, moments, "candidate"))
        self._of_mention = _tensor(standard(table.mentions, moments, "mention"))

    def batch(self, mentions: Ints) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`x [mention candidate feature]`, `g [mention feature]`, mask, and gold with NIL first."""
        sizes = self._sizes[mentions]
        position = np.arange(int(sizes.max()))
        mask = position < sizes[:, None]
        rows = np.where(mask, self.offsets[mentions][:, None] + position, 0)
        g = self._of_mention[torch.from_numpy(mentions)]
        x = self._candidates[torch.from_numpy(rows)]
        x = torch.cat([x, g[:, None].expand(-1, x.shape[1], -1)], dim=-1)
        return x, g, torch.from_numpy(mask), torch.from_numpy(self.gold[mentions] + 1)


class _Ranker(nn.Module):
    """The two networks of the re-ranker; the hidden layers begin without effect."""

    def __init__(self, n_own: int, n_shared: int, hidden: int, rng: np.random.Generator) -> None:
        super().__init__()
        shapes = {"candidate": n_own + n_shared, "nil": n_shared}
        arrays = {"nil.bias": np.zeros(1)}
        for kind, width in shapes.items():
            arrays[f"{kind}.inner"] = rng.normal(size=(width, hidden)) / np.sqrt(width)
            arrays[f"{kind}.inner_bias"] = np.zeros(hidden)
            arrays[f"{kind}.outer"] = np.zeros(hidden)
            arrays[f"{kind}.linear"] = np.zeros(width)
        self.weights = nn.ParameterDict(
            {name.replace(".", "/"): nn.Parameter(_tensor(value)) for name, value in arrays.items()}
        )

    def arrays(self) -> Weights:
        return {
            name.replace("/", "."): value.detach().numpy().astype(np.float64)
            for name, value in self.weights.items()
        }

    def forward(self, x: Tensor, g: Tensor, mask: Tensor) -> Tensor:
        """Logits `[mention 1+candidate]`, NIL first."""
        logits = self._logits(x, "candidate").masked_fill(~mask, -torch.inf)
        nil = self._logits(g, "nil") + self.weights["nil/bias"]
        return torch.cat([nil[:, None], logits], dim=1)

    def _logits(self, x: Tensor, kind: str) -> Tensor:
        w = self.weights
        inner = torch.tanh(x @ w[f"{kind}/inner"] + w[f"{kind}/inner_bias"])
        logits: Tensor = x @ w[f"{kind}/linear"] + inner @ w[f"{kind}/outer"]
        return logits


def _epoch(
    ranker: _Ranker,
    optimiser: torch.optim.Optimizer,
    side: _Side,
    n_a_step: int,
    rng: np.random.Generator,
) -> float:
    """One pass in a drawn order; the mean loss on the way."""
    total = 0.0
    for mentions in _steps(rng.permutation(side.mentions), n_a_step):
        x, g, mask, gold = side.batch(mentions)
        loss = nn.functional.cross_entropy(ranker(x, g, mask), gold)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        total += loss.item() * len(mentions)
    return total / len(side.mentions)


@torch.no_grad()
def _loss(ranker: _Ranker, side: _Side, n_a_step: int) -> float:
    total = 0.0
    for mentions in _steps(side.mentions, n_a_step):
        x, g, mask, gold = side.batch(mentions)
        total += nn.functional.cross_entropy(ranker(x, g, mask), gold, reduction="sum").item()
    return total / len(side.mentions)


def _steps(mentions: Ints, n_a_step: int) -> Iterator[Ints]:
    for start in range(0, len(mentions), n_a_step):
        yield mentions[start : start + n_a_step]


def _moments(values: Scores, kind: str) -> Weights:
    """Mean and deviation of each column; a column that never changes is divided by 1."""
    if not len(values):
        return {
            f"{kind}.mean": np.zeros(values.shape[1]),
            f"{kind}.deviation": np.ones(values.shape[1]),
        }
    deviation = values.std(axis=0)
    return {
        f"{kind}.mean": values.mean(axis=0),
        f"{kind}.deviation": np.where(deviation > 1e-9, deviation, 1.0),
    }


def _tensor(values: Scores) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))
