"""Word-knowledge completion as batches: training data, and scores of a trained CoLAKE.

Axis legend: example, relation.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entity_linking.annotations.relations import RelationExample
from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders.colake import CoLAKE
from kept.errors import ConfigError
from kept.evaluation.ranking import Filter, RankCounts, RankingResult, Ties, rank_scores
from kept.graphs.builder import BuilderConfig, Exclusion, build, build_many
from kept.graphs.edit import add_relation
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import colake_view
from kept.objectives.masked_nodes import MaskedNodes, relation_scores
from kept.objectives.masking import EntitySampler, MaskingConfig, mask_nodes
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

IN_ONE_PASS = 256
"""Texts that are joined with a graph together."""


@dataclass(frozen=True, kw_only=True)
class CompletionData:
    """Examples as training data: CoLAKE's masked nodes, and the relation in question always masked.

    The pair's own triples are never injected, so a training example looks like a tested one.
    Examples whose entities do not both become anchors (cut off with a long text, or overlapping)
    are left out by `usable_examples` before.
    """

    examples: tuple[RelationExample, ...]
    graph: KnowledgeGraph
    tokenizer: Any
    builder: BuilderConfig
    masking: MaskingConfig
    sampler: EntitySampler
    n_negatives: int = 8

    @property
    def fingerprint(self) -> str:
        """A hash that changes with the graph, the examples and every option."""
        state = hashlib.sha256(self.graph.content_hash.encode())
        state.update(repr((self.builder, self.masking, self.n_negatives)).encode())
        for example in self.examples:
            state.update(repr(example).encode())
        return state.hexdigest()

    def __len__(self) -> int:
        return len(self.examples)

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """One masked example, the same in every process."""
        draws = generator(seed, "completion", epoch, index)
        graph = question_graph(
            self.examples[index], self.graph, self.tokenizer, self.builder, generator=draws
        )
        batch = mask_nodes(colake_view(graph), generators=[draws], config=self.masking)
        return mask_last_relation(batch, int(graph.ids[-1]))

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Pad, and draw the negatives of the masked-entity loss."""
        batch = KnowledgeBatch.stack(list(samples), word_pad_id=self.tokenizer.pad_token_id)
        assert batch.node_labels is not None
        golds = batch.node_labels[batch.node_kinds == NodeKind.ENTITY]
        draws = generator(seed, "negatives", epoch, step)
        sampled = self.sampler.sample(golds, self.n_negatives, draws)
        return batch.replace(sampled_entities=sampled)


def question_graph(
    example: RelationExample,
    graph: KnowledgeGraph,
    tokenizer: Any,
    builder: BuilderConfig,
    *,
    generator: np.random.Generator,
) -> WordKnowledgeGraph:
    """The example's word-knowledge graph; its last node is the relation in question, by id.

    Raises `ConfigError` when head and tail do not both become anchors.
    """
    head, tail = graph.entities.id(example.head), graph.entities.id(example.tail)
    built = build(
        example.linked,
        tokenizer,
        graph,
        generator=generator,
        config=builder,
        exclude=Exclusion(pairs=np.array([[head, tail]], np.int32)),
    )
    nodes = _anchor_nodes(built, example)
    if nodes is None:
        raise ConfigError(
            f"{example.head} and {example.tail} do not both become anchors of "
            f"{example.linked.text[:60]!r}; leave the example out with usable_examples"
        )
    relation = graph.relations.id(example.relation)
    return add_relation(built, head=nodes[0], tail=nodes[1], relation=relation)


def usable_examples(
    examples: Sequence[RelationExample],
    graph: KnowledgeGraph,
    tokenizer: Any,
    builder: BuilderConfig,
) -> tuple[tuple[RelationExample, ...], int]:
    """Examples whose head and tail both become anchors, and how many were left out."""
    without_facts = dataclasses.replace(builder, max_neighbours=0)
    kept: list[RelationExample] = []
    for first in range(0, len(examples), IN_ONE_PASS):
        block = examples[first : first + IN_ONE_PASS]
        linked = [example.linked for example in block]
        joined = build_many(linked, tokenizer, graph, seed=0, config=without_facts)
        kept += [e for e, g in zip(block, joined, strict=True) if _anchor_nodes(g, e) is not None]
    return tuple(kept), len(examples) - len(kept)


