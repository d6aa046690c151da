"""The objective `ke`: every score and loss against loops, its data, its refusals."""

from __future__ import annotations

import dataclasses
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from entity_linking.mentions import LinkedText
from kept.batches import TripleBatch
from kept.encoders.colake import CoLAKE
from kept.encoders.kepler import KEPLER
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WordsView
from kept.kge.kinds import FORMULAS
from kept.kge.scorers import SCORES
from kept.objectives.base import PreparationContext
from kept.objectives.described_triples import Questions, draw_questions
from kept.objectives.knowledge_embedding import (
    FirstPreparation,
    KnowledgeEmbeddingOptions,
    SecondPreparation,
)
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator, torch_generator
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.tiny_hosts import tiny_host

KINDS = ("table", "conditioned", "described")
CASES = [(s, k) for s in SCORES for k in KINDS if (s, k) != ("rotate", "described")]
"""Every score with every kind of relation, but for the pair that is refused."""


def model_of(
    graph: KnowledgeGraph, tokenizer: Any, encoder: type[Any] = KEPLER, **options: Any
) -> KnowledgeForPreTraining:
    host = tiny_host("bert", n_words=len(tokenizer), n_positions=128)
    encoder_ = encoder.from_host(host, graph)
    return KnowledgeForPreTraining.of(encoder_, {"ke": options}).eval()


def preparation(graph: KnowledgeGraph, tokenizer: Any, **options: Any) -> FirstPreparation:
    world = PreparationContext(graph, tokenizer, np.zeros(0))
    return FirstPreparation.of(KnowledgeEmbeddingOptions(**options), world)


def batch_of(graph: KnowledgeGraph, tokenizer: Any, **options: Any) -> Any:
    preparation_ = preparation(graph, tokenizer, **options)
    texts = preparation_.read(_questions(preparation_, 0)).texts
    return preparation_.complete(texts, generator(0, "ke", "batch", 0))


def _questions(preparation_: FirstPreparation, step: int) -> Questions:
    return draw_questions(
        preparation_.graph,
        generator(0, "q", step),
        n_triples=preparation_.options.n_triples,
        n_negatives=1,
    )


def slow_score(name: str, head: Tensor, relation: Tensor, tail: Tensor) -> float:
    """One triple, through the scorer's own tables."""
    scorer = FORMULAS[name](
        n_entities=2, n_relations=1, width=len(head), generator=torch_generator(0, "slow")
    ).double()
    with torch.no_grad():
        scorer.entities.copy_(torch.stack([head, tail]))
        scorer.relations.copy_(relation[None])
        return float(scorer.score_triples(torch.tensor([[0, 0, 1]])))


@pytest.mark.parametrize(("score", "relations"), CASES)
def test_scores_and_losses_equal_loops(
    small_graph: KnowledgeGraph, tokenizer: Any, score: str, relations: str
) -> None:
    options = {"score": score, "relations": relations, "n_negatives": 3, "gamma": 2.5}
    model = model_of(small_graph, tokenizer, **options).double()
    batch = batch_of(small_graph, tokenizer, **options)
    triples: TripleBatch = batch.triples
    objective = model.objectives["ke"]
    with torch.no_grad():
        vectors = model.encoder.encode_texts(triples.texts)
        positive, negative = objective.scores(vectors, triples)
        losses = {"log_sigmoid": float(model(batch).losses["ke"])}
        for kind in ("margin", "cross_entropy"):
            objective.options = dataclasses.replace(objective.options, loss=kind)
            losses[kind] = float(model(batch).losses["ke"])
    shift = 2.5 if score in ("transe", "rotate") else 0.0
    sums = dict.fromkeys(losses, 0.0)
    for t in range(len(triples)):
        head, tail = int(triples.heads[t]), int(triples.tails[t])
        near = head if triples.head_partners is None else int(triples.head_partners[t])
        far = tail if triples.tail_partners is None else int(triples.tail_partners[t])
        row = objective.relations.detach()[int(triples.relations[t]) - 3]
        relation = row if triples.relation_texts is None else vectors[triples.relation_texts[t]]

        def scored(one: int, other: int, r: Tensor = relation) -> float:
            return shift + slow_score(score, vectors[one], r, vectors[other])

        truth = (scored(near, tail) + scored(head, far)) / 2
        false = [scored(int(i), far) for i in triples.negative_heads[t]]
        false += [scored(near, int(i)) for i in triples.negative_tails[t]]
        assert float(positive[t]) == pytest.approx(truth, rel=1e-9)
        assert negative[t].tolist() == pytest.approx(false, rel=1e-9)
        soft = [math.log1p(math.exp(-truth)), *(math.log1p(math.exp(value)) for value in false)]
        sums["log_sigmoid"] += (soft[0] + sum(soft[1:]) / 6) / 2
        sums["margin"] += sum(max(0.0, 2.5 - truth + value) for value in false) / 6
        sums["cross_entropy"] += math.log(sum(math.exp(v - truth) for v in [truth, *false]))
    for kind, total in sums.items():
        assert losses[kind] == pytest.approx(total / len(triples), rel=1e-6), kind


