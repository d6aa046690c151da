"""A graph as facts for a KBLaM, and its answers."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.knowledge_base import (
    Answer,
    KnowledgeBase,
    Prompts,
    answers,
    facts_of_graph,
    padded,
    unit_vectors,
)
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.training import (
    MicroBatch,
    new_optimiser,
    train_step,
    turn_labels,
)
from kept.decoders.kblam.wording import CHATML, Fact
from kept.errors import BatchError
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_chat import WordVectors, chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder

FACTS = [
    Fact("Wexo", "colour", "red"), Fact("Kovo", "colour", "blue"), Fact("Lumo", "colour", "green"),
    Fact("Wexo", "size", "big"), Fact("Kovo", "size", "small"), Fact("Lumo", "size", "tiny"),
]  # fmt: skip


def test_facts_are_by_labels_and_one_for_a_head_and_relation(small_graph: KnowledgeGraph) -> None:
    facts = facts_of_graph(small_graph)
    pairs = {(head, relation) for head, relation, _ in small_graph.triples.tolist()}
    assert len(facts) == len(pairs)
    assert Fact("France", "capital", "Paris") in facts
    assert Fact("Paris", "capital of", "France") in facts
    base = KnowledgeBase.of_graph(small_graph, WordVectors())
    assert list(base.facts) == facts
    assert base.facts[0].key == f"the {base.facts[0].relation} of {base.facts[0].name}"


def test_vectors_belong_to_their_sentences() -> None:
    base = KnowledgeBase.of_facts([*FACTS, FACTS[0]], WordVectors())
    assert base.key_vectors.shape == (7, WordVectors.width)
    assert torch.equal(base.key_vectors[0], base.key_vectors[6])
    alone = unit_vectors(["the colour of Wexo"], WordVectors())
    torch.testing.assert_close(base.key_vectors[0], alone[0])
    lengths = base.value_vectors.norm(dim=1)
    torch.testing.assert_close(lengths, torch.full((7,), math.sqrt(WordVectors.width)))
    part = base[[4, 1]]
    assert part.facts == (FACTS[4], FACTS[1])
    assert torch.equal(part.value_vectors, base.value_vectors[[4, 1]])
    for wrong in ({"facts": ()}, {"facts": tuple(FACTS[:2])}):
        with pytest.raises(BatchError, match="facts with vectors"):
            KnowledgeBase(**wrong, key_vectors=base.key_vectors, value_vectors=base.value_vectors)


def test_prompts_are_padded_on_the_left() -> None:
    tokenizer = chat_tokenizer([CHATML.dialogue(f.question(), f.answer) for f in FACTS])
    prompts = Prompts.of(["What is the colour of Wexo?", "What?"], tokenizer)
    assert prompts.node_mask[:, -1].all()
    assert not prompts.node_mask[1, 0]
    assert tokenizer.decode(prompts.input_ids[0]) == CHATML.prompt("What is the colour of Wexo?")
    ids, mask = padded([[5], [6, 7]], 9)
    assert (ids.tolist(), mask.tolist()) == ([[5, 9], [6, 7]], [[True, False], [True, True]])


def test_values_of_answers() -> None:
    assert Answer(" The colour of Wexo is red.").value == "red"
    assert Answer("no idea").value == "no idea"
    assert Answer("I am sorry I cannot find it.").is_refusal


COLOURS = ["red", "blue", "green"]


def facts_of_step(step: int) -> list[Fact]:
    """Each colour once, in an order of the step's own: only the graph can know it."""
    order = torch.randperm(3, generator=torch.Generator().manual_seed(step)).tolist()
    return [Fact(f.name, f.relation, COLOURS[order[i]]) for i, f in enumerate(FACTS[:3])]


def test_what_the_graph_says_is_said_and_an_edit_is_followed() -> None:
    tokenizer = chat_tokenizer([CHATML.dialogue(f.question(), f.answer) for f in FACTS])
    host = tiny_decoder(
        "llama", vocab_size=len(tokenizer), max_position_embeddings=64, hidden_size=32,
        intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = KBLaM(host, KBLaMConfig(vector_width=WordVectors.width, every=1, scale=6.0)).train()
    n_steps = 250
    optimiser, schedule = new_optimiser(model, n_steps, learning_rate=0.01)
    marker = tokenizer.convert_tokens_to_ids(CHATML.marker)
    for step in range(n_steps):
        facts = facts_of_step(step)
        base = KnowledgeBase.of_facts(facts, WordVectors())
        texts = [CHATML.dialogue(fact.question(), fact.answer) for fact in facts]
        ids, mask = padded(tokenizer(texts)["input_ids"], tokenizer.pad_token_id)
        labels = turn_labels(ids, marker, n_after=2, turn=2, node_mask=mask)
        batch = MicroBatch(ids, mask, labels, torch.arange(3).repeat(3, 1))
        train_step(model, [batch], base.vectors, optimiser, schedule)
    model.eval()
    colours = tokenizer.convert_tokens_to_ids([f" {colour}" for colour in COLOURS])
    predicted, right = [], []
    for step in range(1000, 1006):
        facts = facts_of_step(step)
        tokens = KnowledgeBase.of_facts(facts, WordVectors()).tokens(model)
        prompts = [CHATML.prompt(f.question()) + f"The {f.relation} of {f.name} is" for f in facts]
        ids, mask = padded(tokenizer(prompts)["input_ids"], tokenizer.pad_token_id, side="left")
        with torch.no_grad():
            best = model(ids, mask, tokens).logits[:, -1, colours].argmax(-1)
        predicted += [COLOURS[i] for i in best.tolist()]
        right += [fact.value for fact in facts]
    hits = [one == other for one, other in zip(predicted, right, strict=True)]
    assert sum(hits) >= 14, list(zip(predicted, right, strict=True))  # 6 of 18 by chance
    questions = [fact.question() for fact in facts]
    one, two = (answers(model, tokenizer, questions, tokens, n_new=9, batch_size=n) for n in (1, 3))
    assert one == two
    assert len(one) == 3


def test_several_values_of_a_head_and_a_relation_are_one_fact() -> None:
    """In the order of the triples; another relation or another head is a fact of its own."""
    names = {"a": "Ann", "b": "Bonn", "c": "Cologne", "d": "Dresden"}
    graph = graph_from_records(
        [
            *(Text(node, TextKind.LABEL, name) for node, name in names.items()),
            Triple("a", "lived", "d"), Triple("a", "lived", "b"), Triple("a", "lived", "c"),
            Triple("a", "works", "b"), Triple("b", "lived", "b"),
        ]
    )  # fmt: skip
    facts = facts_of_graph(graph)
    assert [dataclasses.astuple(fact)[:3] for fact in facts] == [
        ("Ann", "lived", "Bonn, Cologne, Dresden"), ("Ann", "works", "Bonn"),
        ("Bonn", "lived", "Bonn"),
    ]  # fmt: skip
