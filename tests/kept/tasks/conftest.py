"""A made-up world: people who live, work and were born in towns, in sentences that say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

from entity_linking import LinkedText, Mention, RelationExample, gold_link
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

VERBS = {"P19": "of old", "P20": "near the", "P551": "through a", "P69": "and river"}
PEOPLE = [f"p{i:02d}" for i in range(24)]
TOWNS = [f"t{i}" for i in range(6)]


def _example(head: str, relation: str, tail: str, turn: int) -> RelationExample:
    start = "the " * turn
    text = f"{start}{head} {VERBS[relation]} {tail}"
    places = Mention(len(start), len(start) + len(head)), Mention(len(text) - len(tail), len(text))
    links = tuple(
        gold_link(m.start, m.end, name) for m, name in zip(places, (head, tail), strict=True)
    )
    return RelationExample(LinkedText(text, links), head, relation, tail, *places)


@pytest.fixture(scope="session")
def examples() -> list[RelationExample]:
    """Every person in three relations to random towns, each fact in three sentences."""
    draws = np.random.default_rng(0)
    return [
        _example(person, relation, TOWNS[int(town)], turn)
        for person in PEOPLE
        for relation, town in zip(list(VERBS)[:3], draws.permutation(6)[:3], strict=True)
        for turn in range(3)
    ]


@pytest.fixture(scope="session")
def world(examples: list[RelationExample]) -> KnowledgeGraph:
    """The facts of the examples, a school for everyone, and two inverse triples that tell."""
    triples = [Triple(e.head, e.relation, e.tail) for e in examples]
    triples += [Triple(person, "P69", TOWNS[i % 6]) for i, person in enumerate(PEOPLE)]
    triples += [Triple(examples[0].tail, "P1376", examples[0].head)]
    names = [Text(name, TextKind.LABEL, name, "en") for name in (*PEOPLE, *TOWNS)]
    return graph_from_records([*triples, *names])


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    """A tiny random BERT with its tokenizer in a folder."""
    folder = tmp_path_factory.mktemp("host")
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "bert", vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
