"""A small word-piece tokenizer and made-up linked texts."""

from __future__ import annotations

import dataclasses
import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel
from typer.testing import CliRunner

from entity_linking import RelationExample
from entity_linking.annotations import write_jsonl
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.apps.cli import app
from kept.lab.comparison.experiment import Experiment
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import fast_tokenizer
from tests.kept.tiny_task_files import relation_examples, wiki80_row, world_graph

WORDS = ["the", "river", "flows", "through", "city", "of", "old", "and", "near", "a"]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Lower-casing word pieces: ten words and single letters, so that names fall apart."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *string.punctuation]
    names += [c for c in string.ascii_lowercase + string.digits if c not in names]
    names += [f"##{c}" for c in string.ascii_lowercase + string.digits]
    inner = Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return fast_tokenizer(inner)


def linked_text(names: list[str | None], graph: KnowledgeGraph) -> LinkedText:
    """A text that mentions `names` (entities, plain words, None for NIL) in order, all linked."""
    text, links = "", []
    for i, name in enumerate(names):
        if name in WORDS:
            text += f"{name} "
            continue
        entity = None if name is None else graph.entities.find(name)
        surface = "nobody" if entity is None else graph.label(entity)
        mention = Mention(len(text), len(text) + len(surface))
        confidence = 1 / (i + 1)
        candidates = () if name is None else (Candidate(name, 0.5, 0.5),)
        links.append(Link(mention, candidates, name, confidence))
        text += f"{surface} "
    return LinkedText(text.rstrip(), tuple(links))


@pytest.fixture(scope="session")
def linked(small_graph: KnowledgeGraph) -> list[LinkedText]:
    """Forty texts of words, entities, unknown entities and NIL links."""
    generator = np.random.default_rng(3)
    pool = [*WORDS, *WORDS, *small_graph.entities, *small_graph.entities, "Q-unknown", None]
    texts = []
    for _ in range(40):
        chosen = generator.integers(len(pool), size=int(generator.integers(1, 14)))
        texts.append(linked_text([pool[i] for i in chosen], small_graph))
    return texts


# ---- a made-up world: people who live, work and were born in towns, in sentences that say so ---
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
        "as_published": True,
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


@pytest.fixture(scope="module")
def finetuned(
    examples: list[RelationExample],
    world: KnowledgeGraph,
    host: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with a run of one step on texts with a class each, and its graph."""
    folder = tmp_path_factory.mktemp("finetuned")
    lines = [f"{example.relation}\t{example.linked.text}" for example in examples[:40]]
    (folder / "train.tsv").write_text("\n".join(lines), encoding="utf-8")
    world.save(folder / "kg")
    arguments = [
        "finetune", "--task", "classification", "--format", "tsv", "--link", "--method", "kbert",
        "--train", str(folder / "train.tsv"), "--kg", str(folder / "kg"), "--host", str(host),
        "--steps", "1", "--batch-size", "4", "-o", str(folder / "run"), "--device", "cpu",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return folder
