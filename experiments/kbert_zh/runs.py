"""One training a seed and kind of knowledge, each leaving a file; what is there is not done again.

Axis legend: text, seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from experiments.kbert_zh.data import counts, link, read_examples, read_graph, subset
from kept.encoders.kbert import KBERT
from kept.errors import CheckpointError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import KBERTView
from kept.heads.model import KnowledgeForTask
from kept.inputs.controls.conditions import COMPARED, Knowledge, controlled_graph
from kept.randomness import torch_draws
from kept.tasks.datasets.chinese import character_tokenizer, subject_linker
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.config import TrainConfig
from kept.training.finetuning.data import TaskData
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_text

TEXTS_AT_ONCE = 64


class ChineseConfig(BaseModel):
    """What is run. `published`: accuracy of the paper's code (dev, test) by kind of knowledge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    graph: str
    classes: tuple[str, ...] = ("0", "1")
    n_train: PositiveInt
    n_test: PositiveInt
    seeds: tuple[NonNegativeInt, ...]
    min_count: PositiveInt = 2
    min_length: PositiveInt = 2
    host: dict[str, Any]
    builder: dict[str, Any] = {}
    view: dict[str, Any] = {}
    head: dict[str, Any] = {}
    training: TrainConfig
    published: dict[str, Any] = {}


@dataclass(frozen=True)
class ChineseWorld:
    """Everything that runs share."""

    graph: KnowledgeGraph
    tokenizer: PreTrainedTokenizerFast
    train: list[TaskExample]
    test: list[TaskExample]

    def counts(self) -> dict[str, Any]:
        """Sizes of graph and vocabulary, and what the linker found in the test texts."""
        return {
            "graph": repr(self.graph),
            "characters": len(self.tokenizer),
            "train_texts": len(self.train),
            **counts(self.test),
        }


def read_world(data: Path, config: ChineseConfig) -> ChineseWorld:
    """Texts and graph from the folder of K-BERT's data; the linker reads every subject."""
    graph = read_graph(data / "kgs" / f"{config.graph}.spo.gz")
    linker = subject_linker(graph, min_length=config.min_length)
    train, test = (
        link(
            subset(
                read_examples(data / config.dataset / f"{name}.tsv.gz", config.classes),
                n, seed=0, name=name,
            ),
            linker,
        )
        for name, n in (("train", config.n_train), ("test", config.n_test))
    )  # fmt: skip
    texts = [example.linked.text for example in train]
    return ChineseWorld(graph, character_tokenizer(texts, min_count=config.min_count), train, test)


def run_all(
    world: ChineseWorld,
    config: ChineseConfig,
    folder: Path,
    *,
    reporter: Reporter | None = None,
    announce: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Every seed with every kind of knowledge, in this order; raises `CheckpointError` for results
    of another configuration."""
    results = []
    for seed in config.seeds:
        for knowledge in COMPARED:
            path = folder / f"{knowledge}-{seed}.json"
            if path.exists():
                announce(f"{path.name}: done")
                results.append(_read(path, config))
                continue
            result = run_one(world, config, knowledge, seed, folder, reporter)
            write_text(path, json.dumps(result) + "\n")
            announce(f"{path.name}: accuracy {result['accuracy']:.4f}, {result['seconds']:.0f} s")
            results.append(result)
    return results


def run_one(
    world: ChineseWorld,
    config: ChineseConfig,
    knowledge: Knowledge,
    seed: int,
    folder: Path,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Train one model and ask it for every test text; what is saved is a plain dictionary."""
    graph = controlled_graph(world.graph, knowledge, seed)
    view = KBERTView.of(graph, world.tokenizer, **config.view)
    builder = BuilderConfig(replace_mentions=False, **config.builder)

    def data(examples: list[TaskExample]) -> TaskData:
        return TaskData(
            examples,
            graph,
            world.tokenizer,
            builder=builder,
            view=view,
            problem_type=SINGLE,
            labels={name: i for i, name in enumerate(config.classes)},
        )

    model = new_model(world, graph, config, seed)
    training = config.training.model_copy(update={"seed": seed})
    outcome = train(
        model,
        data(world.train),
        training,
        folder / f"{knowledge}-{seed}",
        reporter=reporter,
        resume=Resume.IF_ANY,
    )
    outcome.require_end()
    correct, n_nodes = answer(model, data(world.test))
    return {
        "fingerprint": fingerprint(config),
        "knowledge": knowledge,
        "seed": seed,
        "accuracy": float(correct.mean()),
        "correct": correct.astype(int).tolist(),
        "nodes_per_text": n_nodes,
        "seconds": outcome.seconds,
        "loss": None if outcome.last is None else outcome.last.losses["class"],
    }


def new_model(
    world: ChineseWorld, graph: KnowledgeGraph, config: ChineseConfig, seed: int
) -> KnowledgeForTask:
    """A small BERT over characters with UER's head; one seed, the same weights in every control."""
    with torch_draws(seed, "initial weights"):
        host = AutoModel.from_config(
            AutoConfig.for_model(
                "bert", vocab_size=len(world.tokenizer), pad_token_id=0, **config.host
            )
        )
        encoder = KBERT.from_host(host, graph)
        return KnowledgeForTask.of(encoder, "uer", config.classes, **config.head)


@torch.no_grad()
def answer(model: KnowledgeForTask, data: TaskData) -> tuple[NDArray[np.bool_], float]:
    """Whether each text gets its class, `[text]`, and the mean number of nodes."""
    model.eval()
    correct, n_nodes = [], 0
    for start in range(0, len(data), TEXTS_AT_ONCE):
        rows = range(start, min(start + TEXTS_AT_ONCE, len(data)))
        samples = [data.sample(i, epoch=0, seed=0) for i in rows]
        n_nodes += sum(sample.node_ids.shape[1] for sample in samples)
        batch = data.collate(samples, epoch=0, seed=0, step=0).to(model.device)
        chosen = model(batch).class_logits.argmax(1)
        correct.append((chosen == batch.labels).cpu().numpy())
    return np.concatenate(correct), n_nodes / len(data)


def fingerprint(config: ChineseConfig) -> str:
    """SHA-256 of everything that results depend on; `published` and `seeds` do not matter."""
    written = config.model_dump_json(exclude={"published", "seeds"})
    return hashlib.sha256(written.encode()).hexdigest()


def _read(path: Path, config: ChineseConfig) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text())
    if result["fingerprint"] != fingerprint(config):
        raise CheckpointError(f"{path} is of another configuration; choose another folder")
    return result
