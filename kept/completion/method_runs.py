"""One method with one kind of knowledge: pre-trained, fine-tuned to tell relations, and asked.

Every run has the same host, sentences, steps, batches, rates and seed; what differs is the method
and the graph. Kinds of knowledge (`kept.controls.conditions`), in both stages:

- "true": the method as its line in `kept.methods` says, with that line's objectives.
- "shuffled": the same on the graph whose objects are shuffled within each relation. Whatever comes
  from the graph is made from that one: neighbours, entity vectors, triples, labels of pairs.
- "off": no link and no triple. Only masked words can be asked then, so `mlm` takes the place of the
  method's objectives, for as many steps; K-Adapter's adapter is trained by it.

Axis legend: node, item (an example).
"""

from __future__ import annotations

import dataclasses
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, NonNegativeInt, PositiveInt, field_validator
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.completion.rankers import with_knowledge
from kept.completion.split import CompletionSplit
from kept.controls.conditions import COMPARED, Knowledge, controlled_text, objectives_of
from kept.datasets.formats import TASKS, TaskExample, from_relation
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.finetuning.data import TaskData, prepared
from kept.finetuning.model_costs import n_trained, sentence_milliseconds, size
from kept.finetuning.run import predict
from kept.graphs.builder import BuilderConfig
from kept.heads.model import SINGLE, KnowledgeForTask
from kept.methods import BASELINE, METHODS, Method, method
from kept.objectives.model import KnowledgeForPreTraining
from kept.pretraining.assembly import builder_for, drawn_in_pretraining
from kept.pretraining.data import WordGraphData, linked_entities
from kept.randomness import torch_draws
from kept.training.config import RunConfig, TrainConfig, binding
from kept.training.device import process_settings
from kept.training.log import Reporter, read_log
from kept.training.loop import Resume, train
from kg_loaders import KnowledgeGraph

STAGES = ("pretraining", "finetuning")
N_AVERAGED = 5
"""Steps behind a first or last loss."""

Losses = dict[str, tuple[float, float]]


class MethodsConfig(RunConfig):
    """What a comparison of methods runs.

    `options`: by method, those of its encoder. `markers` are put around the entities that are
    asked about, alike for all. Seeds of both trainings are `seed`.
    """

    methods: tuple[str, ...] = tuple(METHODS)
    host: str = "minilm"
    seed: NonNegativeInt = 0
    builder: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    markers: str = TASKS["relation"].markers
    pretraining: TrainConfig
    finetuning: TrainConfig
    n_resamples: PositiveInt = 2000

    @field_validator("methods", "options")
    @classmethod
    def _known(cls, names: Any) -> Any:
        for name in names:
            method(name)
        return names

    def training(self, stage: str) -> TrainConfig:
        """The configuration of a stage, with the common seed."""
        chosen: TrainConfig = getattr(self, stage)
        return chosen.model_copy(update={"seed": self.seed})

    def of_run(self, name: str) -> dict[str, Any]:
        """All that the outcome of one method's runs depends on, as JSON values."""
        shared = self.model_dump(mode="json", include={"host", "seed", "builder", "markers"})
        stages = {stage: binding(self.training(stage)) for stage in STAGES}
        own: dict[str, Any] = {"options": self.options.get(name, {})}
        if drawn := drawn_in_pretraining(method(name), BuilderConfig(**self.builder)):
            own["in_pretraining"] = drawn
        return shared | stages | own


@dataclass(frozen=True)
class Outcome:
    """A finished run. `losses`: by name, the mean of the first and of the last few steps.

    `predictions`: by setting, a relation for each asked item. `linked`: mentions of the asked
    sentences that brought an entity to the method, and all mentions. `added`: parameters beside the
    host's (the encoder's, the pre-training heads'); `trained`: those that move, by stage.
    `milliseconds`: the model's time for a sentence in a batch of 32, median. `is_baseline`: without
    knowledge this method is the baseline itself and was not trained again. `coverage`: by setting,
    `kept.graphs.coverage.Coverage.as_json`; None in files of before it was recorded.
    """

    method: str
    knowledge: Knowledge
    predictions: dict[str, list[str]]
    losses: Losses
    linked: tuple[int, int]
    added: tuple[int, int]
    trained: tuple[int, int]
    milliseconds: float
    seconds: tuple[float, float]
    is_baseline: bool = False
    coverage: dict[str, dict[str, Any]] | None = None


