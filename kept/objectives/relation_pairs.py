"""Which relation joins two mentions: the factual adapter's task (Wang et al. 2020, section 3.2).

There on T-REx sentences with one marked pair each; here on any linked text and graph: a pair of
mentions whose entities a triple joins, by distant supervision.

Axis legend: batch, chosen (samples that have a pair), relation, width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from kept.batches import IGNORE, N_SPECIAL_ROWS, KnowledgeBatch
from kept.batches.host_copies import on_both, places
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.kadapter import KAdapter
from kept.errors import BatchError, ConfigError
from kept.graphs.coverage import look
from kept.layers.means import mean_of
from kept.layers.rows import RowTable
from kept.layers.spans import target_states
from kept.objectives.adapter_features import AdapterFeatures, features_for, keep_initialisation
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, kw_only=True)
class RelationPairsOptions:
    """`adapter`: the one that learns ("" = the only one in training, or the encoder's own states).

    `n_relations`: classes, by default as many as the encoder's graph has relations. `alone`: only
    the adapter's states are read (`AdapterFeatures`). `fixed_head` (not of the paper; Hoffer et al.
    2018, "Fix your classifier", ICLR): the head is not trained, and its first layer is this many
    times what it was drawn as. A head of 2 · width inputs can tell fewer pairs than that apart
    whatever the adapter's states; one that stands still makes the adapter do it.
    """

    adapter: str = ""
    n_relations: int | None = None
    dropout: float = 0.1
    alone: bool = False
    fixed_head: float | None = None

    def __post_init__(self) -> None:
        if self.fixed_head is not None and not 0 < self.fixed_head < math.inf:
            raise ConfigError(f"objective relation_pairs: fixed_head {self.fixed_head}: above 0")


NO_PAIRS = (
    "no text mentions two entities that a triple of the graph joins; give texts about pairs of "
    "its entities (linked with this graph), or a graph with triples between those of the texts"
)
"""The remedy of objectives that learn from such pairs."""


class RelationPairsPreparation(Preparation):
    """Samples one pair of mentions and one triple that joins them; reads a `LinkedWordsView`.

    A text without any such pair is kept with the label IGNORE.
    """

    remedy = NO_PAIRS

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph

    @classmethod
    def of(cls, options: RelationPairsOptions, world: PreparationContext) -> Self:
        return cls(world.graph)

    def share_read(self, texts: Sequence[NDArray[np.int64]]) -> float | None:
        """The share of texts two of whose mentions a triple joins."""
        return share_joined(texts, self.graph)

    @property
    def fingerprint(self) -> str:
        return f"relation_pairs {self.graph.content_hash}"

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        """`target_spans [1 2 2]` (head, tail) and `labels [1]` (a relation id, or IGNORE)."""
        if batch.mention_spans is None or batch.mention_labels is None:
            raise BatchError("relation_pairs reads linked mentions: use the view LinkedWordsView")
        entities = batch.mention_labels[0].numpy() - N_SPECIAL_ROWS
        facts = joined_pairs(entities, self.graph)
        spans, label = torch.zeros(1, 2, 2, dtype=torch.int64), IGNORE
        if len(facts):
            head, label, tail = facts[int(draws.integers(len(facts)))].tolist()
            spans = batch.mention_spans[:, [head, tail]]
        return batch.replace(target_spans=spans, labels=torch.tensor([label]))


def joined_pairs(entities: NDArray[np.int64], graph: KnowledgeGraph) -> NDArray[np.int64]:
    """`[fact 3]`: mention of the head, relation id, mention of the tail, for every triple.

    `entities [mention]` are graph ids; negative ones are in no triple. Facts are sorted.
    """
    pairs = []
    for head, entity in enumerate(entities.tolist()):
        if entity < 0:
            continue
        triples = graph.outgoing(entity)
        fact, tail = np.nonzero(triples[:, 2, None] == entities[None])
        relations = triples[fact, 1].astype(np.int64)
        rows = np.stack([np.full(len(tail), head), relations, tail], axis=1)
        pairs.append(rows[tail != head])
    facts = np.concatenate([np.zeros((0, 3), np.int64), *pairs])
    return np.unique(facts, axis=0)


def share_joined(texts: Sequence[NDArray[np.int64]], graph: KnowledgeGraph) -> float:
    """Return the share of texts, by entities of their mentions, two of which a triple joins."""
    may_be = np.array([(entities >= 0).sum() > 1 for entities in texts], np.bool_)
    n, n_read = look(may_be, lambda i: len(joined_pairs(texts[i], graph)) > 0)
    return n_read / n if n else 0.0


class RelationPairs(Objective):
    """Both targets' first states side by side, two linear layers, cross entropy.

    As the released code there is no activation between the layers. The loss of a batch without any
    pair is 0.
    """

    def __init__(
        self,
        features: nn.Module,
        *,
        width: int,
        n_relations: int,
        dropout: float,
        fixed_head: float | None = None,
    ) -> None:
        super().__init__()
        self.features = features
        self.dense = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(width, n_relations)
        keep_initialisation(self)
        if fixed_head is not None:
            with torch.no_grad():
                self.dense.weight.mul_(fixed_head)
            for layer in (self.dense, self.out_proj):
                layer.requires_grad_(False)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: RelationPairsOptions) -> Self:
        features = features_for(encoder, options.adapter, alone=options.alone)
        n_relations = options.n_relations
        if isinstance(encoder, KAdapter) and isinstance(features, AdapterFeatures):
            encoder.describe_adapter(features.adapter, trained_on="relation_pairs")
        return cls(
            features,
            width=encoder.host.config.hidden_size,
            n_relations=encoder.config.n_relations if n_relations is None else n_relations,
            dropout=options.dropout,
            fixed_head=options.fixed_head,
        )

    def row_tables(self) -> tuple[RowTable, ...]:
        """The classes, which are the graph's relations."""
        names = ("out_proj.weight", "out_proj.bias")
        return tuple(RowTable(name=name, of="relation", n_special=0) for name in names)

    def logits(
        self, features: Float[Tensor, "chosen node width"], spans: Tensor
    ) -> Float[Tensor, "chosen relation"]:
        """Scores of every relation for the pairs `spans [chosen 2 2]`."""
        pair = target_states(features, spans).flatten(1)
        return self.out_proj(self.dropout(self.dense(pair)))

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """Mean cross entropy over samples that have a pair, under the name relation_pairs.

        With `mention_weights` samples are weighted by the product of both links' confidence.
        """
        if batch.target_spans is None or batch.labels is None:
            return {}
        chosen = places(lambda labels: labels != IGNORE, batch.labels)
        spans = on_both(lambda whole, rows: whole.index_select(0, rows), batch.target_spans, chosen)
        logits = self.logits(self.features(output).index_select(0, chosen), spans)
        losses = F.cross_entropy(logits, batch.labels.index_select(0, chosen), reduction="none")
        if batch.mention_weights is not None:
            losses = losses * _pair_weights(batch).index_select(0, chosen)
        return {"relation_pairs": mean_of(losses.sum(), len(logits))}


def _pair_weights(batch: KnowledgeBatch) -> Float[Tensor, " batch"]:
    """The product of the weights of both targets' mentions."""
    assert batch.mention_spans is not None
    assert batch.mention_weights is not None
    assert batch.target_spans is not None
    same = (batch.target_spans[:, :, None] == batch.mention_spans[:, None]).all(dim=3)
    weights = torch.where(same, batch.mention_weights[:, None], 0).amax(dim=2)
    return weights.prod(dim=1)
