"""Training of triple scorers: negative sampling or 1-vs-all, deterministic under a generator.

Axis legend: batch, negative, entity, triple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, logsigmoid

from kept.batches.host_copies import moved, on_host
from kept.errors import ConfigError
from kept.evaluation.ranking import Triples
from kept.kge.all_entities_loss import mean_cross_entropy
from kept.kge.comparisons import rows_of_all, rows_with_summed_gradient
from kept.kge.resuming.epochs import TrainingHistory, run_epochs
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.scorers import Scorer
from kept.kge.training_config import Loss, TrainingConfig

NO_CANDIDATE = -1e9  # finite, so that a row without any negative stays finite too
_SIDES: tuple[Literal["head", "tail"], ...] = ("head", "tail")


def train(
    scorer: Scorer,
    triples: Triples,
    *,
    config: TrainingConfig,
    generator: torch.Generator,
    validate: Callable[[Scorer], float] | None = None,
    state: dict[str, Any] | None = None,
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> TrainingHistory:
    """Train `scorer` in place on `triples` int `[triple 3]`; on CPU equal seeds give equal bits.

    `validate` (say, MRR) is called every `validate_every` epochs; with `patience` n the run stops
    after n validations without a better value. After validations, the best weights are restored at
    the end. `state` of an earlier history resumes it, and a run that was cut goes on from its last
    of `snapshots`. ConfigError: no triples, or a loss that is not finite.
    """
    if not len(triples):
        raise ConfigError("there are no triples to train on")
    data, device = torch.as_tensor(np.array(triples, np.int64)), scorer.entities.device
    sampler = Sampler(data.to(device), scorer.n_entities, scorer.n_relations, config)

    def loss_of(rows: Tensor) -> Tensor:
        return batch_loss(scorer, moved(data[rows], device), sampler, config, generator)

    return run_epochs(
        scorer,
        len(data),
        loss_of,
        config=config,
        generator=generator,
        state=state,
        snapshots=snapshots,
        on_epoch=on_epoch,
        validate=None if validate is None else lambda: validate(scorer),
        before_epoch=partial(_to_unit_length, scorer) if config.unit_entities else lambda: None,
    )


def contrast(
    positive: Tensor, negative: Tensor, *, loss: Loss, margin: float, temperature: float
) -> Tensor:
    """Losses `[batch]` of `positive [batch]` against `negative [batch negative]` scores.

    margin: `mean_j max(0, margin - s + s_j)` (Bordes et al. 2013, equation 1). log_sigmoid:
    `-log sig(margin + s) - sum_j w_j log sig(-margin - s_j)` (Sun et al. 2019, equations 4 to 6).
    cross_entropy: the positive against all its negatives. `w` is even, or softmax(temperature *
    s_j) without gradient where temperature > 0.
    """
    if loss == "cross_entropy":
        return torch.cat([positive[:, None], negative], 1).logsumexp(1) - positive
    if temperature > 0:
        weights = (temperature * negative.detach()).softmax(1)
    else:
        weights = torch.full_like(negative, 1 / negative.shape[1])
    if loss == "margin":
        return (weights * (margin - positive[:, None] + negative).relu()).sum(1)
    return -logsigmoid(margin + positive) - (weights * logsigmoid(-margin - negative)).sum(1)


@dataclass(frozen=True, eq=False)
class Corruption:
    """The triples of a batch whose head is replaced, then those whose tail is.

    `rows [row]` of the batch (in host memory), `sizes` of the two parts, and for each part the
    `entities`, shared
    `[negative]` or `[row negative]`.
    """

    rows: Tensor
    sizes: list[int]
    entities: list[Tensor]


class Sampler:
    """Samples corrupted sides and entities for one training set."""

    def __init__(
        self, triples: Tensor, n_entities: int, n_relations: int, config: TrainingConfig
    ) -> None:
        self.n_entities, self.n_relations, self.config = n_entities, n_relations, config
        self.tail_chance = torch.full((n_relations,), 0.5)
        if config.corrupt == "bernoulli":
            self.tail_chance = tail_chances(triples, n_relations)
        self._known = self._keys(triples).sort().values if config.reject_known else None

    def corrupts_tail(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Bool `[batch]` in host memory: replace the tail (else the head)."""
        chance = torch.rand(len(batch), generator=generator)
        return chance < self.tail_chance[on_host(batch)[:, 1]]

    def corruption(self, batch: Tensor, generator: torch.Generator) -> Corruption:
        """What replaces heads and tails of a batch `[batch 3]`."""
        if self.config.corrupt == "both":
            sides = [torch.arange(len(batch))] * 2
        else:
            tail_side = self.corrupts_tail(batch, generator)
            sides = [side.nonzero()[:, 0] for side in (~tail_side, tail_side)]  # in host memory
        sampled = [self.entities(len(rows), generator, batch.device) for rows in sides]
        return Corruption(torch.cat(sides), [len(side) for side in sides], sampled)

    def entities(self, n_batch: int, generator: torch.Generator, device: torch.device) -> Tensor:
        """Entity ids `[negative]` where the batch shares them, else `[batch negative]`."""
        n = self.config.n_negatives
        shape = (n,) if self.config.share_negatives else (n_batch, n)
        return moved(torch.randint(self.n_entities, shape, generator=generator), device)

    def without_known(self, scores: Tensor, batch: Tensor, sampled: Tensor, slot: int) -> Tensor:
        """`scores [batch negative]`, with those of training triples masked, if so configured."""
        if self._known is None:
            return scores
        corrupted = batch[:, None].expand(-1, scores.shape[1], -1).clone()
        corrupted[..., slot] = sampled
        keys = self._keys(corrupted)
        position = torch.searchsorted(self._known, keys).clamp_max(len(self._known) - 1)
        return scores.masked_fill(self._known[position] == keys, NO_CANDIDATE)

    def _keys(self, triples: Tensor) -> Tensor:
        head, relation, tail = triples.unbind(-1)
        return (head * self.n_relations + relation) * self.n_entities + tail


