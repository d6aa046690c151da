"""Masked nodes: CoLAKE's masking of nodes, and the negatives of its entity loss.

Sun et al., COLING 2020, section 3.3: 15 % of the words, entities and relations are chosen; 80 % of
those are masked, 10 % replaced, 10 % left. Anchors outside the choice are predicted as well, mostly
unchanged. Where `mask_nodes` differs from the released code: each sample has a generator of its
own, where a fixed seed repeats the same places for ever; every node is chosen independently instead
of a quota of 15; nodes of one entity are corrupted alike; random replacements are never special
rows. `colake_masking` is the released behaviour.

Axis legend: batch, node, candidate.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import NodeKind

_ROBERTA_MASK_ID = 50264


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Sizes and shares; `n_words`, `n_entities`, `n_relations` count rows, special ones included.

    `special_word_ids` are never chosen. With `anchors`, anchors outside the choice are predicted as
    well, with masked and unchanged shares swapped (10 % masked, 10 % replaced, 80 % unchanged).
    """

    word_mask_id: int
    n_words: int
    n_entities: int
    n_relations: int
    special_word_ids: tuple[int, ...]
    probability: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    anchors: bool = True

    def __post_init__(self) -> None:
        faults = []
        if not 0 <= self.probability <= 1:
            faults.append(f"probability {self.probability}: from 0 to 1")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1:
            faults.append(
                f"mask_share {self.mask_share} + random_share {self.random_share}: from 0 to 1"
            )
        if not 0 <= self.word_mask_id < self.n_words:
            faults.append(f"word_mask_id {self.word_mask_id}: below n_words {self.n_words}")
        for name in ("n_entities", "n_relations"):
            if getattr(self, name) <= N_SPECIAL_ROWS:
                faults.append(f"{name} {getattr(self, name)}: more than {N_SPECIAL_ROWS}")
        if faults:
            raise ConfigError("MaskingConfig: " + "; ".join(faults))


def anchor_mask(batch: KnowledgeBatch) -> Tensor:
    """Entity nodes that a word sees, bool `[batch node]`."""
    is_word = (batch.node_kinds == NodeKind.WORD) & batch.node_mask
    visible_words = batch.visibility.seen_by(is_word)
    anchors: Tensor = visible_words & (batch.node_kinds == NodeKind.ENTITY) & batch.node_mask
    return anchors


def mask_nodes(
    batch: KnowledgeBatch, *, generators: Sequence[np.random.Generator], config: MaskingConfig
) -> KnowledgeBatch:
    """Return `batch` with masked nodes and `node_labels` (rows or word-piece ids, IGNORE
    elsewhere).

    One generator per sample (`kept.randomness.generator`); its masks do not depend on its
    neighbours in the batch or on padding. Mask first, pack afterwards. Nodes that another objective
    has labelled already keep their label and are left alone.
    """
    if len(generators) != len(batch):
        raise BatchError(f"{len(batch)} samples need as many generators, not {len(generators)}")
    ids, kinds = batch.node_ids.cpu().numpy(), batch.node_kinds.cpu().numpy()
    real, anchors = batch.node_mask.cpu().numpy(), anchor_mask(batch).cpu().numpy()
    new_ids, labels = ids.copy(), np.full_like(ids, IGNORE)
    if batch.node_labels is not None:
        labels = batch.node_labels.cpu().numpy().copy()
    for row, generator in enumerate(generators):
        nodes = np.flatnonzero(real[row])
        new_ids[row, nodes], row_labels = _mask_sample(
            ids[row, nodes],
            kinds[row, nodes],
            anchors[row, nodes],
            generator,
            config,
            free=labels[row, nodes] == IGNORE,
        )
        labels[row, nodes] = np.where(row_labels == IGNORE, labels[row, nodes], row_labels)
    device = batch.node_ids.device
    return batch.replace(
        node_ids=torch.from_numpy(new_ids).to(device),
        node_labels=torch.from_numpy(labels).to(device),
    )


