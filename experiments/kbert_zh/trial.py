"""`python -m experiments kbert_zh CONFIG -o RUN`: fine-tune K-BERT on Chinese texts, and compare.

Needs KEPT_DATA. There is one training a seed and kind of knowledge; what is stored is not done
again, and a run that was cut goes on where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from experiments.command import CELL_OPTIONS, Results, announce, data_root, run_cells, run_study
from kept.encoders.kbert import KBERT
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import KBERTView
from kept.heads.model import KnowledgeForTask
from kept.inputs.controls.conditions import COMPARED, controlled_graph
from kept.lab.study.cells import (
    CellTrial,
    counts_of_digits,
    digits,
    mean_effect,
    page_of,
    paired_effects,
    share,
)
from kept.lab.study.origins import Origin, fingerprint_of
from kept.lab.study.tables import Table, with_interval
from kept.randomness import generator, torch_draws
from kept.tasks.datasets.chinese import character_tokenizer, subject_linker
from kept.tasks.datasets.formats import TaskExample, read_tsv
from kept.tasks.kinds import SINGLE
from kept.training.config import RunConfig, TrainConfig
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.run import predict
from kept.training.loop import Resume, train
from kg_loaders import KnowledgeGraph, Source, load
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError

DIFFERENCES = ("true", "off"), ("true", "shuffled")


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


# ---- the data ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ChineseWorld:
    """The graph, the words and the texts of all runs."""

    graph: KnowledgeGraph
    tokenizer: PreTrainedTokenizerFast
    train: list[TaskExample]
    test: list[TaskExample]

    def counts(self) -> dict[str, Any]:
        """Return sizes, the share of the largest class, and how much of the test is linked."""
        n_links = [len(example.linked.links) for example in self.test]
        labels = [example.labels[0] for example in self.test]
        return {
            "graph": repr(self.graph),
            "characters": len(self.tokenizer),
            "train_texts": len(self.train),
            "texts": len(self.test),
            "majority": max(map(labels.count, set(labels))) / len(labels),
            "linked_texts": sum(n > 0 for n in n_links),
            "mentions_per_text": float(np.mean(n_links)),
        }


def read_world(data: Path, config: ChineseConfig) -> ChineseWorld:
    """Texts and graph from the folder of K-BERT's data; the linker reads every subject."""
    graph, _ = load([Source(data / "kgs" / f"{config.graph}.spo.gz", "spo")])
    linker = subject_linker(graph, min_length=config.min_length)
    parts = []
    for name, n in (("train", config.n_train), ("test", config.n_test)):
        examples = read_examples(data / config.dataset / f"{name}.tsv.gz", config.classes)
        if n < len(examples):
            rows = np.sort(generator(0, name).choice(len(examples), n, replace=False))
            examples = [examples[i] for i in rows.tolist()]
        links = linker.link([example.linked.text for example in examples])
        parts.append([dataclasses.replace(e, linked=linked)
                      for e, linked in zip(examples, links, strict=True)])  # fmt: skip
    texts = [example.linked.text for example in parts[0]]
    return ChineseWorld(graph, character_tokenizer(texts, min_count=config.min_count), *parts)


def read_examples(path: Path, classes: Sequence[str]) -> list[TaskExample]:
    """A `label<TAB>text_a` file of K-BERT's; raises `SourceError` for a label outside `classes`."""
    examples = list(read_tsv(path, DamageReport()))
    for example in examples:
        if example.labels[0] not in classes:
            raise SourceError(
                f"{path}, line {example.linked.id}: label {example.labels[0]!r} is none of "
                f"{list(classes)}"
            )
    return examples


# ---- the runs ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ChineseTrial(CellTrial):
    """A row is a kind of knowledge; its cell has the digits of right answers."""

    config: ChineseConfig
    world: ChineseWorld
    folder: Path
    rows = COMPARED

    def seeds(self, row: str) -> Sequence[int]:
        """See `CellTrial.seeds`."""
        return self.config.seeds

    def origin(self, row: str, seed: int) -> Origin:
        """Return a fingerprint of all that a result depends on: not `published` and `seeds`."""
        fields = self.config.model_dump(mode="json", exclude={"published", "seeds"})
        return {"settings": fingerprint_of(fields)}

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
        outcome = train(
            model, train_data, training, self.folder / f"{row}-{seed}", resume=Resume.IF_ANY
        )
        outcome.require_end()
        answers = predict(model, test_data, threshold=0.0)
        samples = test_data.samples(range(len(test_data)), epoch=0, seed=0)
        return {
            "right": digits(a == e.labels for a, e in zip(answers, world.test, strict=True)),
            "nodes_per_text": float(np.mean([sample.node_ids.shape[1] for sample in samples])),
            "seconds": outcome.seconds,
        }

    def summary(self, row: str, seed: int, cell: dict[str, Any]) -> str:
        """See `CellTrial.summary`."""
        accuracy = share(cell["right"])
        return f"{row}, seed {seed}: accuracy {accuracy:.4f}, {cell['seconds']:.0f} s"


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


# ---- the page ------------------------------------------------------------------------------------
def page(
    cells: Mapping[str, Mapping[int, Any]], sizes: Mapping[str, Any],
    published: Mapping[str, Sequence[float]], command: str,
) -> str:  # fmt: skip
    """Return accuracies and differences over seeds and texts, then the published numbers."""
    counts = {row: {seed: counts_of_digits(cell["right"], range(len(cell["right"])))
                    for seed, cell in of_row.items()} for row, of_row in cells.items()}  # fmt: skip
    rows = []
    for row, of_row in cells.items():
        means = [np.mean([cell[name] for cell in of_row.values()])
                 for name in ("nodes_per_text", "seconds")]  # fmt: skip
        of_seeds = ", ".join(f"{share(cell['right']):.4f}" for cell in of_row.values())
        score = with_interval(mean_effect(counts[row].values()))
        rows.append([row, score, of_seeds, *(f"{mean:.0f}" for mean in means)])
    differences = [[name, with_interval(gap, "+"), f"{gap.p:.3f}"]
                   for name, gap in paired_effects(counts, DIFFERENCES)]  # fmt: skip
    return page_of(
        "K-BERT on Chinese texts", command,
        Table(("knowledge", "accuracy", "of each seed", "nodes a text", "s a run"), rows),
        Table(("difference", "estimate", "p"), differences),
        f"Counts: {', '.join(f'{name} {value}' for name, value in sizes.items())}.",
        Table(("published (K-BERT's README)", "dev", "test"),
              [[name, *scores] for name, scores in published.items()]),
    )  # fmt: skip


def run(config: ChineseConfig, arguments: argparse.Namespace) -> Results | None:
    """Run what is missing; return the page and what it shows."""
    world = read_world(data_root() / "kbert_zh", config)
    announce(str(world.counts()))
    if (cells := run_cells(ChineseTrial(config, world, arguments.out), arguments)) is None:
        return None
    return page(cells, world.counts(), config.published, arguments.command), cells


if __name__ == "__main__":
    run_study(__doc__, ChineseConfig, run, CELL_OPTIONS)