def tail_chances(triples: Tensor, n_relations: int) -> Tensor:
    """Chance `[relation]` of replacing the tail (Wang et al., AAAI 2014, section 3.4).

    heads per tail / (tails per head + heads per tail); one half for a relation without triples.
    """

    def distinct(*slots: int) -> NDArray[np.int64]:
        rows = np.unique(triples.cpu().numpy()[:, slots], axis=0)
        return np.maximum(np.bincount(rows[:, 0], minlength=n_relations), 1)

    n = distinct(1, 0, 2)
    tails_per_head, heads_per_tail = n / distinct(1, 0), n / distinct(1, 2)
    return torch.from_numpy(heads_per_tail / (tails_per_head + heads_per_tail))


@torch.no_grad()
def _to_unit_length(scorer: Scorer) -> None:
    scorer.entities.div_(scorer.entities.norm(dim=1, keepdim=True).clamp_min(1e-12))


def batch_loss(
    scorer: Scorer,
    batch: Tensor,
    sampler: Sampler,
    config: TrainingConfig,
    generator: torch.Generator,
) -> Tensor:
    """Mean loss of one batch of triples `[batch 3]`."""
    head, relation, tail = batch.unbind(1)
    ends = torch.stack([head, tail])
    if config.objective == "one_vs_all":
        (heads, tails), entities = rows_with_summed_gradient(scorer.entities, ends)
        states = (heads, embedding(relation, scorer.relations), tails)
        loss = mean_cross_entropy(scorer.tails(states[0], states[1], entities), ends[1])
        loss = loss + mean_cross_entropy(scorer.heads(states[1], states[2], entities), ends[0])
    else:
        corruption = sampler.corruption(batch, generator)
        if config.share_negatives:
            (heads, tails), *candidates = rows_of_all(scorer.entities, ends, *corruption.entities)
            states = (heads, embedding(relation, scorer.relations), tails)
            against = partial(_loss_against_shared, scorer, candidates)
        else:
            (heads, tails), entities = rows_with_summed_gradient(scorer.entities, ends)
            states = (heads, embedding(relation, scorer.relations), tails)
            against = partial(_loss_against_sampled, scorer, entities)
        loss = _sampled_loss(against, batch, states, corruption, sampler, config)
    if config.relation_weight:
        scores = scorer.relations_between(states[0], states[2], scorer.relations)
        loss = loss + config.relation_weight * mean_cross_entropy(scores, relation)
    if config.n3_weight:
        cubes = torch.stack([scorer.moduli(part).pow(3).sum() for part in states]).sum()
        loss = loss + config.n3_weight * cubes / len(batch)
    return loss


def _sampled_loss(
    against: Callable[[Tensor, list[Tensor], Corruption], tuple[Tensor, Tensor]],
    batch: Tensor,
    states: tuple[Tensor, Tensor, Tensor],
    corruption: Corruption,
    sampler: Sampler,
    config: TrainingConfig,
) -> Tensor:
    rows, sizes = moved(corruption.rows, batch.device), corruption.sizes
    ordered = batch[rows]
    positive, scores = against(ordered, [part.index_select(0, rows) for part in states], corruption)
    parts = zip(
        torch.split(scores, sizes),
        torch.split(ordered, sizes),
        corruption.entities,
        (0, 2),
        strict=True,
    )
    losses = contrast(
        positive,
        torch.cat([sampler.without_known(*part) for part in parts]),
        loss=config.loss,
        margin=config.margin,
        temperature=config.adversarial_temperature,
    )
    return losses.sum() / len(batch)


def _loss_against_shared(
    scorer: Scorer,
    candidates: list[Tensor],
    triples: Tensor,
    states: list[Tensor],
    corruption: Corruption,
) -> tuple[Tensor, Tensor]:
    """Scores `[row]`, `[row negative]`; the first rows corrupt the head, others the tail."""
    head, relation, tail = (torch.split(part, corruption.sizes) for part in states)
    positive = [
        scorer.score_for(side, head[i], relation[i], tail[i]) for i, side in enumerate(_SIDES)
    ]
    heads = scorer.heads(relation[0], tail[0], candidates[0])
    tails = scorer.tails(head[1], relation[1], candidates[1])
    return torch.cat(positive), torch.cat([heads, tails])


def _loss_against_sampled(
    scorer: Scorer, entities: Tensor, triples: Tensor, states: list[Tensor], corruption: Corruption
) -> tuple[Tensor, Tensor]:
    """The same where every row has its own samples, its answer the first of them."""
    no_heads, no_tails = torch.split(triples, corruption.sizes)
    answers = torch.cat([no_heads[:, 0], no_tails[:, 2]])
    ids = torch.cat([answers[:, None], torch.cat(corruption.entities)], 1)
    head, relation, tail = states
    scores = scorer.corrupted(head, relation, tail, entities, ids, corruption.sizes[0])
    return scores[:, 0], scores[:, 1:]