def test_the_l1_norm_is_an_option(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    batch = batch_of(small_graph, tokenizer)
    triples = batch.triples
    model = model_of(small_graph, tokenizer, norm=1)
    with torch.no_grad():
        vectors = model.encoder.encode_texts(triples.texts)
        positive, _ = model.objectives["ke"].scores(vectors, triples)
        moved = vectors[triples.heads] + model.objectives["ke"].relations[triples.relations - 3]
        expected = 4.0 - (moved - vectors[triples.tails]).abs().sum(1)
    torch.testing.assert_close(positive, expected, atol=1e-4, rtol=1e-5)


def test_it_mixes_with_another_encoder(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    """Texts are words alone, which CoLAKE reads too; the gradient reaches its host."""
    model = model_of(small_graph, tokenizer, encoder=CoLAKE)
    batch = batch_of(small_graph, tokenizer)
    losses = model(batch).losses
    assert losses.keys() == {"ke"}
    losses["ke"].backward()
    assert model.encoder.host.encoder.layer[0].attention.self.query.weight.grad.abs().sum() > 0
    assert model.objectives["ke"].relations.grad.abs().sum() > 0


def test_without_triples_there_is_no_loss(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    model = model_of(small_graph, tokenizer)
    batch = dataclasses.replace(batch_of(small_graph, tokenizer), triples=None)
    assert model(batch).losses == {}


def test_saved_and_loaded_it_says_the_same(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    model = model_of(small_graph, tokenizer, score="complex", gamma=3.0)
    batch = batch_of(small_graph, tokenizer)
    model.save_pretrained(tmp_path)
    again = KnowledgeForPreTraining.from_pretrained(tmp_path, graph=small_graph).eval()
    assert again.objectives["ke"].options == model.objectives["ke"].options
    with torch.no_grad():
        assert torch.equal(again(batch).losses["ke"], model(batch).losses["ke"])


def test_two_tasks_over_two_graphs(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText], tmp_path: Path
) -> None:
    """Each with a table of its own graph's size; the second graph's ids are checked."""
    other = graph_from_records(
        [Triple("dog", "is a", "animal"), Triple("cat", "is a", "animal"),
         Triple("dog", "chases", "cat")]
    )  # fmt: skip
    other.save(tmp_path / "other")
    objectives = {"ke": {"n_triples": 2}, "ke2": {"kg": str(tmp_path / "other"), "gamma": 1.0}}
    data = WordGraphData(
        linked,
        small_graph,
        tokenizer,
        builder=BuilderConfig(replace_mentions=False, max_words=30),
        view=WordsView(),
        objectives=objectives,
    )
    samples = [data.sample(i, epoch=0, seed=0) for i in range(2)]
    batch = data.collate(samples, epoch=0, seed=0, step=0)
    assert batch.triples is not None
    assert batch.second_triples is not None
    assert (len(batch.triples), len(batch.second_triples)) == (2, 3)
    assert "second_triples" in repr(batch)
    host = tiny_host("bert", n_words=len(tokenizer), n_positions=64)
    model = KnowledgeForPreTraining.of(KEPLER.from_host(host, small_graph), objectives)
    losses = model(batch).losses
    assert losses.keys() == {"ke", "ke2"}
    assert len(model.objectives["ke2"].relations) == 2
    assert len(model.objectives["ke"].relations) == small_graph.n_relations
    model.save_pretrained(tmp_path / "model")
    written = model.config.objectives["ke2"]
    assert written["id_space_hash"] == other.id_space_hash
    changed = graph_from_records([Triple("dog", "is a", "plant")])
    changed.save(tmp_path / "other", force=True)
    world = PreparationContext(small_graph, tokenizer, np.zeros(0))
    with pytest.raises(GraphMismatchError, match=other.id_space_hash):
        SecondPreparation.of(KnowledgeEmbeddingOptions(**written), world)
    again = KnowledgeForPreTraining.from_pretrained(tmp_path / "model", graph=small_graph)
    assert len(again.objectives["ke2"].relations) == 2


def test_preparations_are_functions_of_the_step(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    preparation_ = preparation(small_graph, tokenizer, relations="described", n_triples=3)
    sample = preparation_.read(_questions(preparation_, 0)).texts
    copy = pickle.loads(pickle.dumps(preparation_))
    assert copy.fingerprint == preparation_.fingerprint
    one, same, other = (
        each.complete(sample, generator(0, "ke", "batch", step)).triples
        for each, step in ((preparation_, 1), (copy, 1), (preparation_, 2))
    )
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if isinstance(value, Tensor):
            assert torch.equal(value, getattr(same, field.name)), field.name
    assert torch.equal(one.texts.node_ids, same.texts.node_ids)
    assert not torch.equal(one.texts.node_ids, other.texts.node_ids)
    prints = [
        preparation_.fingerprint,
        preparation(small_graph, tokenizer, relations="described", n_triples=4).fingerprint,
        preparation(
            small_graph.with_triples(small_graph.triples[:5], note="fewer"),
            tokenizer,
            relations="described",
            n_triples=3,
        ).fingerprint,
    ]
    assert len(set(prints)) == 3


def test_long_descriptions_are_cut_and_read_in_full_otherwise(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    texts = batch_of(small_graph, tokenizer, n_tokens=12, n_relation_tokens=4).triples.texts
    assert texts.node_mask.sum(1).max() == 12
    ends = texts.node_ids.gather(1, texts.node_mask.sum(1, keepdim=True) - 1)
    assert (ends == tokenizer.sep_token_id).all()
    lost = batch_of(small_graph, tokenizer, n_tokens=12, n_relation_tokens=4, cut="sequence")
    ends = lost.triples.texts.node_ids[:, -1]
    assert not (ends == tokenizer.sep_token_id).all()


def test_refusals(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    with pytest.raises(ConfigError) as faults:
        KnowledgeEmbeddingOptions(
            score="hole", loss="hinge", n_triples=0, read="all", n_relation_tokens=1
        )
    for name in ("hole", "hinge", "n_triples 0", "read 'all'", "n_relation_tokens 1"):
        assert name in str(faults.value)
    with pytest.raises(ConfigError, match="phases"):
        KnowledgeEmbeddingOptions(score="rotate", relations="described")
    empty = small_graph.with_triples(small_graph.triples[:0], note="none")
    with pytest.raises(ConfigError, match="no triples"):
        preparation(empty, tokenizer)
    model = model_of(small_graph, tokenizer)
    plain = batch_of(small_graph, tokenizer)
    beyond = dataclasses.replace(plain.triples, relations=plain.triples.relations + 50)
    with pytest.raises(BatchError, match="the table holds rows 3 to 9"):
        model(dataclasses.replace(plain, triples=beyond))
    conditioned = batch_of(small_graph, tokenizer, relations="conditioned")
    with pytest.raises(BatchError, match="partners do not fit"):
        model(conditioned)
    with pytest.raises(BatchError, match="partners do not fit"):
        model_of(small_graph, tokenizer, relations="conditioned")(plain)
    with pytest.raises(BatchError, match="relation_texts"):
        model_of(small_graph, tokenizer, relations="described")(plain)
