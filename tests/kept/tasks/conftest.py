"""A made-up world: people who live, work and were born in towns, in sentences that say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_task_files import relation_examples, world_graph
from transformers import AutoConfig, AutoModel

from entity_linking import RelationExample
from kg_loaders import KnowledgeGraph


@pytest.fixture(scope="session")
def examples() -> list[RelationExample]:
    """Every person in three relations to random towns, each fact in three sentences."""
    return relation_examples()


@pytest.fixture(scope="session")
def world(examples: list[RelationExample]) -> KnowledgeGraph:
    """The facts of the examples and some more."""
    return world_graph(examples)


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
