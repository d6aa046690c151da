"""BERT-MK's knowledge vectors: a transformer over the subgraph around each entity.

He, Zhou, Xiao, Jiang, Liu, Yuan and Xu 2020, "BERT-MK: Integrating Graph Contextualized Knowledge
into Pre-trained Language Models" (Findings of EMNLP; arXiv 1912.00147), section 2: entities and
relations of a subgraph are one sequence of nodes, each of which sees its neighbours alone; triples
must follow from the states by translation. The fusion with text is ERNIE's. No code was released;
what the paper leaves open, and what is chosen here: docs/decisions/0025.

Axis legend: entity, triple, batch (subgraphs), node (of a sequence), slot (a triple of a subgraph),
width.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from kept.errors import ConfigError, TrainingError
from kept.evaluation.ranking import Triples
from kept.kge.resuming.epochs import TrainingHistory, run_epochs
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.scorers import Scorer, make_scorer
from kept.kge.splits import Splits
from kept.kge.training import contrast, train
from kept.kge.training_config import BERTMKRecipe

NONE = -1


class Subgraphs:
    """The triples around each entity: up to `n_each` that lead to it, and as many from it.

    A sequence is `s1 r1 s2 r2 ... entity r1 o1 r2 o2 ...`, each place filled or empty (-1); numbers
    of relations follow those of entities. `slots [slot 3]` are the places of head, relation and
    tail of every triple, `neighbours [node node]` which places a triple joins (and each itself).
    """

    def __init__(self, triples: Triples, *, n_entities: int, n_each: int) -> None:
        self.n_entities, self.n_each, self.centre = n_entities, n_each, 2 * n_each
        rows = np.asarray(triples, np.int64).reshape(-1, 3)
        self._sides = [_Grouped(rows, by=2, n=n_entities), _Grouped(rows, by=0, n=n_entities)]
        head_columns = torch.arange(n_each) * 2
        into = torch.stack(
            [head_columns, head_columns + 1, torch.full_like(head_columns, self.centre)], 1
        )
        out = torch.stack(
            [
                torch.full_like(head_columns, self.centre),
                self.centre + 1 + head_columns,
                self.centre + 2 + head_columns,
            ],
            1,
        )
        self.slots = torch.cat([into, out])
        self.n_nodes = 2 * self.centre + 1
        self.neighbours = torch.eye(self.n_nodes, dtype=torch.bool)
        for head, relation, tail in self.slots.tolist():
            for one, other in ((head, relation), (relation, tail)):
                self.neighbours[one, other] = self.neighbours[other, one] = True

    def nodes(
        self, entities: Int[Tensor, " batch"], draws: torch.Generator
    ) -> Int[Tensor, "batch node"]:
        """The sequences of these entities; some triples are drawn where there is no room."""
        neighbours = torch.full((len(entities), self.n_nodes), NONE)
        neighbours[:, self.centre] = entities
        starts = (0, self.centre + 1)
        for side, start, other in zip(self._sides, starts, (0, 2), strict=True):
            rows = side.sample(entities, self.n_each, draws)
            there = rows[..., 0] != NONE
            relation = torch.where(there, rows[..., 1] + self.n_entities, NONE)
            pair = [rows[..., other], relation] if other == 0 else [relation, rows[..., other]]
            stop = start + 2 * self.n_each
            neighbours[:, start:stop] = torch.stack(pair, 2).flatten(1)
        return neighbours


class _Grouped:
    """Triples by one of their ends."""

    def __init__(self, rows: NDArray[np.int64], *, by: int, n: int) -> None:
        order = np.argsort(rows[:, by], kind="stable")
        self.rows = torch.from_numpy(rows[order])
        self.offsets = torch.from_numpy(np.searchsorted(rows[order, by], np.arange(n + 1)))

    def sample(self, ids: Tensor, n: int, draws: torch.Generator) -> Tensor:
        """Up to `n` different triples of each id, in a drawn order, then -1: `[batch n 3]`."""
        begin, size = self.offsets[ids], self.offsets[ids + 1] - self.offsets[ids]
        negatives = torch.full((len(ids), n, 3), NONE)
        for i, (first, count) in enumerate(zip(begin.tolist(), size.tolist(), strict=True)):
            order = torch.randperm(count, generator=draws)[:n] if count > n else torch.arange(count)
            negatives[i, : len(order)] = self.rows[first + order]
        return negatives


class KGTransformer(nn.Module):
    """Vectors of entities and relations, and layers of attention over a subgraph's nodes."""

    def __init__(
        self,
        entities: Tensor,
        relations: Tensor,
        *,
        n_layers: int,
        n_heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        width = entities.shape[1]
        if width % n_heads:
            raise ConfigError(f"width {width} is not a multiple of {n_heads} heads")
        self.nodes = nn.Parameter(torch.cat([entities, relations]))
        self.layers = nn.ModuleList(_Layer(width, n_heads, generator) for _ in range(n_layers))

    def forward(
        self, nodes: Int[Tensor, "batch node"], neighbours: Bool[Tensor, "node node"]
    ) -> Float[Tensor, "batch node width"]:
        """States of all nodes; those of empty places are meaningless and seen by none."""
        there = nodes != NONE
        states = F.embedding(nodes.clamp_min(0), self.nodes)
        itself = torch.eye(nodes.shape[1], dtype=torch.bool)
        visible = neighbours & there[:, None, :] & there[:, :, None] | itself
        for layer in self.layers:
            states = layer(states, visible)
        return states


class _Layer(nn.Module):
    """Attention and a feed-forward map, each added and normalised (Vaswani et al. 2017)."""

    def __init__(self, width: int, n_heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        with torch.no_grad():
            for linear in (self.inner, self.outer, self.wide, self.narrow):
                bound = math.sqrt(3 / linear.in_features) / 2
                linear.weight.uniform_(-bound, bound, generator=generator)
                linear.bias.zero_()

    def forward(self, states: Tensor, visible: Tensor) -> Tensor:
        """`states [batch node width]`, `visible [batch node node]`."""
        heads = self.inner(states).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        read = F.scaled_dot_product_attention(query, key, value, attn_mask=visible[:, None])
        states = self.norms[0](states + self.outer(read.transpose(1, 2).flatten(2)))
        result: Tensor = self.norms[1](states + self.narrow(F.gelu(self.wide(states))))
        return result


def reconstruction_losses(
    states: Float[Tensor, "batch node width"],
    nodes: Int[Tensor, "batch node"],
    subgraphs: Subgraphs,
    corrupts_tail: Bool[Tensor, "batch slot"],
    corrupted: Int[Tensor, "batch slot"],
    margin: float,
) -> Float[Tensor, " triple"]:
    """`max(0, margin + |h + r - t| - |h' + r - t'|)` of each triple that is there.

    The corrupted side is the entity in the middle of another subgraph of the batch, `corrupted`.
    """
    there = (nodes[:, subgraphs.slots] != NONE).all(-1)
    head, relation, tail = states[:, subgraphs.slots].unbind(2)
    other = states[corrupted, subgraphs.centre]
    right = (head + relation - tail)[there].norm(dim=-1)
    side = corrupts_tail[..., None]
    wrong = torch.where(side, head + relation - other, other + relation - tail)[there].norm(dim=-1)
    return contrast(-right, -wrong[:, None], loss="margin", margin=margin, temperature=0.0)


def train_bertmk(
    splits: Splits,
    recipe: BERTMKRecipe,
    *,
    generator: torch.Generator,
    validate: Callable[[Scorer], float],
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> tuple[Scorer, TrainingHistory]:
    """A TransE of the trained states of all entities and relations, and the history.

    The first vectors are a TransE's, trained by `recipe.transe` (anew where a run that was cut goes
    on). Raises `ConfigError` without triples or for a width that the heads do not divide,
    `TrainingError` for a loss that is not finite.
    """
    n_entities, n_relations = splits.graph.n_entities, splits.graph.n_relations
    scorer = make_scorer(
        "transe",
        n_entities=n_entities,
        n_relations=n_relations,
        width=recipe.width,
        generator=generator,
    )
    train(scorer, splits.train, config=recipe.transe, generator=generator)
    model = KGTransformer(
        scorer.entities.detach(),
        scorer.relations.detach(),
        n_layers=recipe.n_layers,
        n_heads=recipe.n_heads,
        generator=generator,
    )
    subgraphs = Subgraphs(splits.train, n_entities=n_entities, n_each=recipe.n_each)
    trained_entities = torch.from_numpy(np.unique(splits.train[:, [0, 2]]).astype(np.int64))

    def now() -> Scorer:
        return contextual(model, subgraphs, n_relations, recipe.width)

    history = run_epochs(
        model,
        len(trained_entities),
        lambda rows: _loss(model, trained_entities[rows], subgraphs, recipe, generator),
        config=recipe.config,
        generator=generator,
        snapshots=snapshots,
        on_epoch=on_epoch,
        validate=lambda: validate(now()),
        error=TrainingError,
    )
    return now(), history


def _loss(
    model: KGTransformer,
    entities: Tensor,
    subgraphs: Subgraphs,
    recipe: BERTMKRecipe,
    generator: torch.Generator,
) -> Tensor:
    """Mean over the triples of the subgraphs around `entities [batch]`."""
    nodes = subgraphs.nodes(entities, generator)
    shape = (len(entities), len(subgraphs.slots))
    tail = torch.rand(shape, generator=generator) < 0.5
    others = torch.randint(len(entities), shape, generator=generator)
    states = model(nodes, subgraphs.neighbours)
    losses = reconstruction_losses(states, nodes, subgraphs, tail, others, recipe.config.margin)
    mean: Tensor = losses.mean()
    return mean


@torch.no_grad()
def contextual(
    model: KGTransformer, subgraphs: Subgraphs, n_relations: int, width: int, at_once: int = 1024
) -> Scorer:
    """A TransE of the state of each entity in its own subgraph, and of each relation's mean state.

    Subgraphs are drawn by a fixed seed. A relation without triples keeps its first vector.
    """
    n, draws = subgraphs.n_entities, torch.Generator().manual_seed(0)
    sums = torch.zeros(n_relations, width + 1)
    parts = []
    for ids in torch.split(torch.arange(n), at_once):
        nodes = subgraphs.nodes(ids, draws)
        states = model(nodes, subgraphs.neighbours)
        parts.append(states[:, subgraphs.centre])
        relation_rows = nodes[nodes >= n] - n
        sums.index_add_(0, relation_rows, F.pad(states[nodes >= n], (0, 1), value=1.0))
    means = sums[:, :-1] / sums[:, -1:].clamp_min(1)
    scorer = make_scorer(
        "transe", n_entities=n, n_relations=n_relations, width=width, generator=torch.Generator()
    )
    scorer.entities.copy_(torch.cat(parts))
    scorer.relations.copy_(torch.where(sums[:, -1:] > 0, means, model.nodes[n:]))
    return scorer