def _anchor_nodes(graph: WordKnowledgeGraph, example: RelationExample) -> tuple[int, int] | None:
    nodes, (starts, ends) = [], graph.spans.T
    for mention in (example.head_mention, example.tail_mention):
        at = (starts == mention.start) & (ends == mention.end) & (graph.kinds == NodeKind.ENTITY)
        if not at.any():
            return None
        nodes.append(int(at.argmax()))
    return nodes[0], nodes[1]


def mask_last_relation(batch: KnowledgeBatch, relation: int) -> KnowledgeBatch:
    """Hide the last node of a batch of one and ask for `relation` (a graph id) there."""
    assert batch.node_labels is not None
    ids, labels = batch.node_ids.clone(), batch.node_labels.clone()
    ids[0, -1], labels[0, -1] = MASK_ROW, relation + N_SPECIAL_ROWS
    return batch.replace(node_ids=ids, node_labels=labels)


def entity_sampler(examples: Sequence[RelationExample], graph: KnowledgeGraph) -> EntitySampler:
    """Negatives by how often an entity is linked in `examples`; every graph entity counts once."""
    counts = np.ones(graph.n_entities + N_SPECIAL_ROWS)
    counts[:N_SPECIAL_ROWS] = 0
    links = [link.entity for example in examples for link in example.linked.links]
    rows = graph.entities.ids([entity for entity in links if entity is not None])
    np.add.at(counts, rows[rows >= 0] + N_SPECIAL_ROWS, 1)
    return EntitySampler(counts)


@torch.no_grad()
def completion_scores(
    model: KnowledgeForPreTraining,
    examples: Sequence[RelationExample],
    graph: KnowledgeGraph,
    tokenizer: Any,
    builder: BuilderConfig,
    *,
    seed: int,
    batch_size: int = 64,
) -> NDArray[np.float32]:
    """Scores `[example relation]` of every relation at the masked node; no other node is masked."""
    model.eval()
    encoder, objective = model.encoder, model.objectives["masked_nodes"]
    assert isinstance(encoder, CoLAKE)
    assert isinstance(objective, MaskedNodes)
    rows = []
    for start in range(0, len(examples), batch_size):
        samples = []
        for index, example in enumerate(examples[start : start + batch_size], start):
            draws = generator(seed, "evaluation", index)
            view = colake_view(question_graph(example, graph, tokenizer, builder, generator=draws))
            unlabelled = torch.full_like(view.node_ids, IGNORE)
            view = view.replace(node_labels=unlabelled)
            samples.append(mask_last_relation(view, 0).replace(node_labels=None))
        batch = KnowledgeBatch.stack(samples, word_pad_id=tokenizer.pad_token_id)
        batch = batch.to(next(model.parameters()).device)
        scores = relation_scores(objective, encoder, encoder(batch), batch)
        rows.append(scores.cpu().numpy())
    return np.concatenate(rows)


def completion_triples(
    examples: Sequence[RelationExample], graph: KnowledgeGraph
) -> NDArray[np.int64]:
    """The triples in question by id, `[example 3]`."""
    return np.array(
        [
            (graph.entities.id(e.head), graph.relations.id(e.relation), graph.entities.id(e.tail))
            for e in examples
        ],
        np.int64,
    ).reshape(-1, 3)


def rank_relations(
    scores: NDArray[np.float32], triples: NDArray[np.int64], *, filter: Filter, ties: Ties
) -> RankingResult:
    """Filtered ranks of the gold relations; `scores [example relation]`."""
    mask = np.ones(scores.shape, np.bool_)
    rows, known_answers = filter.known("relation", triples)
    mask[rows, known_answers] = False
    counts = rank_scores(
        torch.from_numpy(scores), torch.from_numpy(triples[:, 1]), torch.from_numpy(mask)
    )
    return relation_result(triples, counts, filter=filter.description, ties=ties)


def relation_result(
    triples: NDArray[np.int64], counts: RankCounts, *, filter: str, ties: Ties
) -> RankingResult:
    """A result in which every triple's relation is ranked among all relations."""
    return RankingResult(
        triples=triples,
        slots=np.ones(len(triples), np.uint8),
        counts=counts,
        ties=ties,
        filter=filter,
        directions=("relation",),
        candidates="all",
        n_asked=len(triples),
        n_skipped={},
    )
