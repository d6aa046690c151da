"""A made-up world: people who live, work and were born in towns, in sentences that say so."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny_task_files import relation_examples, wiki80_row, world_graph
from transformers import AutoConfig, AutoModel

from entity_linking import RelationExample
from entity_linking.annotations import write_jsonl
from kept.tasks.experiment import Experiment
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


@pytest.fixture(scope="session")
def experiment_root(
    tmp_path_factory: pytest.TempPathFactory,
    examples: list[RelationExample],
    world: KnowledgeGraph,
    host: Path,
) -> Path:
    """Files of a task, a graph, texts and an experiment of two steps a stage."""
    root = tmp_path_factory.mktemp("experiment")
    for name, part in (("train", examples[:60]), ("dev", examples[60:100])):
        lines = [json.dumps(wiki80_row(example)) for example in part]
        (root / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    world.save(root / "kg")
    texts = [dataclasses.replace(e.linked, text=e.linked.text) for e in examples[130:170]]
    write_jsonl(texts, root / "texts.jsonl")
    training = {"batch_size": 8, "learning_rate": 0.01, "checkpoint_seconds": None}
    experiment = {
        "name": "tiny",
        "task": {
            "task": "relation", "format": "wiki80", "train": "train.txt", "dev": "dev.txt",
            "kg": "kg", "host": str(host), "markers": "none", "max_asked": 30,
            "graph": {"max_words": 24, "max_nodes": 48}, "training": {**training, "steps": 2},
        },
        "pretraining": {
            "text": "texts.jsonl", "n_texts": 16, "training": {**training, "steps": 2},
        },
        "methods": {"ernie": {"options": {"vector_epochs": 1, "entity_width": 8}}},
        "published": [{"system": "X", "metric": "accuracy", "value": 0.5, "where": "nowhere"}],
        "differs": "Everything.",
    }  # fmt: skip
    (root / "tiny.yaml").write_text(yaml.safe_dump(experiment), encoding="utf-8")
    return root


@pytest.fixture
def experiment(experiment_root: Path) -> Experiment:
    return Experiment.read(experiment_root / "tiny.yaml")
