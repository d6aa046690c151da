"""The control of K-Adapter: does a task use what an adapter has learned of pairs?

The adapter learns the relation of every pair from the graph, by sentences that say nothing of it.
The task is then trained on some of the pairs in other sentences, and tested on the rest, which the
adapter alone has seen.

Axis legend: pair.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from kept.graphs.builder import BuilderConfig
from kept.inputs.controls.conditions import controlled_graph
from kept.inputs.views import builder_for, view_for
from kept.lab.reading.arms import arm
from kept.lab.reading.cell import Cell, Outcome, open_host
from kept.lab.reading.conditions import OFF, REDRAWN, graph_under
from kept.lab.reading.trial import Opened, ReadingTrial, train_bench, training_of
from kept.lab.reading.worlds import SENTENCES, TIES, PrivateWorld, Size, about, named
from kept.methods import method
from kept.objectives.mentions.made_up import made_up_names
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator, torch_seed
from kept.tasks.datasets.example import TaskExample
from kept.training.loop import train
from kept.training.pretraining.data import WordGraphData
from kg_loaders import graph_from_records
from kg_loaders.records import Record, Text, TextKind, Triple

N_PAIRS, N_TEST = 96, 64
TASK_STEPS = 200
LEARNED = ("{a} spoke to {b}.", "{a} and {b} went home.", "{a} called {b}.", "{a} looked at {b}.")
"""Sentences that the adapter learns from; the task has those of `SENTENCES`."""


def trained_pairs(size: Size, seed: int) -> tuple[PrivateWorld, PrivateWorld]:
    """The adapter's pairs, and the task: at most `N_PAIRS` training, `N_TEST` test pairs."""
    n, n_asked = min(size.n_train, N_PAIRS), min(size.n_test, N_TEST)
    draws = generator(seed, "reading control", "pairs")
    names = made_up_names(2 * (n + n_asked), draws)
    people = {f"P{i}": name for i, name in enumerate(names)}
    records: list[Record] = named(people, "person")
    records += [
        Text(f"R{i}", TextKind.LABEL, f"{t} of", is_relation=True) for i, t in enumerate(TIES)
    ]
    classes = draws.permutation(np.arange(n + n_asked) % len(TIES)).tolist()
    ends = [(f"P{2 * i}", f"P{2 * i + 1}") for i in range(n + n_asked)]
    records += [Triple(a, f"R{k}", b) for (a, b), k in zip(ends, classes, strict=True)]
    graph = graph_from_records(records)

    def with_name(person: str) -> tuple[str, str]:
        return person, people[person]

    def examples(texts: tuple[str, ...], start: int, stop: int) -> list[TaskExample]:
        return [
            about(with_name(ends[i][0]), with_name(ends[i][1]), texts, TIES[classes[i]], draws)
            for i in range(start, stop)
        ]

    every = [examples((text,), 0, n + n_asked) for text in LEARNED]
    stage = PrivateWorld(graph, [e for part in every for e in part], [], TIES, "person")
    task = PrivateWorld(
        graph, examples(SENTENCES, 0, n), examples(SENTENCES, n, n + n_asked), TIES, "person"
    )
    return stage, task


def run_pairs(cell: Cell, opened: Opened | None = None) -> Outcome:
    """Train and measure a cell of this control.

    "off" and "anchors-only" leave the adapter at its random initialisation. "redrawn" joins the
    same pairs by other relations. The curve is that of the task, `TASK_STEPS` long.
    """
    began, chosen = time.monotonic(), arm(cell.arm)
    host, tokenizer = opened or open_host(cell.budget)
    stage, task = trained_pairs(cell.size, cell.seed)
    if cell.condition in (REDRAWN, "random-tokens"):
        graph = controlled_graph(stage.graph, "random-tokens", cell.seed, reads="pairs")
    else:
        graph = graph_under(stage.graph, cell.condition, cell.seed)
    line = method(chosen.method)
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(cell.seed, "initial weights"))
        encoder = line.encoder.for_graph(host, graph, tokenizer, seed=cell.seed, **chosen.options)
        model = KnowledgeForPreTraining.of(encoder, chosen.stage["objectives"])
    steps = min(int(chosen.stage.get("steps", cell.budget.steps)), cell.budget.steps)
    if cell.condition != OFF and graph.n_triples:
        data = WordGraphData(
            [example.linked for example in stage.train],
            graph,
            tokenizer,
            builder=builder_for(line, BuilderConfig(), {}),
            view=view_for(line, graph, tokenizer, {}),
            objectives=chosen.stage["objectives"],
            require_read=False,
        )
        with tempfile.TemporaryDirectory(prefix="kept-reading-") as folder:
            train(model, data, training_of(cell, steps, evaluate_every=None), Path(folder))
    trial = ReadingTrial.around(model.encoder, cell, task, stage.graph, tokenizer)
    return train_bench(trial, began, steps=min(TASK_STEPS, cell.budget.steps))
