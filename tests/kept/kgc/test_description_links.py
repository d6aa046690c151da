"""Link prediction from descriptions: against one triple at a time, and on unseen entities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kept.encoders.kepler import KEPLER
from kept.errors import ConfigError
from kept.evaluation.ranking import Filter, rank
from kept.kgc.description_links import description_scores, encode_sequences
from kept.objectives.base import PreparationContext
from kept.objectives.described_triples import (
    Sequences,
    entity_text,
    relation_text,
    text_batch,
)
from kept.objectives.knowledge_embedding import (
    FirstPreparation,
    KnowledgeEmbeddingOptions,
    word_pieces,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import tiny_host

KINDS = ("table", "conditioned", "described")


def model_of(graph: KnowledgeGraph, tokenizer: Any, **options: Any) -> KnowledgeForPreTraining:
    host = tiny_host("bert", n_words=len(tokenizer), n_positions=64)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return KnowledgeForPreTraining.of(
            KEPLER.from_host(host, graph), {"ke": {"n_tokens": 24, **options}}
        )


def read_alone(model: KnowledgeForPreTraining, row: tuple[int, ...]) -> Tensor:
    return encode_sequences(model.encoder, [row], pad_id=0)[0]


def slow_scores(
    model: KnowledgeForPreTraining,
    graph: KnowledgeGraph,
    tokenizer: Any,
    triple: list[int],
    kind: str,
) -> dict[str, list[float]]:
    """Scores of every head and every tail of one question, each text encoded alone."""
    rules = Sequences.of(tokenizer, n_tokens=24, n_relation_tokens=16, cut="text")

    def pieces(text: str) -> list[int]:
        return word_pieces([text], tokenizer, 24)[0]

    head, relation, tail = triple
    named = pieces(relation_text(graph, relation, "both"))
    vector = model.objectives["ke"].relations.detach()[relation]
    if kind == "described":
        vector = read_alone(model, rules.relation(named))
    entities = [pieces(entity_text(graph, i, "both")) for i in range(graph.n_entities)]
    vectors = [read_alone(model, rules.entity(row)) for row in entities]
    known = {"head": vectors[head], "tail": vectors[tail]}
    if kind == "conditioned":
        known = {
            "head": read_alone(model, rules.conditioned(entities[head], named)),
            "tail": read_alone(model, rules.conditioned(entities[tail], named)),
        }
    return {
        "tail": [-float((known["head"] + vector - other).norm()) for other in vectors],
        "head": [-float((other + vector - known["tail"]).norm()) for other in vectors],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_ranks_equal_one_triple_at_a_time(
    small_graph: KnowledgeGraph, tokenizer: Any, kind: str
) -> None:
    model = model_of(small_graph, tokenizer, relations=kind).train()
    scores = description_scores(model, small_graph, tokenizer, batch_size=3)
    assert model.training
    triples = small_graph.triples[[0, 5, 11]].astype(np.int64)
    result = rank(
        scores,
        triples,
        filter=Filter({"all": small_graph.triples}, n_entities=10, n_relations=7),
        ties="realistic",
        directions=("head", "tail"),
        candidates="all",
    )
    expected = []
    for direction, slot in (("head", 0), ("tail", 2)):
        got = scores.scores(direction, torch.from_numpy(triples))
        for row, triple in zip(got, triples.tolist(), strict=True):
            slow = slow_scores(model, small_graph, tokenizer, triple, kind)[direction]
            assert row.tolist() == pytest.approx(slow, abs=1e-4)
            others = []
            for entity in range(10):
                corrupted = [*triple[:slot], entity, *triple[slot + 1 :]]
                if not small_graph.contains(np.array([corrupted], np.int32))[0]:
                    others.append(slow[entity])
            expected.append(1 + sum(value > slow[triple[slot]] for value in others))
    assert result.ranks.tolist() == expected
    relations = scores.scores("relation", torch.from_numpy(triples))
    assert relations.shape == (3, 7)


def test_unseen_entities_are_ranked(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    """Another graph: its own entities, some of the relations in another order."""
    other = graph_from_records([
        Triple("Q38", "P36", "Q220"), Triple("Q220", "P17", "Q38"),
        Text("Q38", TextKind.LABEL, "Italy", "en"),
        Text("Q38", TextKind.DESCRIPTION, "country in Southern Europe", "en"),
        Text("Q220", TextKind.LABEL, "Rome", "en"),
    ])  # fmt: skip
    model = model_of(small_graph, tokenizer)
    scores = description_scores(model, other, tokenizer, trained_on=small_graph)
    triple = other.triples[:1].astype(np.int64)
    name = other.relations.name(int(triple[0, 1]))
    row = model.objectives["ke"].relations.detach()[small_graph.relations.find(name)]
    rules = Sequences.of(tokenizer, n_tokens=24, n_relation_tokens=16, cut="text")
    vectors = [
        read_alone(model, rules.entity(word_pieces([entity_text(other, i, "both")], tokenizer,
                                                   24)[0]))
        for i in range(2)
    ]  # fmt: skip
    expected = [-float((vectors[int(triple[0, 0])] + row - v).norm()) for v in vectors]
    got = scores.scores("tail", torch.from_numpy(triple))[0]
    assert got.tolist() == pytest.approx(expected, abs=1e-4)

    with pytest.raises(GraphMismatchError, match="id space"):
        description_scores(model, other, tokenizer)
    unknown = graph_from_records([Triple("Q38", "P999", "Q220")])
    with pytest.raises(GraphMismatchError, match="P999"):
        description_scores(model, unknown, tokenizer, trained_on=small_graph)
    described = model_of(small_graph, tokenizer, relations="described")
    assert description_scores(described, unknown, tokenizer).scorer.n_relations == 1


def test_training_puts_true_triples_first(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    """A short training lifts the filtered MRR over its own triples far above chance."""
    options = {"n_triples": 15, "n_negatives": 2, "negatives": "batch", "gamma": 2.0}
    model = model_of(small_graph, tokenizer, **options).eval()
    world = PreparationContext(small_graph, tokenizer, np.zeros(0))
    data = FirstPreparation.of(KnowledgeEmbeddingOptions(n_tokens=24, **options), world)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)

    def mrr() -> float:
        return rank(
            description_scores(model, small_graph, tokenizer),
            small_graph.triples,
            filter=Filter({"all": small_graph.triples}, n_entities=10, n_relations=7),
            ties="pessimistic",
            directions=("head", "tail"),
            candidates="all",
        ).mrr

    before = mrr()
    words = text_batch([tokenizer("the city")["input_ids"]], pad_id=tokenizer.pad_token_id)
    for step in range(80):
        batch = data.complete(words, generator(0, "ke", "batch", step))
        optimiser.zero_grad()
        model(batch).losses["ke"].backward()
        optimiser.step()
    after = mrr()
    assert after > 0.6, (before, after)
    assert before < 0.35


def test_refusals(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    model = model_of(small_graph, tokenizer)
    with pytest.raises(ConfigError, match="no objective 'ke2'"):
        description_scores(model, small_graph, tokenizer, task="ke2")
    host = tiny_host("bert", n_words=len(tokenizer), n_positions=64)
    words = KnowledgeForPreTraining.of(KEPLER.from_host(host, small_graph), {"mlm": {}})
    with pytest.raises(ConfigError, match="scores no triples"):
        description_scores(words, small_graph, tokenizer, task="mlm")
    product = model_of(small_graph, tokenizer, score="distmult")
    with pytest.raises(ConfigError, match="norm belongs to transe"):
        description_scores(product, small_graph, tokenizer, norm=1)
    scorer = description_scores(model, small_graph, tokenizer, norm=1).scorer
    assert scorer.norm == 1
