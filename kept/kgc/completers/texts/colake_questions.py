"""CoLAKE's questions: a word-knowledge graph per question, whose last entity is masked.

Sun et al. 2020, "CoLAKE" (COLING), section 3.1. The text of the entity that is asked about has the
entity as its anchor; some of its known facts stand beside it, and the fact in question.

Axis legend: batch, node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText
from kept.batches import MASK_ROW, KnowledgeBatch
from kept.errors import ConfigError
from kept.evaluation.ranking import Direction, Triples
from kept.graphs.builder import BuilderConfig, Exclusion, build
from kept.graphs.edit import add_fact
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import colake_view
from kept.graphs.views.colake import is_anchor
from kept.kge.simkgc.texts import Texts
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

N_FACTS = 6
"""Facts that are shown beside a question; the paper shows at most 15."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions as one batch; `masked [batch]` is the node of each that is asked for."""

    batch: KnowledgeBatch
    masked: Int[Tensor, " batch"]


@dataclass(frozen=True, eq=False)
class Reader:
    """What makes questions of triples over `graph`, whose triples may be shown."""

    graph: KnowledgeGraph
    texts: Texts
    tokenizer: PreTrainedTokenizerBase
    builder: BuilderConfig
    hidden: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(
        cls,
        graph: KnowledgeGraph,
        context: Triples,
        texts: Texts,
        tokenizer: PreTrainedTokenizerBase,
        *,
        n_tokens: int,
    ) -> Reader:
        """Over a graph of which the triples `context [triple 3]` may be shown."""
        rows = np.asarray(context, np.int32).reshape(-1, 3)
        builder = BuilderConfig(max_neighbours=N_FACTS, max_words=n_tokens, drop_probability=0.0)
        readable = graph.with_triples(rows, note="what may be read")
        return cls(readable, texts, tokenizer, builder)

    def questions(
        self, triples: Triples, direction: Direction, *, seed: int | None = None
    ) -> Questions:
        """Questions for an end of triples `[batch 3]`; the triple in question is never shown.

        `seed` samples which facts of an entity are shown; without one they are always the same.
        """
        built = [
            self._question(tuple(row), direction, seed, i)
            for i, row in enumerate(np.asarray(triples).tolist())
        ]
        views = []
        for graph in built:
            view = colake_view(graph)
            ids = view.node_ids.clone()
            ids[0, graph.n_nodes - 2] = MASK_ROW
            views.append(view.replace(node_ids=ids))
        pad_id: Any = self.tokenizer.pad_token_id
        masked = torch.tensor([graph.n_nodes - 2 for graph in built])
        return Questions(KnowledgeBatch.stack(views, layout="joined", word_pad_id=pad_id), masked)

    def facts(self, entity: int) -> list[tuple[int, int, int]]:
        """The triples that are shown beside a question about an entity."""
        built = self._graph(entity, (), generator(0, "facts", entity))
        rows = np.unique(built.origins[built.kinds == NodeKind.RELATION, 1])
        return [tuple(row) for row in self.graph.triples[rows].tolist()]

    def without(self, fact: tuple[int, int, int]) -> Reader:
        """The same, which never shows that triple."""
        return replace(self, hidden=(*self.hidden, fact))

    def _question(
        self, triple: tuple[int, ...], direction: Direction, seed: int | None, edge: int
    ) -> WordKnowledgeGraph:
        head, relation, tail = triple
        query = tail if direction == "head" else head
        key = (0, "facts", query) if seed is None else (seed, "facts", direction, edge)
        built = self._graph(query, (triple,), generator(*key))
        anchors = np.flatnonzero(is_anchor(built))
        if not len(anchors):
            raise ConfigError(
                f"the name {self.texts.names[query]!r} of {self.graph.entities.name(query)!r} has "
                "no word piece, so that CoLAKE has no anchor; give the entity another label"
            )
        if direction == "head":
            relation += self.graph.n_relations
        return add_fact(built, head=int(anchors[0]), relation=relation, tail=0)

    def _graph(
        self, entity: int, hidden: Sequence[tuple[int, ...]], draws: np.random.Generator
    ) -> WordKnowledgeGraph:
        name = self.texts.names[entity]
        link = gold_link(0, len(name), self.graph.entities.name(entity))
        never = np.array([*self.hidden, *hidden], np.int32).reshape(-1, 3)
        return build(
            LinkedText(self.texts.plain(entity), (link,)),
            self.tokenizer,
            self.graph,
            generator=draws,
            config=self.builder,
            exclude=Exclusion(triples=never),
        )