def _mask_sample(
    ids: NDArray[np.int64],
    kinds: NDArray[np.int64],
    is_anchor: NDArray[np.bool_],
    generator: np.random.Generator,
    config: MaskingConfig,
    *,
    free: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """New ids and labels `[node]` of one sample without padding; only `free` nodes are chosen."""
    choice, action, replacement = generator.random((3, len(ids)))
    _share_by_entity(ids, kinds, choice, action, replacement)
    is_word = kinds == NodeKind.WORD
    special = np.array(config.special_word_ids, np.int64)
    allowed = free & np.where(is_word, ~np.isin(ids, special), ids >= N_SPECIAL_ROWS)
    is_chosen = allowed & (choice < config.probability)
    extra = allowed & ~is_chosen & is_anchor & config.anchors
    unchanged = 1 - config.mask_share - config.random_share
    mask_share = np.where(extra, unchanged, config.mask_share)
    is_target = is_chosen | extra
    masked = is_target & (action < mask_share)
    replaced = is_target & ~masked & (action < mask_share + config.random_share)
    low = np.where(is_word, 0, N_SPECIAL_ROWS)
    high = np.array([config.n_words, config.n_entities, config.n_relations])[kinds]
    other = low + (replacement * (high - low)).astype(np.int64)
    mask_id = np.where(is_word, config.word_mask_id, MASK_ROW)
    new_ids = np.where(masked, mask_id, np.where(replaced, other, ids))
    return new_ids, np.where(is_target, ids, IGNORE)


def _share_by_entity(
    ids: NDArray[np.int64], kinds: NDArray[np.int64], *draws: NDArray[np.float64]
) -> None:
    """Give all nodes of one entity the random numbers of its first node, in place."""
    nodes = np.flatnonzero(kinds == NodeKind.ENTITY)
    _, first, inverse = np.unique(ids[nodes], return_index=True, return_inverse=True)
    for values in draws:
        values[nodes] = values[nodes[first]][inverse]


def colake_masking(
    tokens: Sequence[int],
    *,
    mask_id: int,
    n_tokens: int,
    anchors: Collection[int] | None = None,
    probability: float = 0.15,
    max_predictions: int = 15,
) -> tuple[list[int], list[int]]:
    """The released masking of one kind of nodes of one sample: new ids, and labels (-1: none).

    A new random state of seed 2020 each call. At most `max_predictions` of `probability` of all
    tokens (rounded half to even, at least one) are chosen; with `anchors` (ids), every further
    anchor is predicted, 80 % unchanged. Ids 0 and 1 are never chosen, nor 2 and 3 when `mask_id` is
    RoBERTa's own.
    """
    draws = random.Random(2020)
    special = (0, 1, 2, 3) if mask_id == _ROBERTA_MASK_ID else (0, 1)
    candidates = [i for i, token in enumerate(tokens) if token not in special]
    draws.shuffle(candidates)
    quota = min(max_predictions, max(1, round(len(tokens) * probability)))
    new, labels = list(tokens), [-1] * len(tokens)
    for rank, i in enumerate(candidates):
        in_quota = rank < quota
        if not in_quota and (anchors is None or tokens[i] not in anchors):
            continue
        likely, unlikely = (mask_id, tokens[i]) if in_quota else (tokens[i], mask_id)
        if draws.random() < 0.8:
            new[i] = likely
        elif draws.random() < 0.5:
            new[i] = unlikely
        else:
            new[i] = draws.randint(0, n_tokens - 1)
        labels[i] = tokens[i]
    return new, labels


class EntitySampler:
    """Negatives for the masked-entity loss, from frequency^`power` (section 3.3).

    `frequencies [entity row]`; a row of frequency 0 (special rows) is never sampled.
    """

    def __init__(self, frequencies: Sequence[float] | NDArray[np.float64], *, power: float = 0.75):
        counts = np.asarray(frequencies, np.float64)
        if counts.ndim != 1 or not (counts >= 0).all() or not counts.sum() > 0:
            raise ConfigError("frequencies need one axis, no negative value and a positive sum")
        shares = (counts / counts.sum()) ** power
        shares = shares / shares.sum()
        self.probabilities = torch.from_numpy(shares.astype(np.float32))
        self._cumulative = np.cumsum(shares)
        self._last = int(np.flatnonzero(counts)[-1])

    def draw(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """`n` rows with replacement."""
        rows = np.searchsorted(self._cumulative, generator.random(n), side="right")
        return np.minimum(rows, self._last)

    def sample(self, gold_rows: Tensor, k: int, generator: np.random.Generator) -> Tensor:
        """Return distinct golds in order of appearance, then the distinct new rows of k samples per
        gold.

        IGNORE entries of `gold_rows` are left out; without any gold the result is [PAD_ROW].
        """
        golds = list(dict.fromkeys(gold_rows[gold_rows != IGNORE].tolist()))
        return merge_draws(golds, self.draw(k * len(golds), generator).tolist())

    def shared(
        self, gold_rows: Tensor, n: int, generator: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return distinct golds, then the distinct rows of `n` samples that all golds share, and
        the log of the chance `1 - (1 - q)^n` of each to be among these samples.

        It is infinite for golds that are not, so that they are negatives of none. Without any gold
        the result is [PAD_ROW] and [0].
        """
        golds = list(dict.fromkeys(gold_rows[gold_rows != IGNORE].tolist()))
        negatives = self.draw(n if golds else 0, generator)
        rows = merge_draws(golds, negatives.tolist())
        if not golds:
            return rows, torch.zeros(1)
        chance = self.probabilities[rows].double()
        shares = torch.log(-torch.expm1(n * torch.log1p(-chance)))
        is_drawn = torch.from_numpy(np.isin(rows.numpy(), negatives))
        return rows, shares.where(is_drawn, torch.inf).float()


def merge_draws(golds: Sequence[int], draws: Sequence[int]) -> Tensor:
    """Return golds, then samples, each once, in order, int64 `[candidate]`; [PAD_ROW] if empty."""
    rows = list(dict.fromkeys([*golds, *draws])) or [PAD_ROW]
    return torch.tensor(rows, dtype=torch.int64)
