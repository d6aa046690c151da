"""Training of ULTRA on a graph, and its scores on any other.

Galkin et al. 2024, section 4.3 and appendix D; released code DeepGraphLearning/ULTRA. Half of a
batch is asked for tails, half for heads; edges that are asked about or named as negatives carry no
message.

Axis legend: batch, negative, candidate, node, edge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from kept.errors import ConfigError, EvaluationError, TrainingError
from kept.evaluation.ranking import Direction, Filter
from kept.kge.resuming.epochs import TrainingHistory, run_epochs
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.training import contrast
from kept.kge.training_config import TrainingConfig
from kept.kge.ultra.graphs import Edges, relation_graph, without_easy
from kept.kge.ultra.messages import on_device
from kept.kge.ultra.nbfnet import NBFNet
from kept.kge.ultra.networks import Ultra

BATCH_SIZE = 1 << 24
"""Numbers of one layer's messages: questions are scored in batches that stay below."""


def strict_negatives(
    candidates: Bool[Tensor, "batch node"], draws: Float[Tensor, "batch negative"]
) -> Int[Tensor, "batch negative"]:
    """One of each row's candidates, in ascending order, for each number from 0 to below 1.

    >>> strict_negatives(torch.tensor([[False, True, True]]), torch.tensor([[0.0, 0.9]])).tolist()
    [[1, 2]]
    """
    counts = candidates.sum(1)
    if not bool(counts.all()):
        raise ConfigError("a training triple has no negative: every entity answers it")
    order = candidates.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    return order.gather(1, (draws * counts[:, None]).long())


def ultra_loss(
    scores: Float[Tensor, "batch 1+negative"], temperature: float
) -> Float[Tensor, " batch"]:
    """Binary cross entropy of the positive (column 0) and the weighed negatives, over 2.

    Negatives weigh softmax(score / temperature) without gradient, all alike at temperature 0.
    """
    inverse = 1 / temperature if temperature else 0.0
    positive, negative = scores[:, 0], scores[:, 1:]
    return contrast(positive, negative, loss="log_sigmoid", margin=0, temperature=inverse) / 2


class LossOnGraph:
    """The loss of an ULTRA or an NBFNet over batches of questions about one training graph.

    Raises `ConfigError` for fewer than two triples.
    """

    def __init__(
        self,
        model: Ultra | NBFNet,
        triples: Int[Tensor, "triple 3"],
        *,
        n_entities: int,
        n_relations: int,
        config: TrainingConfig,
    ) -> None:
        if len(triples) < 2:
            raise ConfigError(
                f"{len(triples)} training triples: ULTRA needs one to ask, one to read"
            )
        sizes = {"n_entities": n_entities, "n_relations": n_relations}
        self._model, self._config = model, config
        self._edges = Edges.of(triples.numpy(), **sizes)
        self._between = relation_graph(self._edges)
        self._filter = Filter({"train": triples.numpy()}, **sizes)

    def loss(self, batch: Int[Tensor, "batch 3"], generator: torch.Generator) -> Tensor:
        """Return the mean loss of a batch: its first half asks for tails, the rest for heads."""
        is_head = torch.arange(len(batch)) >= len(batch) // 2
        draws = torch.rand(len(batch), self._config.n_negatives, generator=generator)
        candidates = torch.cat(
            [
                unconnected_entities(self._filter, "tail", batch[~is_head]),
                unconnected_entities(self._filter, "head", batch[is_head]),
            ]
        )
        negatives = strict_negatives(candidates, draws)
        anchors, answers = _ends(batch, is_head)
        named = _corrupted_triples(batch, is_head, negatives)
        scores = self._model(
            self._edges.only(without_easy(self._edges, torch.cat([batch, named]))),
            self._between,
            anchors,
            batch[:, 1],
            is_head,
            torch.cat([answers[:, None], negatives], 1),
        )
        loss: Tensor = ultra_loss(scores, self._config.adversarial_temperature).mean()
        return loss


