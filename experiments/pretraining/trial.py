"""`python -m experiments pretraining CONFIG -o RUN [--method M]`: methods for the same time.

Each method is pre-trained under a budget of processor time, in a process of its own, so that its
peak memory is its own. With `--method` only that one is, in this process, and no table is written:
two may run at once. Needs KEPT_DATA; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from experiments.command import announce, data_root, run_study
from experiments.pretraining.data import Corpus, read_corpus
from kept import hosts
from kept.batches import KnowledgeBatch
from kept.graphs.builder import BuilderConfig
from kept.lab.study.store import stored_once
from kept.lab.study.tables import Table
from kept.methods import METHODS, Method, method
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import torch_draws
from kept.training.config import RunConfig, TrainConfig
from kept.training.costs import peak_memory_mib
from kept.training.finetuning.model_costs import n_trained, size
from kept.training.log import Reporter, StepRecord
from kept.training.loop import Resume, train
from kept.training.pretraining.data import WordGraphData
from kept.training.stream import BatchStream
from kg_loaders.disk.writing import write_json

GRAPH, RESULT, BEFORE, SPENT = "kg", "result.json", "before.json", "spent.json"


class MethodPlan(BaseModel):
    """What differs for one method: options of its encoder, its objectives, fields of training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: dict[str, Any] = {}
    objectives: dict[str, dict[str, Any]] = {}
    training: dict[str, Any] = {}


class PretrainingStudy(RunConfig):
    """The whole experiment. `methods` without entries means every method there is."""

    host: str = "minilm"
    seed: NonNegativeInt = 0
    cpu_minutes: PositiveFloat
    n_held_out: PositiveInt
    builder: BuilderConfig
    training: TrainConfig
    methods: dict[str, MethodPlan] = Field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The methods, in order."""
        return list(self.methods or METHODS)

    def plan(self, name: str) -> MethodPlan:
        """The plan of a method; the defaults where none is written."""
        method(name)
        return self.methods.get(name, MethodPlan())

    def training_of(self, name: str, cpu_minutes: float) -> TrainConfig:
        """The method's training with so much processor time left."""
        changes = self.plan(name).training | {
            "seed": self.seed,
            "budget_cpu_minutes": max(cpu_minutes, 1e-9),
        }
        return TrainConfig.model_validate(self.training.model_dump() | changes)


class Ledger:
    """A `Reporter` that keeps the processor time and memory of a run over resumes."""

    def __init__(self, path: Path, inner: Reporter | None = None, *, every: float = 10.0) -> None:
        self._path, self._inner, self._every = path, inner, every
        known = json.loads(path.read_text()) if path.exists() else {}
        self.cpu_seconds_before = float(known.get("cpu_seconds", 0.0))
        self.peak_memory_before = float(known.get("peak_memory_mib", 0.0))
        self._started = self._written = time.process_time()

    @property
    def cpu_seconds(self) -> float:
        """Since the run's first step, in every process that worked on it."""
        return self.cpu_seconds_before + time.process_time() - self._started

    @property
    def peak_memory_mib(self) -> float:
        """The most that one of these processes has held."""
        return max(self.peak_memory_before, peak_memory_mib())

    def start(self) -> None:
        """Begin to count."""
        self._started = self._written = time.process_time()

    def write(self) -> None:
        """Keep what has been spent so far."""
        spent = {"cpu_seconds": self.cpu_seconds, "peak_memory_mib": self.peak_memory_mib}
        write_json(self._path, spent, force=True)
        self._written = time.process_time()

    def step(self, record: StepRecord) -> None:
        if time.process_time() - self._written >= self._every:
            self.write()
        if self._inner is not None:
            self._inner.step(record)

    def notice(self, message: str) -> None:
        if self._inner is not None:
            self._inner.notice(message)


