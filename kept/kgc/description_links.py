"""Link prediction from descriptions: entities are ranked by what an encoder reads about them.

Wang et al. 2021 (KEPLER, TACL), the experiments on link prediction. An entity needs a text and
nothing else, so those that training never saw ("inductive") are ranked as any other:

    scores = description_scores(model, graph, tokenizer)
    rank(scores, triples, filter=..., ties=..., directions=..., candidates=...)

Axis legend: batch, text, candidate, width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from kept import hosts
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.evaluation.ranking import Direction
from kept.kge.encoded import table_scorer
from kept.kge.scorers import Scorer
from kept.objectives.described_triples import Pieces, entity_text, relation_text, text_batch
from kept.objectives.knowledge_embedding import (
    KnowledgeEmbedding,
    KnowledgeEmbeddingOptions,
    sequences_of,
    word_pieces,
)
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError

Partners = Callable[[Tensor, Tensor], Tensor]
BATCH_SIZE = 4096


@dataclass(frozen=True, eq=False)
class DescriptionScores:
    """What `kept.evaluation.ranking.rank` takes: tables that were read from texts, under a score.

    `partners(entity ids, relation ids)` reads the known side of a question again, together with its
    relation (KEPLER-Cond); None means that the entity's own row stands for it.
    """

    scorer: Scorer
    partners: Partners | None = None

    def scores(self, direction: Direction, triples: Tensor, /) -> Float[Tensor, "batch candidate"]:
        """All candidates for the open slot of `triples` int `[batch 3]`."""
        if self.partners is None or direction == "relation":
            return self.scorer.scores(direction, triples)
        heads, relations, tails = triples.unbind(-1)
        named = self.scorer.relations[relations.to(self.scorer.relations.device)]
        if direction == "tail":
            partners = self.partners(heads, relations)
            return self.scorer.tails(partners, named, self.scorer.entities)
        partners = self.partners(tails, relations)
        return self.scorer.heads(named, partners, self.scorer.entities)


def description_scores(
    model: KnowledgeForPreTraining,
    graph: KnowledgeGraph,
    tokenizer: PreTrainedTokenizerBase,
    *,
    task: str = "ke",
    trained_on: KnowledgeGraph | None = None,
    batch_size: int = 64,
    norm: int | None = None,
) -> DescriptionScores:
    """Every entity of `graph` read once, with the relations that `model` has learned for `task`.

    `trained_on` is the graph of the model's relation rows where `graph` is another one, with
    entities of its own; relations are then found by name (not needed where they are read from
    descriptions). `norm` replaces TransE's: the original trains with 2 and evaluates with 1.
    Raises `ConfigError` for a model without the task, `GraphMismatchError` for another graph's
    model or a relation without a row.
    """
    if task not in model.objectives:
        raise ConfigError(f"the model has no objective {task!r}; it has {list(model.objectives)}")
    objective = model.objectives[task]
    if not isinstance(objective, KnowledgeEmbedding):
        raise ConfigError(f"objective {task!r} scores no triples; name one of the kind ke")
    options = objective.options
    reader = _Reader(model.encoder, graph, tokenizer, options, batch_size)
    if options.relations == "described":
        relations = reader.relations()
    else:
        rows = _relation_rows(model, options, graph, trained_on or graph)
        relations = objective.relations.detach()[rows.to(objective.relations.device)].float()
    scorer = _scorer(options, reader.entities(), relations, norm)
    return DescriptionScores(
        scorer, reader.partners if options.relations == "conditioned" else None
    )


def encode_sequences(
    encoder: KnowledgeEncoder, sequences: Sequence[Pieces], *, pad_id: int, batch_size: int = 64
) -> Float[Tensor, "text width"]:
    """States of the first nodes of many texts, in evaluation mode, float32; alike lengths together.

    `sequences` are word pieces with their special tokens.
    """
    order = sorted(range(len(sequences)), key=lambda i: (len(sequences[i]), i))
    device = next(encoder.parameters()).device
    vectors = torch.empty(len(sequences), encoder.host.config.hidden_size, device=device)
    with _evaluating(encoder), torch.no_grad():
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = text_batch([sequences[i] for i in rows], pad_id=pad_id).to(device)
            vectors[rows] = encoder(batch).node_states[:, 0].float()
    return vectors


class _Reader:
    """Texts of a graph as vectors."""

    def __init__(
        self,
        encoder: KnowledgeEncoder,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        options: KnowledgeEmbeddingOptions,
        batch_size: int,
    ) -> None:
        self.graph, self.tokenizer, self.options = graph, tokenizer, options
        self.sequences = sequences_of(options, tokenizer)
        self.encode = partial(
            encode_sequences, encoder, pad_id=hosts.padding_id(tokenizer), batch_size=batch_size
        )

    def entities(self) -> Float[Tensor, "text width"]:
        ids = range(self.graph.n_entities)
        return self.encode([self.sequences.entity(p) for p in self._pieces(entity_text, ids)])

    def relations(self) -> Float[Tensor, "text width"]:
        ids = range(self.graph.n_relations)
        return self.encode([self.sequences.relation(p) for p in self._pieces(relation_text, ids)])

    def partners(
        self, entities: Int[Tensor, " batch"], relations: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch width"]:
        """Entities read together with their question's relation."""
        pairs = list(zip(entities.tolist(), relations.tolist(), strict=True))
        distinct = list(dict.fromkeys(pairs))
        one = self._pieces(entity_text, [entity for entity, _ in distinct])
        other = self._pieces(relation_text, [relation for _, relation in distinct])
        vectors = self.encode(
            [self.sequences.conditioned(*pair) for pair in zip(one, other, strict=True)]
        )
        row = {pair: i for i, pair in enumerate(distinct)}
        return vectors[[row[pair] for pair in pairs]]

    def _pieces(
        self, text: Callable[[KnowledgeGraph, int, str], str], ids: Sequence[int]
    ) -> list[list[int]]:
        pieces: list[list[int]] = []
        for start in range(0, len(ids), BATCH_SIZE):
            texts = [
                text(self.graph, i, self.options.read) for i in ids[start : start + BATCH_SIZE]
            ]
            pieces += word_pieces(texts, self.tokenizer, self.options.n_tokens)
        return pieces


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, the former mode after."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def _relation_rows(
    model: KnowledgeForPreTraining,
    options: KnowledgeEmbeddingOptions,
    graph: KnowledgeGraph,
    trained_on: KnowledgeGraph,
) -> Tensor:
    """Row of the relation table of every relation of `graph`."""
    if options.id_space_hash is None:
        model.require_graph(trained_on)
    else:
        trained_on.require_id_space(options.id_space_hash, of="the relation table")
    rows = [trained_on.relations.find(name) for name in graph.relations]
    missing = [name for name, row in zip(graph.relations, rows, strict=True) if row is None]
    if missing:
        raise GraphMismatchError(
            f"relations without a row in the model: {missing}; they were not in the graph that it "
            "was trained on (relations='described' needs no rows)"
        )
    return torch.tensor(rows, dtype=torch.int64)


def _scorer(
    options: KnowledgeEmbeddingOptions, entities: Tensor, relations: Tensor, norm: int | None
) -> Scorer:
    """A scorer over tables made elsewhere."""
    extra: dict[str, Any] = {}
    if options.score == "transe":
        extra["norm"] = options.norm if norm is None else norm
    elif norm is not None:
        raise ConfigError(f"norm belongs to transe, the model was trained with {options.score}")
    return table_scorer(options.score, entities, relations, **extra)
