"""Training an arm on a control task, and measuring what it reads before and after.

Axis legend: item (an example).
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from kept import hosts
from kept.encoders.base import KnowledgeEncoder
from kept.graphs.builder import BuilderConfig
from kept.heads.model import KnowledgeForTask
from kept.inputs.views import builder_for, view_for
from kept.lab.reading.arms import Arm, arm
from kept.lab.reading.cell import N_CURVE, SOLVED, Cell, Outcome, open_host
from kept.lab.reading.conditions import (
    OFF,
    REDRAWN,
    TRUE,
    AnotherEntity,
    examples_under,
    graph_under,
)
from kept.lab.reading.measures import (
    gradient_norms,
    probe_accuracy,
    read_states,
    share_moved,
    steps_until,
)
from kept.lab.reading.worlds import TASKS, PrivateWorld
from kept.methods import method
from kept.randomness import generator, torch_seed
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.config import TrainConfig
from kept.training.finetuning.data import TaskData, apply_condition
from kept.training.finetuning.run import predict
from kept.training.loop import train
from kg_loaders import KnowledgeGraph

Opened = tuple[Any, PreTrainedTokenizerBase]
N_PROBE = 400
N_GRADIENT = 64


@dataclass(frozen=True, eq=False)
class ReadingTrial:
    """A cell's world, model and data, ready to be trained."""

    cell: Cell
    arm: Arm
    world: PrivateWorld
    graph: KnowledgeGraph
    tokenizer: PreTrainedTokenizerBase
    model: KnowledgeForTask

    @classmethod
    def of(cls, cell: Cell, opened: Opened, world: PrivateWorld | None = None) -> ReadingTrial:
        """The task's own world or another, and a new encoder on the host that was `opened`."""
        chosen, world = arm(cell.arm), world or TASKS[cell.task](cell.size, cell.seed)
        graph, (host, tokenizer) = graph_under(world.graph, cell.condition, cell.seed), opened
        with torch.random.fork_rng():
            torch.manual_seed(torch_seed(cell.seed, "initial weights"))
            encoder = method(chosen.method).encoder.for_graph(
                host, graph, tokenizer, seed=cell.seed, **chosen.options
            )
        return cls.around(encoder, cell, world, graph, tokenizer)

    @classmethod
    def around(
        cls,
        encoder: KnowledgeEncoder,
        cell: Cell,
        world: PrivateWorld,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
    ) -> ReadingTrial:
        """A new head on an encoder, for the classes of `world`."""
        chosen = arm(cell.arm)
        with torch.random.fork_rng():
            torch.manual_seed(torch_seed(cell.seed, "weights of the head"))
            model = KnowledgeForTask.of(
                encoder,
                chosen.head,
                world.classes,
                problem_type=SINGLE,
                n_targets=len(world.test[0].targets),
                **chosen.head_options,
            )
        if not cell.budget.train_words:
            hosts.word_table(encoder.host).requires_grad_(False)
        return cls(cell, chosen, world, graph, tokenizer, model)

    def data(
        self,
        examples: list[TaskExample],
        *,
        graph: KnowledgeGraph | None = None,
        is_training: bool = False,
        condition: str | None = None,
    ) -> TaskData:
        """Examples as the model's input; facts are dropped only if `is_training`."""
        line, condition = method(self.arm.method), condition or self.cell.condition
        graph = graph or self.graph
        builder = builder_for(line, BuilderConfig(**self.arm.graph), self.arm.view)
        if not is_training:
            builder = dataclasses.replace(builder, drop_probability=0.0)
        relink = None
        if condition == REDRAWN:
            relink = AnotherEntity.of(self.world.graph, self.world.head_type)
        return TaskData(
            apply_condition(
                examples_under(examples, condition), markers=self.arm.markers, knowledge="true"
            ),
            graph,
            self.tokenizer,
            builder=builder,
            view=view_for(line, graph, self.tokenizer, self.arm.view),
            problem_type=SINGLE,
            labels={name: i for i, name in enumerate(self.world.classes)},
            relink=relink,
        )

    def hidden(self) -> TaskData | None:
        """The test set without facts: links without triples where a method reads triples beside the
        text, else no links; None where there are none to remove."""
        if self.cell.condition in (OFF, "anchors-only"):
            return None
        if not method(self.arm.method).shows_facts:
            return self.data(self.world.test, condition=OFF)
        without_facts = graph_under(self.graph, "anchors-only", 0)
        return self.data(self.world.test, graph=without_facts)


