"""Descriptions as sequences, and triples with negatives, against slow formulations."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kept.errors import BatchError, ConfigError
from kept.objectives.described_triples import (
    Questions,
    Sequences,
    draw_questions,
    entity_text,
    relation_text,
    text_batch,
    triple_batch,
)
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

START, END = 101, 102
RULES = Sequences(start=START, end=END, n_separators=2, n_tokens=10, n_relation_tokens=4)
PIECES = st.lists(st.integers(0, 90), max_size=14)


@given(PIECES, PIECES)
def test_cutting_texts_keeps_every_end(entity: list[int], relation: list[int]) -> None:
    single, of_relation = RULES.entity(entity), RULES.relation(relation)
    pair = RULES.conditioned(entity, relation)
    assert single == (START, *entity[:8], END)
    assert of_relation == (START, *relation[:2], END)
    assert pair == (START, *entity[: 10 - 4 - len(relation[:2])], END, END, *relation[:2], END)
    assert max(len(single), len(of_relation), len(pair)) <= 10


@given(PIECES, PIECES)
def test_cutting_sequences_loses_ends(entity: list[int], relation: list[int]) -> None:
    rules = dataclasses.replace(RULES, cut="sequence")
    assert rules.entity(entity) == (START, *entity, END)[:10]
    assert rules.relation(relation) == (START, *relation, END)[:4]
    whole = (START, *entity, END, END, *relation, END)
    assert rules.conditioned(entity, relation) == whole[:10]


def test_text_batch_is_a_padded_batch_of_words() -> None:
    batch = text_batch([[5, 6, 7], [8]], pad_id=9)
    assert batch.node_ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert batch.positions.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert batch.node_mask.tolist() == [[True] * 3, [True, False, False]]
    assert batch.visibility.mask[0].all()
    assert torch.equal(batch.visibility.mask[1], torch.eye(3, dtype=torch.bool))
    assert not batch.node_kinds.any()


def test_sequences_take_the_tokenizers_own_ends(tokenizer: Any) -> None:
    rules = Sequences.of(tokenizer, n_tokens=12, n_relation_tokens=4, cut="text")
    pieces = tokenizer("the old city", add_special_tokens=False)["input_ids"]
    assert list(rules.entity(pieces)) == tokenizer("the old city")["input_ids"]
    assert rules.n_separators == 1
    without_ends = type("Bare", (), dict.fromkeys(("cls_token_id", "bos_token_id", "sep_token_id",
                                           "eos_token_id")))()  # fmt: skip
    with pytest.raises(ConfigError, match="no start or no end"):
        Sequences.of(without_ends, n_tokens=12, n_relation_tokens=4, cut="text")


def test_each_text_is_encoded_once() -> None:
    """Every index leads to the row that its slot asks for, and no row is there twice."""
    entities = [[10], [11, 12], [10], [13] * 20]  # 0 and 2 read alike
    relations = [[20], [21, 22, 23]]
    questions = Questions(
        np.array([[0, 1, 1], [2, 0, 3]]), np.array([[3, 0], [1, 1]]), np.array([[0, 2], [0, 1]])
    )
    batch = triple_batch(
        questions,
        entity=entities.__getitem__,
        relation=relations.__getitem__,
        sequences=RULES,
        relations="conditioned",
        pad_id=0,
    )
    rows = [
        tuple(ids[mask].tolist())
        for ids, mask in zip(batch.texts.node_ids, batch.texts.node_mask, strict=True)
    ]
    assert len(set(rows)) == len(rows)
    for slot, ids in (
        ("heads", questions.triples[:, 0]),
        ("tails", questions.triples[:, 2]),
        ("negative_heads", questions.negative_heads),
        ("negative_tails", questions.negative_tails),
    ):
        ids_ = getattr(batch, slot)
        assert ids_.shape == ids.shape
        pairs = zip(ids_.flatten().tolist(), ids.ravel().tolist(), strict=True)
        assert all(rows[row] == RULES.entity(entities[i]) for row, i in pairs)
    assert batch.head_partners is not None
    assert batch.tail_partners is not None
    for row, (head, relation, tail), other in zip(
        batch.head_partners.tolist(),
        questions.triples.tolist(),
        batch.tail_partners.tolist(),
        strict=True,
    ):
        assert rows[row] == RULES.conditioned(entities[head], relations[relation])
        assert rows[other] == RULES.conditioned(entities[tail], relations[relation])
    assert batch.relation_texts is None
    assert batch.relations.tolist() == [4, 3]


@pytest.mark.parametrize("from_batch", [False, True])
@pytest.mark.parametrize("reject_known", [False, True])
def test_negatives_are_false(
    small_graph: KnowledgeGraph, from_batch: bool, reject_known: bool
) -> None:
    known = {tuple(row) for row in small_graph.triples.tolist()}
    n_true, n_outside = 0, 0
    for step in range(60):
        questions = draw_questions(
            small_graph,
            generator(0, "ke", "batch", step),
            n_triples=4,
            n_negatives=5,
            from_batch=from_batch,
            reject_known=reject_known,
        )
        rows = [tuple(row) for row in questions.triples.tolist()]
        assert len(set(rows)) == 4
        assert set(rows) <= known
        pool = set(questions.triples[:, [0, 2]].ravel().tolist())
        for (head, relation, tail), heads, tails in zip(
            rows, questions.negative_heads.tolist(), questions.negative_tails.tolist(), strict=True
        ):
            assert head not in heads
            assert tail not in tails
            corrupted = [(h, relation, tail) for h in heads] + [(head, relation, t) for t in tails]
            n_true += sum(triple in known for triple in corrupted)
            n_outside += len({*heads, *tails} - pool)
    assert (n_true == 0) == reject_known
    assert (n_outside == 0) == from_batch


def test_negatives_are_drawn_evenly(small_graph: KnowledgeGraph) -> None:
    """Each entity that may stand there comes up equally often (chi-square, 1e-6)."""
    draws = generator(1, "even")
    rows = [draw_questions(small_graph, draws, n_triples=15, n_negatives=8) for _ in range(400)]
    index = 3
    heads = np.concatenate([row.negative_heads[index] for row in rows])
    assert all((row.triples[index] == rows[0].triples[index]).all() for row in rows)
    counts = np.bincount(heads, minlength=small_graph.n_entities)
    candidates = np.tile(rows[0].triples[index], (small_graph.n_entities, 1))
    candidates[:, 0] = np.arange(small_graph.n_entities)
    allowed = ~small_graph.contains(candidates.astype(np.int32))
    assert (counts[~allowed] == 0).all()
    expected = len(heads) / allowed.sum()
    assert ((counts[allowed] - expected) ** 2 / expected).sum() < 45


def test_draws_depend_on_the_generator_alone(small_graph: KnowledgeGraph) -> None:
    def triples_of(step: int) -> list[Any]:
        questions = draw_questions(
            small_graph, generator(0, "ke", "batch", step), n_triples=3, n_negatives=2
        )
        return [
            questions.triples.tolist(),
            questions.negative_heads.tolist(),
            questions.negative_tails.tolist(),
        ]

    assert triples_of(1) == triples_of(1)
    assert triples_of(1) != triples_of(2)


def test_the_last_false_entity_is_found_and_none_is_told() -> None:
    """Of 200 entities one is no true head; then none is."""
    names = [f"Q{i}" for i in range(200)]
    graph = graph_from_records([Triple(name, "P1", "Q0") for name in names[:-1]] + [
        Triple("Q0", "P2", "Q199")])  # fmt: skip
    missing = graph.entities.find("Q199")
    tail = graph.entities.find("Q0")
    row = int(np.flatnonzero((graph.triples[:, 1] == 0) & (graph.triples[:, 2] == tail))[0])
    assert row >= 0
    for step in range(5):
        questions = draw_questions(graph, generator(step, "x"), n_triples=200, n_negatives=1)
        of_first = questions.triples[:, 1] == 0
        assert (questions.negative_heads[of_first] == missing).all()
    full = graph_from_records([Triple(name, "P1", "Q0") for name in names])
    with pytest.raises(BatchError, match="reject_known=False"):
        draw_questions(full, generator(0, "x"), n_triples=1, n_negatives=1)
    draw_questions(full, generator(0, "x"), n_triples=1, n_negatives=1, reject_known=False)


def test_a_graph_without_triples_is_refused() -> None:
    graph = graph_from_records([Text("Q1", TextKind.LABEL, "one", "en")])
    with pytest.raises(ConfigError, match="no triples"):
        draw_questions(graph, generator(0, "x"), n_triples=1, n_negatives=1)


def test_what_is_read(small_graph: KnowledgeGraph) -> None:
    paris = small_graph.entities.find("Q90")
    capital = small_graph.relations.find("P36")
    assert paris is not None
    assert capital is not None
    assert entity_text(small_graph, paris, "both") == "Paris: capital of France"
    assert entity_text(small_graph, paris, "description") == "capital of France"
    assert entity_text(small_graph, paris, "label") == "Paris"
    assert relation_text(small_graph, capital, "both") == "capital"  # it has no description
    described = graph_from_records([
        Triple("a", "r", "b"),
        Text("r", TextKind.LABEL, "likes", "en", 0, True),
        Text("r", TextKind.DESCRIPTION, "is fond of", "en", 0, True),
    ])  # fmt: skip
    assert relation_text(described, 0, "both") == "likes: is fond of"
    assert relation_text(described, 0, "description") == "is fond of"
    assert entity_text(described, 0, "description") == "a"