def run_method(
    name: str,
    study: PretrainingStudy,
    corpus: Corpus,
    folder: Path,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Pre-train a method until its budget is spent; goes on where an earlier process stopped.

    Writes and returns what `result.json` in `folder` holds.
    """
    return stored_once(
        folder / RESULT, dict[str, Any], lambda: _trained(name, study, corpus, folder, reporter)
    )


def _trained(
    name: str, study: PretrainingStudy, corpus: Corpus, folder: Path, reporter: Reporter | None
) -> dict[str, Any]:
    hosts.load_tokenizer(study.host).save_pretrained(folder)  # the run's encoder opens by itself
    chosen, plan = method(name), study.plan(name)
    objectives = plan.objectives or chosen.objectives
    parts = corpus.split(study.n_held_out, seed=study.seed)
    data, held_out = (p.data(chosen, study.host, study.builder, objectives) for p in parts)
    batches = held_out_batches(held_out, study.training_of(name, study.cpu_minutes))
    model = new_model(chosen, study, corpus, plan, objectives)
    ready = peak_memory_mib()
    before = stored_once(folder / BEFORE, dict[str, float], lambda: mean_losses(model, batches))
    ledger = Ledger(folder / SPENT, reporter)
    config = study.training_of(name, study.cpu_minutes - ledger.cpu_seconds_before / 60)
    counts = count_parameters(model)
    ledger.start()
    trained = train(model, data, config, folder, reporter=ledger, resume=Resume.IF_ANY)
    ledger.write()
    sentences = n_sentences(data, config, trained.step)
    return {
        "method": name,
        "paper": chosen.paper,
        "objectives": {key: dict(value) for key, value in objectives.items()},
        "stopped": trained.stopped,
        "steps": trained.step,
        "sentences": sentences,
        "cpu_minutes": ledger.cpu_seconds / 60,
        "sentences_per_cpu_second": sentences / ledger.cpu_seconds,
        "losses_before": before,
        "losses_after": mean_losses(model, batches),
        "parameters": counts,
        "memory_mib": {"before training": ready, "peak": ledger.peak_memory_mib},
        "data": {"training": str(data), "held out": str(held_out)},
        "graph": corpus.graph.content_hash,
        "torch": str(torch.__version__),
    }


def new_model(
    chosen: Method,
    study: PretrainingStudy,
    corpus: Corpus,
    plan: MethodPlan,
    objectives: Mapping[str, Mapping[str, Any]],
) -> KnowledgeForPreTraining:
    """The untrained model; the same weights in every process."""
    host, tokenizer = hosts.load_host(study.host), hosts.load_tokenizer(study.host)
    with torch_draws(study.seed, "initial weights"):
        encoder = chosen.new_encoder(host, corpus.graph, tokenizer, seed=study.seed, **plan.options)
        return KnowledgeForPreTraining.of(encoder, objectives)


def held_out_batches(data: WordGraphData, config: TrainConfig) -> list[KnowledgeBatch]:
    """Every held-out sentence once, masked and completed once for all: the same at every step."""
    stream = BatchStream(
        data, seed=config.seed, batch_size=config.batch_size, node_budget=config.node_budget
    )
    return [stream[number] for number in range(stream.n_batches(0))]


@torch.no_grad()
def mean_losses(
    model: KnowledgeForPreTraining, batches: Sequence[KnowledgeBatch]
) -> dict[str, float]:
    """Each loss, averaged over the batches that have it, without dropout."""
    model.eval()
    losses: dict[str, list[float]] = {}
    for batch in batches:
        for name, value in model(batch).losses.items():
            losses.setdefault(name, []).append(value.item())
    return {name: sum(values) / len(values) for name, values in losses.items()}


def count_parameters(model: KnowledgeForPreTraining) -> dict[str, int]:
    """Numbers of weights: the host's, added by the encoder and by the heads, and those trained."""
    encoder = model.encoder
    n_host, n_encoder = size(encoder.host), size(encoder)
    return {
        "host": n_host,
        "added by the encoder": n_encoder - n_host,
        "added by the objectives": size(model) - n_encoder,
        "trained": n_trained(model),
    }


def n_sentences(data: WordGraphData, config: TrainConfig, n_steps: int) -> int:
    """How many sentences so many steps have read, repeats counted."""
    stream = BatchStream(
        data, seed=config.seed, batch_size=config.batch_size, node_budget=config.node_budget
    )
    n_batches, total, epoch = n_steps * config.accumulate, 0, 0
    while n_batches >= stream.n_batches(epoch):
        n_batches -= stream.n_batches(epoch)
        total, epoch = total + len(data), epoch + 1
    first = sum(stream.n_batches(e) for e in range(epoch))
    return total + sum(len(stream.locate(first + i)[1]) for i in range(n_batches))


def to_markdown(results: Sequence[Mapping[str, Any]], study: PretrainingStudy) -> str:
    """The table of all methods, one row per method and loss."""
    builder = dataclasses.asdict(study.builder)
    about = (
        f"Host {study.host}, {study.cpu_minutes:g} CPU-minutes a method, seed {study.seed}, "
        f"batches of {study.training.batch_size} sentences, learning rate "
        f"{study.training.learning_rate:g} ({study.training.entity_learning_rate:g} of entity "
        f"rows), graphs: {builder['max_words']} word pieces and {builder['max_neighbours']} facts "
        "an anchor at most."
    )
    columns = (
        "method", "steps", "sentences", "sentences / CPU s", "CPU min",
        "parameters added (encoder + heads)", "trained", "peak memory MiB (before training)",
    )  # fmt: skip
    costs, losses = [], []
    for row in results:
        count, memory = row["parameters"], row["memory_mib"]
        costs.append([
            row["method"], f"{row['steps']:,}", f"{row['sentences']:,}",
            f"{row['sentences_per_cpu_second']:.1f}", f"{row['cpu_minutes']:.1f}",
            f"{count['added by the encoder']:,} + {count['added by the objectives']:,}",
            f"{count['trained']:,}", f"{memory['peak']:,.0f} ({memory['before training']:,.0f})",
        ])  # fmt: skip
        for name, before in row["losses_before"].items():
            after = row["losses_after"][name]
            losses.append([row["method"], name, f"{before:.3f}", f"{after:.3f}"])
    first = results[0]["data"]
    parts = (
        about, Table(columns, costs).compact(),
        Table(("method", "loss", "held out, before", "held out, after"), losses).compact(),
        f"Training: {first['training']}. Held out: {first['held out']}.",
    )  # fmt: skip
    return "\n\n".join(parts) + "\n"


class Printer:
    """A `Reporter` that prints every hundredth step."""

    def step(self, record: StepRecord) -> None:
        if record.step % 100 == 0:
            losses = "  ".join(f"{name} {value:.2f}" for name, value in record.losses.items())
            announce(f"  step {record.step}  {losses}  {record.seconds:.0f} s")

    def notice(self, message: str) -> None:
        announce(f"  {message}")


def run(study: PretrainingStudy, arguments: argparse.Namespace) -> tuple[str, object] | None:
    """Train one method here, or every missing one by a process of its own; then return the page."""
    if arguments.method is not None:
        torch.set_num_threads(study.training.threads or torch.get_num_threads())
        corpus = read_corpus(data_root())
        announce(f"{arguments.method}: {corpus}")
        if not (arguments.out / GRAPH).exists():
            corpus.graph.save(arguments.out / GRAPH)
        announce(
            str(
                run_method(
                    arguments.method, study, corpus, arguments.out / arguments.method, Printer()
                )
            )
        )
        return None
    for name in study.names:
        if not (arguments.out / name / RESULT).exists():
            words = [
                "pretraining",
                str(arguments.config),
                "-o",
                str(arguments.out),
                "--method",
                name,
            ]
            subprocess.run([sys.executable, "-m", "experiments", *words], check=True)
    results = [json.loads((arguments.out / name / RESULT).read_text()) for name in study.names]
    return to_markdown(results, study), results


if __name__ == "__main__":
    about = "run this method alone, in this process, and no table"
    run_study(__doc__, PretrainingStudy, run, {"--method": {"help": about}})