def accuracy(model: KnowledgeForTask, data: TaskData, n: int | None = None) -> float:
    """The accuracy on the first `n` items (all)."""
    gold = [example.labels for example in data.examples[:n]]
    return _share(_answers(model, data, n), gold)


def _answers(model: KnowledgeForTask, data: TaskData, n: int | None) -> list[tuple[str, ...]]:
    return list(predict(model, _First(data, n) if n else data, threshold=0.0))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _First:
    """The first `n` items of some data."""

    data: TaskData
    n: int

    def __len__(self) -> int:
        return min(self.n, len(self.data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.data, name)


def _share(answers: Sequence[tuple[str, ...]], gold: Sequence[tuple[str, ...]]) -> float:
    return sum(a == g for a, g in zip(answers, gold, strict=True)) / len(gold)


def run_text_task(cell: Cell, opened: Opened | None = None) -> Outcome:
    """Train and measure a cell whose facts are input with each text; the model is discarded.

    `opened`: a host and its tokenizer instead of the budget's.
    """
    began = time.monotonic()
    trial = ReadingTrial.of(cell, opened or open_host(cell.budget))
    return train_bench(trial, began)


def train_bench(trial: ReadingTrial, began: float, *, steps: int | None = None) -> Outcome:
    """Train a trial for `steps` (the budget's), and measure it before and after.

    `began` is the start of its cell, of `time.monotonic`.
    """
    cell, model, world = trial.cell, trial.model, trial.world
    budget, steps = cell.budget, steps or cell.budget.steps
    training, test = trial.data(world.train, is_training=True), trial.data(world.test)
    is_measured = cell.condition == TRUE and budget.measures
    before = _measured(trial, training, test) if is_measured else None
    curve: list[tuple[int, float]] = [(0, accuracy(model, test, N_CURVE))]
    losses: list[tuple[int, float]] = []

    def evaluate(trained: torch.nn.Module, step: int) -> dict[str, float]:
        curve.append((step, accuracy(model, test, N_CURVE)))
        return {"accuracy": curve[-1][1]}

    with tempfile.TemporaryDirectory(prefix="kept-reading-") as folder:
        result = train(
            model,
            training,
            training_of(cell, steps),
            Path(folder),
            evaluate=evaluate,
            reporter=Losses(losses, budget.every),
            should_stop=lambda: len(curve) > 2 and min(curve[-1][1], curve[-2][1]) >= SOLVED,
        )
    after = None if before is None else _measured(trial, training, test)
    return Outcome(
        task=cell.task,
        arm=cell.arm,
        condition=cell.condition,
        seed=cell.seed,
        accuracy=accuracy(model, test),
        n=len(test),
        chance=world.chance,
        n_classes=len(world.classes),
        curve=curve,
        losses=losses,
        until_good=steps_until(curve, 0.9),
        probe=None if before is None or after is None else (before.probe, after.probe),
        moved=_both(before, after),
        gradients=None if before is None or after is None else (before.gradients, after.gradients),
        edited=edited(trial) if is_measured and world.telling else None,
        stopped_at=result.step,
        steps=steps,
        seconds=time.monotonic() - began,
        settings=cell.settings,
    )


def training_of(cell: Cell, steps: int, **fields: Any) -> TrainConfig:
    """The training settings of a cell for so many steps; `fields` override all."""
    budget = cell.budget
    settings = {
        "seed": cell.seed,
        "steps": steps,
        "batch_size": budget.batch_size,
        "schedule": "constant",
        "warmup_steps": min(budget.warmup_steps, steps),
        "checkpoint_seconds": None,
        "gradient_norms_every": None,
        "log_every": budget.every,
        "evaluate_every": budget.every,
        "learning_rate": budget.learning_rate,
    }
    return TrainConfig(**{**settings, **arm(cell.arm).rates, **fields})


@dataclass(frozen=True, eq=False)
class Losses:
    """Records the loss of every so many steps."""

    records: list[tuple[int, float]]
    every: int

    def step(self, record: Any) -> None:
        if record.step % self.every == 0:
            self.records.append((record.step, record.total_loss))

    def notice(self, message: str) -> None:
        """Not part of a cell's outcome."""


class _Measures(NamedTuple):
    """Probe accuracy, shift of states without facts (None: no facts), gradient norms."""

    probe: float
    moved: float | None
    gradients: dict[str, float]


def _measured(trial: ReadingTrial, training: TaskData, test: TaskData) -> _Measures:
    states = read_states(trial.model, test, len(test))
    probe = probe_accuracy(read_states(trial.model, training, N_PROBE), states)
    hidden, moved = trial.hidden(), None
    if hidden is not None:
        moved = share_moved(states[0], read_states(trial.model, hidden, len(hidden))[0])
    return _Measures(probe, moved, gradient_norms(trial.model, training, N_GRADIENT))


def _both(before: _Measures | None, after: _Measures | None) -> tuple[float, float] | None:
    norms = [each.moved for each in (before, after) if each is not None and each.moved is not None]
    return (norms[0], norms[1]) if len(norms) == 2 else None


def edited(trial: ReadingTrial) -> dict[str, float]:
    """Change the class fact of training heads, and predict again without training.

    Views read the new graph; frozen tables that were computed from the graph (vectors of entities)
    are computed anew from it, from the same seed. Returns the shares "new" and "old", and "n".
    """
    world, n = trial.world, trial.cell.size.n_test
    examples = list(
        {e.linked.links[0].entity: e for e in world.train[:n] if e.linked.links}.values()
    )
    draws = generator(trial.cell.seed, "edited facts")
    numbers = {name: i for i, name in enumerate(world.classes)}
    new_class: dict[str, int] = {}
    for example in examples:
        shift = int(draws.integers(1, len(world.classes)))
        entity = example.linked.links[0].entity or ""
        new_class[entity] = (numbers[example.labels[0]] + shift) % len(world.classes)
    graph = with_facts(world.graph, world.telling, new_class)
    _take_tables(trial, graph)
    answers = _answers(trial.model, trial.data(examples, graph=graph), None)
    new = [(world.classes[new_class[e.linked.links[0].entity or ""]],) for e in examples]
    _take_tables(trial, trial.graph)
    return {
        "new": _share(answers, new),
        "old": _share(answers, [e.labels for e in examples]),
        "n": len(examples),
    }


def with_facts(graph: KnowledgeGraph, relation: str, tails: Mapping[str, int]) -> KnowledgeGraph:
    """`graph` where the fact `relation` of each head leads to the class C0, C1 … of its number."""
    triples = np.array(graph.triples)
    number = graph.relations.find(relation)
    for row in np.flatnonzero(triples[:, 1] == number):
        head = graph.entities.name(int(triples[row, 0]))
        tail = graph.entities.find(f"C{tails[head]}") if head in tails else None
        if tail is not None:
            triples[row, 2] = tail
    return graph.with_triples(triples, note=f"{len(tails)} facts edited")


@torch.no_grad()
def _take_tables(trial: ReadingTrial, graph: KnowledgeGraph) -> None:
    """Set the encoder's frozen tables, if it has any, to those of `graph`."""
    parameters = dict(trial.model.encoder.named_parameters())
    names = [n for n, p in parameters.items() if not n.startswith("host.") and not p.requires_grad]
    if not names:
        return
    host = trial.model.encoder.host
    encoder = method(trial.arm.method).encoder.for_graph(
        host, graph, trial.tokenizer, seed=trial.cell.seed, **trial.arm.options
    )
    for name in names:
        parameters[name].copy_(encoder.get_parameter(name))