def train_ultra(
    model: Ultra | NBFNet,
    triples: Any,
    *,
    n_entities: int,
    n_relations: int,
    config: TrainingConfig,
    generator: torch.Generator,
    queries: Any = None,
    validate: Callable[[Ultra | NBFNet], float] | None = None,
    state: dict[str, Any] | None = None,
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> TrainingHistory:
    """Train in place on `triples` `[triple 3]`; on a CPU equal seeds give equal bits.

    Negatives are sampled with replacement among the entities that complete no training triple. The
    graph of relations is that of all training triples. An epoch asks all of them, or `queries`
    `[triple 3]` alone. `state` of an earlier history resumes it, `snapshots` a run that was
    cut.
    Raises `ConfigError` for fewer than two triples, `TrainingError` for a loss that is not finite.
    """
    data = torch.as_tensor(triples, dtype=torch.int64).reshape(-1, 3)
    batches = LossOnGraph(
        model, data, n_entities=n_entities, n_relations=n_relations, config=config
    )
    data_asked = data if queries is None else torch.as_tensor(queries, dtype=torch.int64)

    def loss_of(rows: Tensor) -> Tensor:
        return batches.loss(data_asked[rows], generator)

    return run_epochs(
        model,
        len(data_asked),
        loss_of,
        config=config,
        generator=generator,
        state=state,
        snapshots=snapshots,
        validate=None if validate is None else lambda: validate(model),
        on_epoch=on_epoch,
        error=TrainingError,
    )


def unconnected_entities(
    filter: Filter, direction: Direction, batch: Int[Tensor, "batch 3"]
) -> Bool[Tensor, "batch node"]:
    """Which entities complete no known triple in the slot of `direction`."""
    free = np.ones((len(batch), filter.n_entities), np.bool_)
    rows, answers = filter.known(direction, batch.numpy())
    free[rows, answers] = False
    return torch.from_numpy(free)


def _ends(
    batch: Int[Tensor, "batch 3"], is_head: Bool[Tensor, " batch"]
) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """The entity that each question is about, and the one that answers it."""
    head, _, tail = batch.unbind(1)
    return torch.where(is_head, tail, head), torch.where(is_head, head, tail)


def _corrupted_triples(
    batch: Tensor, is_head: Tensor, negatives: Int[Tensor, "batch negative"]
) -> Int[Tensor, "triple 3"]:
    """The triples that the negatives make."""
    rows = batch[:, None].expand(-1, negatives.shape[1], -1).clone()
    rows[is_head, :, 0], rows[~is_head, :, 2] = negatives[is_head], negatives[~is_head]
    return rows.reshape(-1, 3)


class UltraScorer:
    """ULTRA or NBFNet on a context graph, as `kept.evaluation.ranking.rank` asks it."""

    def __init__(
        self, model: Ultra | NBFNet, context: Any, *, n_entities: int, n_relations: int
    ) -> None:
        self.model = model
        self.edges = Edges.of(context, n_entities=n_entities, n_relations=n_relations)
        self.between = relation_graph(self.edges)

    @torch.no_grad()
    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; raises `EvaluationError` for relations, which ULTRA cannot rank."""
        if direction == "relation":
            raise EvaluationError("ULTRA ranks heads and tails; leave the direction relation out")
        self.model.eval()
        anchors, _ = _ends(triples, torch.full((len(triples),), direction == "head"))
        pairs = torch.stack([triples[:, 1], anchors], 1)
        queries, places = torch.unique(pairs, dim=0, return_inverse=True)  # by relation
        is_head = torch.full((len(queries),), direction == "head")
        width = self.model.entity_model.options.layer.width
        size = max(1, BATCH_SIZE // (width * max(1, self.edges.ends.shape[1])))
        scores = [
            self.model(self.edges, self.between, some[:, 1], some[:, 0], is_head[: len(some)])
            for some in torch.split(queries, size)
        ]
        every = torch.cat(scores)
        return every.index_select(0, on_device(places, every.device))
