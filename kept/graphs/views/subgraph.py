"""The view of QA-GNN and GreaseLM: words, and beside them a subgraph of the knowledge graph.

Yasunaga et al. 2021, "QA-GNN" (NAACL), section 3.1. The linked entities of a text are those of the
question; where there is a second text (a choice), its own are those of the answer.

Axis legend: word, entity and edge (of the subgraph).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from kept.batches import N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch, Role
from kept.errors import ConfigError
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.relevance import RelevanceScorer, context_of
from kept.graphs.subgraphs import EXTRAS, Neighbours, edges_among, edges_of, neighbours_in
from kept.graphs.views.base import View, row, words_of
from kept.graphs.views.colake import is_anchor
from kg_loaders import KnowledgeGraph

FACTS = "facts"
"""Entities beside the linked ones: the other ends of the facts that the graph was built with."""
MOST_PLACES = 200
"""Of a subgraph in the paper, the context node included."""


class SubgraphView(View):
    """`words_of`, with `entity_ids` of linked words and the four fields of a subgraph.

    `extras` says which entities are there beside the linked ones: "common" (the paper's: neighbours
    that two of them have in common), "common_of_both", "two_steps", "three_hops", "neighbours" (see
    `kept.graphs.subgraphs`), or "facts" (the ends of the facts that the settings under `graph`
    choose, and those facts alone as edges). `max_places`: of the entities and the context node; the
    last are cut. `relevance`: folder of a masked language model that scores every entity with the
    text; extras then come in the order of their scores. Without it all scores are 0, and extras
    come in the order of how many linked entities they are joined to.
    """

    remedy = "no text has a link into the graph; link the texts with the graph of the run"

    def __init__(
        self,
        graph: KnowledgeGraph,
        *,
        extras: str = "common",
        max_places: int = MOST_PLACES,
        relevance: str | None = None,
    ) -> None:
        if extras not in (*EXTRAS, FACTS):
            raise ConfigError(f"extras is {extras!r}; use one of {', '.join([*EXTRAS, FACTS])}")
        if max_places < 2:
            raise ConfigError(f"max_places is {max_places}; use 2 or more")
        self.graph, self.extras, self.max_places = graph, extras, max_places
        self.relevance = relevance

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase, **options: Any) -> Self:
        return cls(graph, **options)

    def __getstate__(self) -> dict[str, Any]:
        """Without neighbours and model, which a process opens for itself."""
        return {k: v for k, v in vars(self).items() if k not in ("_near", "_scorer")}

    @cached_property
    def _near(self) -> Neighbours:
        return neighbours_in(self.graph)

    @cached_property
    def _scorer(self) -> RelevanceScorer | None:
        return None if self.relevance is None else RelevanceScorer.open(self.relevance)

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.extras} {self.max_places} {self.relevance}"

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        """Raises `BatchError` when anchors took the place of words."""
        batch, anchors = words_of(graph), np.flatnonzero(is_anchor(graph))
        question, answer = (
            graph.ids[anchors[graph.segments[anchors] == segment]].tolist() for segment in (0, 1)
        )
        linked, roles = places_of(question, answer)
        near = self._near
        if graph.hidden is not None:
            near = neighbours_in(self.graph, hidden=graph.hidden)
        extras = self._extras(graph, question, answer, near)
        scores = self._scores(graph, [*linked, *extras])
        entities = in_order(linked, extras, scores)[: self.max_places - 1]
        roles = [*roles, *[Role.OTHER] * len(extras)][: self.max_places - 1]
        ids = np.array(entities, np.int64)
        values = np.array([scores[entity] for entity in entities], np.float32)
        return batch.replace(
            entity_ids=row(_entities_of_words(graph, set(entities))),
            subgraph_ids=row(ids + N_SPECIAL_ROWS),
            subgraph_roles=row(np.array([int(role) for role in roles], np.int64)),
            subgraph_scores=torch.from_numpy(values)[None],
            subgraph_edges=row(self._edges(graph, ids)),
        )

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether there is an entity in the subgraph."""
        assert batch.subgraph_ids is not None
        return bool((batch.subgraph_ids != PAD_ROW).any())

    def _extras(
        self, graph: WordKnowledgeGraph, question: list[int], answer: list[int], near: Neighbours
    ) -> list[int]:
        linked = {*question, *answer}
        if self.extras == FACTS:
            others = graph.ids[(graph.kinds == NodeKind.ENTITY) & ~is_anchor(graph)].tolist()
            return [entity for entity in dict.fromkeys(others) if entity not in linked]
        chosen = EXTRAS[self.extras](question, answer, near) - linked
        counts = {entity: len(near(entity) & linked) for entity in chosen}
        return sorted(chosen, key=lambda entity: (-counts[entity], entity))

    def _scores(self, graph: WordKnowledgeGraph, entities: Sequence[int]) -> dict[int, float]:
        if self._scorer is None or not entities:
            return dict.fromkeys(entities, 0.0)
        names = self.graph.labels(np.array(entities))
        context = context_of([graph.text])
        scores = self._scorer.relevance(context, [name.replace("_", " ") for name in names])
        return dict(zip(entities, scores, strict=True))

    def _edges(self, graph: WordKnowledgeGraph, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.extras != FACTS:
            return edges_among(self.graph, ids, hidden=graph.hidden)
        return edges_of(facts_in(graph), ids)


def facts_in(graph: WordKnowledgeGraph) -> NDArray[np.int32]:
    """The facts of a word-knowledge graph as triples of ids, `[triple 3]`."""
    edges, kinds = graph.edges, graph.edge_kinds
    heads = edges[kinds == EdgeKind.ENTITY_RELATION]
    tails = edges[kinds == EdgeKind.RELATION_ENTITY]
    heads, tails = heads[np.argsort(heads[:, 1])], tails[np.argsort(tails[:, 0])]
    nodes = np.stack([heads[:, 0], heads[:, 1], tails[:, 1]], axis=1)
    triples: NDArray[np.int32] = graph.ids[nodes]
    return triples


def places_of(question: Collection[int], answer: Collection[int]) -> tuple[list[int], list[Role]]:
    """Linked entities, each once, with their roles; one of both texts is the answer's."""
    of_answer = sorted({*answer})
    of_question = sorted({*question} - {*answer})
    roles = [Role.QUESTION] * len(of_question) + [Role.ANSWER] * len(of_answer)
    return of_question + of_answer, roles


def in_order(
    linked: Sequence[int], extras: Sequence[int], scores: Mapping[int, float]
) -> list[int]:
    """Linked entities, then extras from the highest score to the lowest; equal ones stay."""
    return [*linked, *sorted(extras, key=lambda entity: -scores[entity])]


def _entities_of_words(graph: WordKnowledgeGraph, visible: set[int]) -> NDArray[np.int64]:
    """The row of each word's entity, `PAD_ROW` for words of none and entities that were cut."""
    rows = np.full(graph.n_nodes, PAD_ROW, np.int64)
    edges = graph.edges[graph.edge_kinds == EdgeKind.MENTION_ENTITY]
    rows[edges[:, 0]] = graph.ids[edges[:, 1]] + N_SPECIAL_ROWS
    is_shown = np.isin(rows, [entity + N_SPECIAL_ROWS for entity in visible])
    words = np.flatnonzero(graph.kinds == NodeKind.WORD)
    return np.where(is_shown, rows, PAD_ROW)[words]
