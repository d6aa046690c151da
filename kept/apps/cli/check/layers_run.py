"""The work of `kept check layers`: from options to a measured and written study."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kept.apps.cli.terminal import echo
from kept.auto import AutoEncoder
from kept.errors import ConfigError
from kept.lab.probing.layers.edges import require_task
from kept.lab.probing.layers.study import ProbedEncoder, Size, measure
from kept.lab.probing.layers.tables import draw_layers, shortfalls, to_markdown, to_values
from kept.lab.probing.opening import is_ours
from kept.methods import BASELINE
from kept.tasks.datasets.conllu import read_conllu
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.disk.writing import refuse_file, whole_file, write_json, write_text

if TYPE_CHECKING:
    from kept.apps.cli.check.layers import LayersOptions

PAGE, VALUES, CURVES = "layers.md", "layers.json", "layers.png"


def run(options: LayersOptions) -> None:
    """Measure, print and write."""
    models, kg, output, force = options.models, options.kg, options.output, options.force
    train, test = options.train, options.test
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    output.mkdir(parents=True, exist_ok=True)
    for name in (PAGE, VALUES, CURVES):
        refuse_file(output / name, force=force)
    if len({*models}) < len(models):
        raise ConfigError(f"models {', '.join(models)}: one of them is named twice")
    tasks = [name.strip() for name in options.tasks.split(",") if name.strip()]
    for task in tasks:
        require_task(task)
    sizes = Size(options.train_questions, options.test_questions, options.seed)
    readers = _readers(models, kg)
    sentences = list(read_conllu(train)), list(read_conllu(test))
    rows, left_out = [], []
    for task in tasks:
        answers, n_left = measure(readers, sentences, task, sizes)
        rows += answers
        left_out.append(f"{task} {n_left:,}")
        echo(f"{task}: measured", err=True)
    conditions = (
        f"Probes fitted on at most {sizes.train:,} questions a task of {train.name}, tested on at "
        f"most {sizes.test:,} of {test.name}, sentences by seed {sizes.seed}. Questions left out, "
        f"as some encoder cut their words off: {', '.join(left_out)}."
    )
    command = shlex.join(
        ["kept", "check", "layers", *models, *(["--kg", str(kg)] if kg else []), "--train",
         train.name, "--test", test.name, "--tasks", ",".join(tasks), "--train-questions",
         str(sizes.train), "--test-questions", str(sizes.test), "--seed", str(sizes.seed), "-o",
         output.name]
    )  # fmt: skip
    page = to_markdown(rows, command, conditions)
    write_text(output / PAGE, page, force=force)
    write_json(output / VALUES, to_values(rows, command, conditions), force=force)
    with whole_file(output / CURVES, force=force) as part:
        draw_layers(rows, part)
    echo(page, nl=False)
    for line in shortfalls(rows):
        echo(f"warning: {line}")


def _readers(models: Sequence[str], kg: Path | None) -> dict[str, ProbedEncoder]:
    """Each encoder with the graph that it reads, if it reads one; it links as in its training."""
    graph = None if kg is None else KnowledgeGraph.open(kg)
    readers = {}
    for name in models:
        if is_ours(name):
            encoder = AutoEncoder.from_pretrained(name)
        else:
            encoder = AutoEncoder.from_host(BASELINE, name, graph_from_records([]))
        reads = encoder.method.view.reads_graph
        if reads and graph is None:
            raise ConfigError(
                f"{name} ({type(encoder.encoder).__name__}) reads a graph: give --kg, its graph"
            )
        readers[name] = ProbedEncoder(encoder, graph) if reads else ProbedEncoder(encoder)
    if kg is not None and not any(reader.graph for reader in readers.values()):
        raise ConfigError(f"none of {', '.join(models)} reads a graph; leave --kg out")
    return readers
