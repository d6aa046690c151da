"""Pairs of mentions that a triple joins: as a stupid search finds them, drawn by the generator."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders.colake import CoLAKE
from kept.encoders.kadapter import KAdapter
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig, build_many
from kept.graphs.views import WORDS_ONLY, linked_words
from kept.objectives.model import KnowledgeForPreTraining
from kept.objectives.relation_pairs import RelationPairsPreparation, joined_pairs
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import small_batch, tiny_host


@pytest.fixture(scope="module")
def samples(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> list[KnowledgeBatch]:
    config = BuilderConfig(max_words=40, **WORDS_ONLY)
    graphs = build_many(linked, tokenizer, small_graph, seed=0, config=config)
    return [linked_words(graph) for graph in graphs]


def test_mentions_stand_where_their_words_are(
    samples: list[KnowledgeBatch],
    small_graph: KnowledgeGraph,
    tokenizer: Any,
) -> None:
    n_mentions = 0
    for sample in samples:
        for (start, end), row in zip(
            sample.mention_spans[0].tolist(), sample.mention_labels[0].tolist(), strict=True
        ):
            label = small_graph.label(row - N_SPECIAL_ROWS)
            expected = tokenizer(label, add_special_tokens=False)["input_ids"]
            assert sample.node_ids[0, start:end].tolist() == expected
            n_mentions += 1
    assert n_mentions > 40


def test_joined_pairs_are_those_of_a_search_over_all_triples(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph
) -> None:
    n_facts = 0
    for sample in samples:
        entities = sample.mention_labels[0].numpy() - N_SPECIAL_ROWS
        expected = sorted(
            (i, r, j)
            for h, r, t in small_graph.triples.tolist()
            for i, head in enumerate(entities)
            for j, tail in enumerate(entities)
            if i != j and (head, tail) == (h, t)
        )
        pairs = joined_pairs(entities, small_graph)
        assert [tuple(fact) for fact in pairs.tolist()] == expected
        n_facts += len(expected)
    assert n_facts > 20
    assert joined_pairs(np.array([-1, -3]), small_graph).shape == (0, 3)


def test_a_mark_is_one_of_the_pairs_and_every_pair_is_drawn(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph
) -> None:
    preparation = RelationPairsPreparation(small_graph)
    n_without = 0
    for sample in samples:
        entities = sample.mention_labels[0].numpy() - N_SPECIAL_ROWS
        facts = {tuple(fact) for fact in joined_pairs(entities, small_graph).tolist()}
        spans = sample.mention_spans[0].tolist()
        pairs = set()
        for epoch in range(30):
            marked = preparation.mark(sample, generator(0, "pairs", epoch))
            again = preparation.mark(sample, generator(0, "pairs", epoch))
            assert torch.equal(marked.target_spans, again.target_spans)
            if not facts:
                assert marked.labels.tolist() == [IGNORE]
                assert not marked.target_spans.any()
                continue
            head, tail = (spans.index(span) for span in marked.target_spans[0].tolist())
            pairs.add((head, int(marked.labels), tail))
        n_without += not facts
        assert pairs <= facts
        assert pairs == facts or len(facts) > 5
    assert 0 < n_without < len(samples)
    whole = KnowledgeBatch.stack(
        [preparation.mark(sample, generator(0, "pairs")) for sample in samples]
    )
    assert whole.target_spans.shape == (len(samples), 2, 2)


def test_samples_without_a_pair_neither_count_nor_break(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph
) -> None:
    preparation = RelationPairsPreparation(small_graph)
    marked = [preparation.mark(sample, generator(0, i)) for i, sample in enumerate(samples)]
    having = [sample for sample in marked if int(sample.labels) != IGNORE]
    without = [sample for sample in marked if int(sample.labels) == IGNORE]
    encoder = KAdapter.from_host(tiny_host(n_words=120, n_positions=64), small_graph)
    model = KnowledgeForPreTraining.of(encoder, {"relation_pairs": {}}).eval()
    mixed = model(KnowledgeBatch.stack(having[:3] + without[:2])).losses["relation_pairs"]
    pure = model(KnowledgeBatch.stack(having[:3])).losses["relation_pairs"]
    torch.testing.assert_close(mixed, pure)
    none = model(KnowledgeBatch.stack(without)).losses["relation_pairs"]
    assert none.item() == 0
    none.backward()


def test_an_encoder_without_adapters_learns_it_too(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph
) -> None:
    encoder = CoLAKE.from_host(tiny_host(n_words=120, n_positions=64), small_graph)
    model = KnowledgeForPreTraining.of(encoder, {"relation_pairs": {}})
    marked = [RelationPairsPreparation(small_graph).mark(s, generator(0)) for s in samples]
    loss = model(KnowledgeBatch.stack(marked)).losses["relation_pairs"]
    loss.backward()
    assert encoder.host.embeddings.word_embeddings.weight.grad is not None
    with pytest.raises(ConfigError, match="CoLAKE has no adapter 'factual'"):
        KnowledgeForPreTraining.of(encoder, {"relation_pairs": {"adapter": "factual"}})


def test_a_view_without_mentions_is_refused(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph
) -> None:
    without_mentions = dataclasses.replace(samples[0], mention_labels=None)
    with pytest.raises(BatchError, match="LinkedWordsView"):
        RelationPairsPreparation(small_graph).mark(without_mentions, generator(0))


def test_without_labels_there_is_no_loss(small_graph: KnowledgeGraph) -> None:
    encoder = KAdapter.from_host(tiny_host(), small_graph)
    model = KnowledgeForPreTraining.of(encoder, {"relation_pairs": {}})
    batch = dataclasses.replace(small_batch(), node_kinds=torch.zeros(2, 8, dtype=torch.int64))
    assert model(batch).losses == {}


def test_a_fixed_head_stands_still_and_the_adapter_learns(
    samples: list[KnowledgeBatch], small_graph: KnowledgeGraph
) -> None:
    heads = []
    for scale in (None, 0.25):
        torch.manual_seed(0)
        encoder = KAdapter.from_host(tiny_host(), small_graph)
        options = {"alone": True, "fixed_head": scale, "dropout": 0.0}
        model = KnowledgeForPreTraining.of(encoder, {"relation_pairs": options})
        heads.append(model.objectives["relation_pairs"])
        batch = small_batch().replace(
            target_spans=torch.tensor([[[1, 2], [3, 4]]] * 2), labels=torch.tensor([0, 1])
        )
        model(batch).losses["relation_pairs"].backward()
        moving = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}
        assert any(name.startswith("encoder.adapters.") for name in moving)
        of_head = {n for n in moving if ".dense." in n and n.startswith("objectives")}
        assert bool(of_head) is (scale is None)
        assert any("com_dense" in name for name in moving)
    trained, fixed = heads
    torch.testing.assert_close(fixed.dense.weight, trained.dense.weight * 0.25)
    with pytest.raises(ConfigError, match="fixed_head -1"):
        KnowledgeForPreTraining.of(encoder, {"relation_pairs": {"fixed_head": -1.0}})