@dataclass(frozen=True, eq=False)
class MethodRuns:
    """What all runs share, and how each is made."""

    split: CompletionSplit
    config: MethodsConfig
    reporter: Reporter | None = None
    should_stop: Callable[[], bool] | None = None

    @cached_property
    def train(self) -> list[TaskExample]:
        """What is fine-tuned on."""
        return list(map(from_relation, self.split.train))

    @cached_property
    def texts(self) -> list[LinkedText]:
        """The distinct sentences of `train`: what is pre-trained on."""
        return list({e.linked.text: e.linked for e in self.split.train}.values())

    @cached_property
    def labels(self) -> list[str]:
        """The relations that can be answered."""
        return sorted({label for example in self.train for label in example.labels})

    @cached_property
    def asked(self) -> dict[str, list[TaskExample]]:
        """What is asked, by setting."""
        return {name: list(map(from_relation, part)) for name, part in self.split.tests.items()}

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The host's own."""
        return hosts.load_tokenizer(self.config.host)

    @cached_property
    def graphs(self) -> dict[Knowledge, tuple[KnowledgeGraph, KnowledgeGraph]]:
        """What training may see, and what is shown when asked, by knowledge."""
        return {name: with_knowledge(self.split, name, self.config.seed) for name in COMPARED}

    def run(self, name: str, knowledge: Knowledge, folder: Path) -> Outcome | None:
        """Train and ask; goes on where an earlier process stopped. None: told to stop before the
        end. Of what training leaves, the logs and curves stay."""
        made = self._pretrain(name, knowledge, folder / "pretraining")
        if made is None:
            return None
        model, added, moved = made
        task = self._task(model.encoder, name, knowledge, folder / "finetuning")
        if task is None:
            return None
        trained = (moved, n_trained(task))
        asked = {
            setting: self._data(name, knowledge, examples, asked=True)
            for setting, examples in self.asked.items()
        }
        with process_settings(self.config.finetuning):
            answers = {key: predict(task, data, threshold=0.0) for key, data in asked.items()}
            milliseconds = sentence_milliseconds(task, next(iter(asked.values())))
        return Outcome(
            method=name,
            knowledge=knowledge,
            predictions={key: [label for (label,) in rows] for key, rows in answers.items()},
            losses={k: v for stage in STAGES for k, v in _losses(folder / stage).items()},
            linked=self._linked(name, asked),
            added=added,
            trained=trained,
            milliseconds=milliseconds,
            seconds=(_seconds(folder / "pretraining"), _seconds(folder / "finetuning")),
            coverage={key: data.coverage.as_json() for key, data in asked.items()},
        )

    def is_baseline(self, name: str) -> bool:
        """Whether the method without knowledge is the host alone: it adds no parameter, and gives
        the same states, bit by bit, on a batch of what it is trained on."""
        encoders = [self._encoder(each, "off").eval() for each in (name, BASELINE)]
        if size(encoders[0]) != size(encoders[1]):
            return False
        states = []
        for each, encoder in zip((name, BASELINE), encoders, strict=True):
            data = self._texts_data(each, "off")
            samples = [data.sample(i, epoch=0, seed=0) for i in range(min(8, len(data)))]
            with torch.no_grad():
                batch = data.collate(samples, epoch=0, seed=0, step=0)
                states.append(encoder(batch).node_states)
        return torch.equal(*states)

    # ---- stages ------------------------------------------------------------------------------
    def _pretrain(
        self, name: str, knowledge: Knowledge, folder: Path
    ) -> tuple[KnowledgeForPreTraining, tuple[int, int], int] | None:
        encoder = self._encoder(name, knowledge)
        with self._drawn("heads"):
            model = KnowledgeForPreTraining.of(encoder, objectives_of(name, knowledge))
        n_host, n_encoder, n_all = size(encoder.host), size(encoder), size(model)
        moved = n_trained(model)
        if not self._train(model, self._texts_data(name, knowledge), "pretraining", folder):
            return None
        return model, (n_encoder - n_host, n_all - n_encoder), moved

    def _task(
        self, encoder: KnowledgeEncoder, name: str, knowledge: Knowledge, folder: Path
    ) -> KnowledgeForTask | None:
        task = TASKS["relation"]
        options: dict[str, Any] = dict(task.head_options)
        with self._drawn("task head"):
            model = KnowledgeForTask.of(
                encoder, task.head, self.labels, problem_type=SINGLE, **options
            )
        data = self._data(name, knowledge, self.train, asked=False)
        if knowledge == "true":
            data.require_read("the training sentences", is_linked=False, needs_facts=True)
        return model if self._train(model, data, "finetuning", folder) else None

    def _train(self, model: Any, data: Any, stage: str, folder: Path) -> bool:
        ended = train(
            model,
            data,
            self.config.training(stage),
            folder,
            reporter=self.reporter,
            resume=Resume.IF_ANY,
            should_stop=self.should_stop,
        )
        return ended.stopped == "finished"

    # ---- parts -------------------------------------------------------------------------------
    def _encoder(self, name: str, knowledge: Knowledge) -> KnowledgeEncoder:
        config, (graph, _) = self.config, self.graphs[knowledge]
        with self._drawn("encoder"):
            return method(name).new_encoder(
                config.host,
                graph,
                self.tokenizer,
                seed=config.seed,
                **config.options.get(name, {}),
            )

    def _texts_data(self, name: str, knowledge: Knowledge) -> WordGraphData:
        chosen, (graph, _) = method(name), self.graphs[knowledge]
        return WordGraphData(
            [controlled_text(text, knowledge) for text in self.texts],
            graph,
            self.tokenizer,
            builder=self._builder(chosen, in_pretraining=True),
            view=chosen.view.of(graph, self.tokenizer),
            objectives=objectives_of(name, knowledge),
            require_links=knowledge != "off",
            require_read=knowledge == "true",
        )

    def _data(
        self, name: str, knowledge: Knowledge, examples: Sequence[TaskExample], *, asked: bool
    ) -> TaskData:
        chosen, builder = method(name), self._builder(method(name))
        if asked:
            builder = dataclasses.replace(builder, drop_probability=0.0)
        graph = self.graphs[knowledge][1 if asked else 0]
        data = TaskData(
            prepared(examples, markers=self.config.markers, knowledge=knowledge),
            graph,
            self.tokenizer,
            builder=builder,
            view=chosen.view.of(graph, self.tokenizer),
            problem_type=SINGLE,
            labels=None if asked else {label: i for i, label in enumerate(self.labels)},
        )
        if asked and data.skipped:
            raise ConfigError(
                f"{data.skipped} of the asked sentences: raise max_words of the builder, "
                f"now {builder.max_words}"
            )
        return data

    def _builder(self, chosen: Method, *, in_pretraining: bool = False) -> BuilderConfig:
        return builder_for(
            chosen, BuilderConfig(**self.config.builder), in_pretraining=in_pretraining
        )

    def _linked(self, name: str, asked: Mapping[str, TaskData]) -> tuple[int, int]:
        n_linked = 0
        for data in asked.values():
            if data.view.reads_graph:
                found, _ = linked_entities([e.linked for e in data.examples], data.graph)
                n_linked += int((found >= 0).sum())
        mentions = [len(e.linked.links) for part in self.asked.values() for e in part]
        return n_linked, sum(mentions)

    @contextmanager
    def _drawn(self, what: str) -> Iterator[None]:
        """First weights of `what`, the same in every run that has it."""
        with torch_draws(self.config.seed, "initial weights", what):
            yield


def drop_weights(folder: Path) -> None:
    """Leave of a run's two trainings the logs and the curves."""
    for stage in STAGES:
        for path in sorted((folder / stage).glob("*")):
            if path.name not in ("log.jsonl", "curves.png"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _losses(folder: Path) -> Losses:
    steps = [row["losses"] for row in read_log(folder / "log.jsonl") if row["kind"] == "step"]
    first, last = steps[:N_AVERAGED], steps[-N_AVERAGED:]
    return {
        name: (
            statistics.fmean(step[name] for step in first),
            statistics.fmean(step[name] for step in last),
        )
        for name in steps[0]
    }


def _seconds(folder: Path) -> float:
    return float(read_log(folder / "log.jsonl")[-1]["seconds"])
