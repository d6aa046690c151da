"""DKRL: entity vectors read from descriptions, beside TransE (Xie et al., AAAI 2016).

An entity has a *structure* vector of its own and a *description* vector that an encoder reads from
words, so entities unseen in training can be ranked. Four energies `||h + r - t||` share the
relation vectors: ss (structure, structure), dd (description, description), ds (description head,
structure tail), sd (structure head, description tail).

Axis legend: batch, entity, token, block, filter, width, candidate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from kept.errors import BatchError, ConfigError
from kept.evaluation.ranking import Direction, ScoresFunction, Triples
from kept.kge.resuming.epochs import run_epochs
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.training import NO_CANDIDATE, Sampler, contrast
from kept.kge.training_config import TrainingConfig

DKRL_RECIPE = TrainingConfig(
    n_epochs=30, batch_size=256, learning_rate=0.003, optimiser="adam",
    objective="negative_sampling", loss="cross_entropy", n_negatives=256, share_negatives=True,
    reject_known=True, relation_weight=1.0,
)  # fmt: skip
"""Works on graphs of some ten thousand triples; the paper's own loss is `loss="margin"`."""


class CnnEncoder(nn.Module):
    """The convolutional encoder (section 3.2.2), as the released program computes it.

    Convolution over `window` words without bias (words beyond the end add nothing); maximum over
    blocks of `block` positions, then tanh (before or after a maximum is the same); a convolution of
    window 1; mean over blocks; tanh.
    """

    def __init__(
        self,
        *,
        words: Tensor,
        width: int,
        n_filters: int,
        generator: torch.Generator,
        window: int = 2,
        block: int = 4,
    ) -> None:
        super().__init__()
        self.block = block
        self.words = nn.Parameter(words.clone())
        self.filters = nn.Parameter(_uniform(n_filters, window * words.shape[1], generator))
        self.output = nn.Parameter(_uniform(width, n_filters, generator))

    def forward(self, token_ids: Tensor, token_mask: Tensor) -> Tensor:
        """Ids and bool mask `[entity token]` (words first, then padding) -> `[entity width]`."""
        blocks, block_mask = self.pooled(token_ids, token_mask)
        sums = (blocks @ self.output.T).sum(1)
        return (sums / block_mask.sum(1, keepdim=True)).tanh()

    def pooled(self, token_ids: Tensor, token_mask: Tensor) -> tuple[Tensor, Tensor]:
        """States after the maximum and tanh `[entity block filter]`, mask `[entity block]`."""
        words = embedding(token_ids, self.words) * token_mask[..., None]
        window = self.filters.shape[1] // words.shape[2]
        n_token = -(-words.shape[1] // self.block) * self.block
        missing = n_token - words.shape[1]
        padded = nn.functional.pad(words, (0, 0, 0, missing + window - 1))
        joined = torch.cat([padded[:, i : i + n_token] for i in range(window)], -1)
        mask = nn.functional.pad(token_mask, (0, missing))
        states = (joined @ self.filters.T).masked_fill(~mask[..., None], -math.inf)
        blocks = states.view(len(words), -1, self.block, states.shape[2]).amax(2)
        block_mask = mask.view(len(words), -1, self.block).any(2)
        return blocks.masked_fill(~block_mask[..., None], 0).tanh(), block_mask


class CbowEncoder(nn.Module):
    """The mean of the keywords' vectors (section 3.2.1); `keywords` chooses them.

    Where words are not as wide as entities, a linear map without bias follows (not in the paper).
    """

    def __init__(self, *, words: Tensor, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.words = nn.Parameter(words.clone())
        self.project: nn.Module = nn.Identity()
        if words.shape[1] != width:
            self.project = nn.Linear(words.shape[1], width, bias=False)
            self.project.weight = nn.Parameter(_uniform(width, words.shape[1], generator))

    def forward(self, token_ids: Tensor, token_mask: Tensor) -> Tensor:
        """Ids and bool mask `[entity token]` -> `[entity width]`."""
        words = embedding(token_ids, self.words) * token_mask[..., None]
        states: Tensor = self.project(words.sum(1) / token_mask.sum(1, keepdim=True))
        return states


class DKRL(nn.Module):
    """Structure vectors, relation vectors and a description encoder.

    `norm` 1 is the released program's default; its other mode sums squares, here `norm=2`.
    """

    def __init__(
        self,
        *,
        n_entities: int,
        n_relations: int,
        width: int,
        encoder: CnnEncoder | CbowEncoder,
        generator: torch.Generator,
        norm: Literal[1, 2] = 1,
    ) -> None:
        super().__init__()
        self.n_entities, self.n_relations, self.norm = n_entities, n_relations, norm
        self.entities = nn.Parameter(_uniform(n_entities, width, generator))
        self.relations = nn.Parameter(_uniform(n_relations, width, generator))
        self.encoder = encoder

    def encode_descriptions(
        self, token_ids: Tensor, token_mask: Tensor, *, batch_size: int = 1024
    ) -> Tensor:
        """Description vectors `[entity width]` of ids and bool mask `[entity token]`.

        BatchError: an entity without any word.
        """
        empty = (~token_mask.any(1)).nonzero()[:, 0]
        if len(empty):
            raise BatchError(
                f"{len(empty)} entities have no word, the first is row {int(empty[0])}; "
                "give them their label or leave them out"
            )
        starts = range(0, len(token_ids), batch_size)
        blocks = [slice(start, start + batch_size) for start in starts]
        return torch.cat([self.encoder(token_ids[rows], token_mask[rows]) for rows in blocks])

    def distance(self, difference: Tensor) -> Tensor:
        """Energy of `h + r - t` `[... width]`: sum of absolute values, or of squares."""
        return (difference.abs() if self.norm == 1 else difference.square()).sum(-1)

    def distances(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Energies of all pairs `[batch candidate]`."""
        if self.norm == 1:
            return torch.cdist(queries, candidates, 1)
        products = queries @ candidates.T
        return queries.square().sum(1, keepdim=True) - 2 * products + candidates.square().sum(1)

    def energies(self, triples: Tensor, descriptions: Tensor) -> Tensor:
        """Energies ss, dd, ds, sd `[batch 4]` of triples `[batch 3]`, descriptions of all."""
        head, relation, tail = triples.unbind(1)
        states = embedding(relation, self.relations)
        pairs = _pairs(self.entities, descriptions)
        return torch.stack([self.distance(h[head] + states - t[tail]) for h, t in pairs], 1)

    def ranker(self, descriptions: Tensor, seen_mask: Tensor | None) -> ScoresFunction:
        """Scores for `kept.evaluation.ranking.rank`, from descriptions of all entities.

        `seen_mask` None: dd alone, as the released evaluation. Bool `[entity]`: all four energies,
        with an unseen entity's description as its structure vector.
        """
        pairs = [(descriptions, descriptions)]
        if seen_mask is not None:
            structures = torch.where(seen_mask[:, None], self.entities, descriptions)
            pairs = _pairs(structures, descriptions)

        def scores(direction: Direction, triples: Tensor, /) -> Tensor:
            return torch.stack([self._scores(direction, triples, h, t) for h, t in pairs]).sum(0)

        return scores

    def _scores(
        self, direction: Direction, triples: Tensor, head_states: Tensor, tail_states: Tensor
    ) -> Tensor:
        head, relation, tail = triples.to(self.entities.device).unbind(1)
        if direction == "head":
            queries, candidates = tail_states[tail] - self.relations[relation], head_states
        elif direction == "tail":
            queries, candidates = head_states[head] + self.relations[relation], tail_states
        else:
            queries, candidates = tail_states[tail] - head_states[head], self.relations
        return -self.distances(queries, candidates)


def train_dkrl(
    model: DKRL,
    triples: Triples,
    token_ids: Tensor,
    token_mask: Tensor,
    *,
    config: TrainingConfig,
    generator: torch.Generator,
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> tuple[float, ...]:
    """Train in place by mini-batches; returns the mean loss of each epoch.

    Each of the four energies has a loss of its own, added up as in the released program. Where we
    differ: negatives are entities of the same batch (their descriptions are encoded already),
    shared by it, on both sides; the relation's negatives are all other relations; Adam or Adagrad.
    `unit_entities` scales vectors longer than 1 back to 1 after each step (the paper's constraint).
    Shapes: `triples [triple 3]`, `token_ids`, `token_mask [entity token]` of all entities.
    """
    if config.objective != "negative_sampling" or not config.share_negatives:
        raise ConfigError("DKRL trains with objective negative_sampling and share_negatives")
    data = torch.as_tensor(np.array(triples, np.int64), device=model.entities.device)
    sampler = Sampler(data, model.n_entities, model.n_relations, config)

    def loss_of(rows: Tensor) -> Tensor:
        return _batch_loss(model, data[rows], token_ids, token_mask, sampler, generator)

    shorten = partial(_shorten, model) if config.unit_entities else lambda: None
    return run_epochs(
        model,
        len(data),
        loss_of,
        config=config,
        generator=generator,
        snapshots=snapshots,
        on_epoch=on_epoch,
        after_step=shorten,
    ).losses


def keywords(documents: Sequence[Sequence[int]], n: int) -> list[list[int]]:
    """The `n` words of each document with the highest TF-IDF, best first; ties by word id.

    >>> keywords([[1, 1, 2], [2, 3]], 1)
    [[1], [3]]
    """
    n_documents = Counter(word for document in documents for word in dict.fromkeys(document))
    words_chosen = []
    for document in documents:
        weights = {
            word: count * math.log(len(documents) / n_documents[word])
            for word, count in Counter(document).items()
        }
        words_chosen.append(sorted(weights, key=lambda word: (-weights[word], word))[:n])
    return words_chosen


def _batch_loss(
    model: DKRL,
    batch: Tensor,
    token_ids: Tensor,
    token_mask: Tensor,
    sampler: Sampler,
    generator: torch.Generator,
) -> Tensor:
    config = sampler.config
    present, inverse = torch.unique(batch[:, [0, 2]], return_inverse=True)
    descriptions = model.encode_descriptions(token_ids[present], token_mask[present])
    structures = embedding(present, model.entities)
    relation = embedding(batch[:, 1], model.relations)
    sampled = torch.randint(len(present), (config.n_negatives,), generator=generator)
    sampled = sampled.to(batch.device)
    gold = torch.zeros(len(batch), model.n_relations, dtype=torch.bool, device=batch.device)
    gold[torch.arange(len(batch)), batch[:, 1]] = True
    total = relation.new_zeros(())
    for head_states, tail_states in _pairs(structures, descriptions):
        head, tail = head_states[inverse[:, 0]], tail_states[inverse[:, 1]]
        positive = -model.distance(head + relation - tail)
        heads = -model.distances(tail - relation, head_states[sampled])
        tails = -model.distances(head + relation, tail_states[sampled])
        relations = -model.distances(tail - head, model.relations).masked_fill(gold, -NO_CANDIDATE)
        for negative, weight in (
            (sampler.without_known(heads, batch, present[sampled], 0), 1.0),
            (sampler.without_known(tails, batch, present[sampled], 2), 1.0),
            (relations, config.relation_weight),
        ):
            losses = contrast(
                positive,
                negative,
                loss=config.loss,
                margin=config.margin,
                temperature=config.adversarial_temperature,
            )
            total = total + weight * losses.mean()
    return total


def _pairs(structures: Tensor, descriptions: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Head and tail states of the energies ss, dd, ds, sd."""
    return [
        (structures, structures),
        (descriptions, descriptions),
        (descriptions, structures),
        (structures, descriptions),
    ]


def _shorten(model: DKRL) -> None:
    with torch.no_grad():
        for table in (model.entities, model.relations, model.encoder.words):
            table.div_(table.norm(dim=1, keepdim=True).clamp_min(1))


def _uniform(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    bound = math.sqrt(3 / columns)  # rows of length about 1
    return torch.empty(rows, columns).uniform_(-bound, bound, generator=generator)
