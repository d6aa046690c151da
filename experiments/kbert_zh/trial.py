"""`python -m experiments kbert_zh CONFIG -o RUN`: fine-tune K-BERT on Chinese texts, and compare.

Needs KEPT_DATA. There is one training a seed and kind of knowledge; what is stored is not done
again, and a run that was cut goes on where it stopped.

Axis legend: text, seed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from experiments.command import CELL_OPTIONS, Results, announce, data_root, run_cells, run_study
from experiments.kbert_zh.data import counts, link, read_examples, read_graph, subset
from experiments.kbert_zh.tables import summary, to_markdown
from kept.encoders.kbert import KBERT
from kept.errors import CheckpointError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import KBERTView
from kept.heads.model import KnowledgeForTask
from kept.inputs.controls.conditions import COMPARED, controlled_graph
from kept.lab.study.cells import CellTrial
from kept.lab.study.origins import Origin
from kept.randomness import torch_draws
from kept.tasks.datasets.chinese import character_tokenizer, subject_linker
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.config import RunConfig, TrainConfig
from kept.training.finetuning.data import TaskData
from kept.training.log import Reporter, StepRecord
from kept.training.loop import Resume, train
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_text

TEXTS_AT_ONCE = 64


class ChineseConfig(RunConfig):
    """What is run. `published`: accuracy of the paper's code (dev, test) by kind of knowledge."""

    dataset: str
    graph: str
    classes: tuple[str, ...] = ("0", "1")
    n_train: PositiveInt
    n_test: PositiveInt
    seeds: tuple[NonNegativeInt, ...]
    min_count: PositiveInt = 2
    min_length: PositiveInt = 2
    host: dict[str, Any]
    builder: dict[str, Any] = Field(default_factory=dict)
    view: dict[str, Any] = Field(default_factory=dict)
    head: dict[str, Any] = Field(default_factory=dict)
    training: TrainConfig
    published: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class ChineseWorld:
    """The graph, the words and the texts of all runs."""

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


@dataclass(frozen=True)
class ChineseTrial(CellTrial):
    """A row is a kind of knowledge."""

    config: ChineseConfig
    world: ChineseWorld
    folder: Path
    reporter: Reporter | None = None
    rows = COMPARED

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.config.seeds

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.folder / f"{row}-{seed}.json"

    def origin(self, row: str, seed: int) -> Origin:
        """Return SHA-256 of all that a result depends on: not `published` and `seeds`."""
        written = self.config.model_dump_json(exclude={"published", "seeds"})
        return {"fingerprint": hashlib.sha256(written.encode()).hexdigest()}

    def read(self, row: str, seed: int) -> dict[str, Any] | None:
        """Return a stored result; raises `CheckpointError` for one of another configuration."""
        path = self.path(row, seed)
        if not path.exists():
            return None
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if result["fingerprint"] != self.origin(row, seed)["fingerprint"]:
            raise CheckpointError(f"{path} is of another configuration; choose another folder")
        return result

    def write(self, row: str, seed: int, cell: Any) -> None:
        """See `CellTrial.write`."""
        write_text(self.path(row, seed), json.dumps(cell) + "\n")

    def run(self, row: str, seed: int) -> dict[str, Any]:
        """Train one model and return its answers to every test text."""
        world, config = self.world, self.config
        graph = controlled_graph(world.graph, row, seed)  # type: ignore[arg-type]
        train_data, test_data = (
            TaskData(
                examples, graph, world.tokenizer,
                builder=BuilderConfig(replace_mentions=False, **config.builder),
                view=KBERTView.of(graph, world.tokenizer, **config.view),
                problem_type=SINGLE, labels={name: i for i, name in enumerate(config.classes)},
            )
            for examples in (world.train, world.test)
        )  # fmt: skip
        model = new_model(world, graph, config, seed)
        training = config.training.model_copy(update={"seed": seed})
        run_folder = self.path(row, seed).with_suffix("")
        outcome = train(
            model, train_data, training, run_folder, reporter=self.reporter, resume=Resume.IF_ANY
        )
        outcome.require_end()
        correct, n_nodes = answer(model, test_data)
        return {
            **self.origin(row, seed),
            "knowledge": row,
            "seed": seed,
            "accuracy": float(correct.mean()),
            "correct": correct.astype(int).tolist(),
            "nodes_per_text": n_nodes,
            "seconds": outcome.seconds,
            "loss": None if outcome.last is None else outcome.last.losses["class"],
        }

    def summary(self, row: str, seed: int, cell: dict[str, Any]) -> str:
        """See `CellTrial.summary`."""
        name = self.path(row, seed).name
        return f"{name}: accuracy {cell['accuracy']:.4f}, {cell['seconds']:.0f} s"


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


class Printer:
    """Prints every fiftieth step."""

    def step(self, record: StepRecord) -> None:
        """Print a step with its loss."""
        if record.step % 50 == 0 or record.step == record.n_steps:
            announce(f"  step {record.step}/{record.n_steps}  loss {record.losses['class']:.3f}")

    def notice(self, message: str) -> None:
        """Print a message."""
        announce(f"  {message}")


def run(config: ChineseConfig, arguments: argparse.Namespace) -> Results | None:
    """Run what is missing; return the page and what it shows."""
    world = read_world(data_root() / "kbert_zh", config)
    announce(json.dumps(world.counts(), ensure_ascii=False))
    cells = run_cells(ChineseTrial(config, world, arguments.out, Printer()), arguments)
    if cells is None:
        return None
    values = summary(cells, world.counts())
    return to_markdown(values, config.published), values


if __name__ == "__main__":
    run_study(__doc__, ChineseConfig, run, CELL_OPTIONS)
