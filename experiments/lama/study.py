"""The rows of the experiment: which there are, and how each is trained from the same weights.

The host has no head over words, so pre-training adds one (and trains the host with it) on the text:
row `host`. Every other row begins with those weights and reads the same batches for as many
further steps: `none` with masked words alone, each method with its own objectives, on a graph
without the probed facts and on one with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from experiments.lama.data import KNOWLEDGE, Knowledge, LamaWorld
from experiments.pretraining.trial import (
    Ledger,
    MethodPlan,
    count_parameters,
    n_sentences,
)
from kept import hosts
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.lab.study.origins import Origin, fingerprint_of, read_stored, write_stored
from kept.methods import Method, method
from kept.objectives.masked_nodes import MaskedNodes
from kept.objectives.masked_words import MaskedWords
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import torch_draws
from kept.training.config import TrainConfig
from kept.training.log import Reporter, read_log
from kept.training.loop import Resume, train
from kg_loaders.disk.writing import write_json

HOST, TEXT_ONLY = "host", "none"
TRAINED, SPENT, RUN_CONFIG = "trained.json", "spent.json", "pretrain.json"
MLM: Mapping[str, Mapping[str, Any]] = {"mlm": {}}


class LamaStudy(BaseModel):
    """The whole experiment: sizes of the probe, the stage that all rows share, and their own.

    `facts_per_relation` are probed, in every row the same; `paraphrased` and `altered` of them in a
    relation are also asked in other words, negated and misprimed. `head` is the pre-training of the
    host, with a seed of its own, so that the rows, trained by `training`, read other batches than
    it did.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "minilm"
    seed: NonNegativeInt = 0
    facts_per_relation: PositiveInt
    paraphrased: PositiveInt
    altered: PositiveInt
    n_texts: PositiveInt
    builder: BuilderConfig
    head: TrainConfig
    training: TrainConfig
    methods: dict[str, MethodPlan]

    @property
    def rows(self) -> list[Row]:
        """Every row, in order."""
        names = [name for name in self.methods if name != TEXT_ONLY]
        with_graph = [Row(name, knowledge) for name in names for knowledge in KNOWLEDGE]
        return [Row(HOST), Row(TEXT_ONLY), *with_graph]

    def row(self, name: str) -> Row:
        """The row called `name`; raises `ConfigError` listing all."""
        rows = {row.name: row for row in self.rows}
        if name not in rows:
            raise ConfigError(f"there is no row {name!r}; there are {', '.join(rows)}")
        return rows[name]

    def training_of(self, row: Row) -> TrainConfig:
        """How a row is trained."""
        if row.method == HOST:
            return self.head
        changes = self.plan(row).training | {"seed": self.seed}
        return TrainConfig.model_validate(self.training.model_dump() | changes)

    def settings_of(self, row: Row) -> str:
        """Fingerprint of what a trained row depends on, the host's pre-training included."""
        shared = {"host", "seed", "facts_per_relation", "n_texts", "builder", "head"}
        first = self.model_dump(mode="json", include=shared)
        if row.method == HOST:
            return fingerprint_of(first)
        own = self.training_of(row).model_dump(mode="json"), self.plan(row).model_dump(mode="json")
        return fingerprint_of(first, row.name, *own)

    def probe_settings_of(self, row: Row) -> str:
        """Fingerprint of what the answers of a row depend on."""
        return fingerprint_of(self.settings_of(row), self.paraphrased, self.altered)

    def plan(self, row: Row) -> MethodPlan:
        """What differs for a row's method."""
        return self.methods.get(row.method, MethodPlan())


@dataclass(frozen=True, slots=True)
class Row:
    """A method and the graph it is trained with; the host and text alone have none."""

    method: str
    knowledge: Knowledge | None = None

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.method if self.knowledge is None else f"{self.method}-{self.knowledge}"

    @property
    def kind(self) -> Method:
        """Its line in the table of methods."""
        return method(TEXT_ONLY if self.method == HOST else self.method)

    @property
    def reads_graph(self) -> bool:
        """Whether its method reads a graph when it answers."""
        return self.kind.view.reads_graph

    def graph_setting(self) -> Knowledge:
        """Which graph it is built with; the rows without knowledge make no use of it."""
        return self.knowledge or "held_out"


def train_row(
    row: Row, study: LamaStudy, world: LamaWorld, out: Path, reporter: Reporter | None = None
) -> dict[str, Any]:
    """Train a row to its end, or go on where it was cut; writes and returns `trained.json`.

    Raises `ConfigError` where the host has not been pre-trained yet, `CheckpointError` where
    it or the row was trained with other settings or data.
    """
    folder = out / row.name
    trained: dict[str, Any] | None = read_trained(row, study, world, out)
    if trained is not None:
        return trained
    objectives = _objectives(row, study)
    model = new_model(row, study, world, out, objectives)
    corpus = world.corpus(row.graph_setting())
    data = corpus.data(row.kind, study.host, study.builder, objectives)
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"host": study.host, "graph": dataclasses.asdict(study.builder), "view": {}}
    write_json(folder / RUN_CONFIG, settings, force=True)
    hosts.load_tokenizer(study.host).save_pretrained(folder)
    config = study.training_of(row)
    ledger = Ledger(folder / SPENT, reporter)
    ledger.start()
    result = train(model, data, config, folder, reporter=ledger, resume=Resume.IF_ANY)
    ledger.write()
    record = {
        "row": row.name,
        "objectives": {name: dict(values) for name, values in objectives.items()},
        "steps": result.step,
        "sentences": n_sentences(data, config, result.step),
        "cpu_minutes": ledger.cpu_seconds / 60,
        "losses": _last_losses(folder),
        "parameters": count_parameters(model),
        "data": str(data),
        "graph": corpus.graph.content_hash,
    }
    write_stored(folder / TRAINED, _origin(row, study, world), record)
    return record


def read_trained(row: Row, study: LamaStudy, world: LamaWorld, out: Path) -> dict[str, Any] | None:
    """The record of a row's training, None before it; raises `CheckpointError` for another."""
    stored: dict[str, Any] | None = read_stored(
        out / row.name / TRAINED, _origin(row, study, world)
    )
    return stored


def _origin(row: Row, study: LamaStudy, world: LamaWorld) -> Origin:
    return {"settings": study.settings_of(row), "data": world.fingerprint}


def new_model(
    row: Row,
    study: LamaStudy,
    world: LamaWorld,
    out: Path,
    objectives: Mapping[str, Mapping[str, Any]],
) -> KnowledgeForPreTraining:
    """A row's model before its training, with the pre-trained weights unless it is that."""
    first = None if row.method == HOST else _pretrained_host(study, world, out)
    host = hosts.load_host(study.host) if first is None else first.encoder.host
    graph, words = world.graphs[row.graph_setting()], hosts.load_tokenizer(study.host)
    with torch_draws(study.seed, "initial weights"):
        encoder = row.kind.new_encoder(
            host, graph, words, seed=study.seed, **study.plan(row).options
        )
        model = KnowledgeForPreTraining.of(encoder, objectives)
    if first is not None:
        copy_head(first, model)
    return model


def copy_head(source: KnowledgeForPreTraining, target: KnowledgeForPreTraining) -> None:
    """Give `target`'s head over words the weights of `source`'s; raises `ConfigError` without."""
    head = source.objectives["mlm"]
    assert isinstance(head, MaskedWords)
    copied = False
    with torch.no_grad():
        for objective in target.objectives.values():
            if isinstance(objective, MaskedWords):
                objective.load_state_dict(head.state_dict())
                copied = True
            elif isinstance(objective, MaskedNodes):
                objective.word_transform.load_state_dict(head.transform.state_dict())
                objective.word_bias.copy_(head.bias)
                copied = True
    if not copied:
        raise ConfigError(f"{list(target.objectives)} have no head over words; add mlm")


def _pretrained_host(study: LamaStudy, world: LamaWorld, out: Path) -> KnowledgeForPreTraining:
    folder = out / HOST
    if read_trained(Row(HOST), study, world, out) is None:
        raise ConfigError(f"{folder} holds no pre-trained {study.host}; run row {HOST!r} first")
    return KnowledgeForPreTraining.from_pretrained(folder)


def _objectives(row: Row, study: LamaStudy) -> Mapping[str, Mapping[str, Any]]:
    """The method's own, and masked words where none of them has a head over words."""
    own = study.plan(row).objectives or row.kind.objectives
    return own if own.keys() & {"mlm", "masked_nodes"} else {**own, **MLM}


def _last_losses(folder: Path) -> dict[str, float]:
    """Means over the last tenth of the steps that were logged."""
    steps = [row["losses"] for row in read_log(folder / "log.jsonl") if row["kind"] == "step"]
    last = steps[-max(1, len(steps) // 10) :]
    names = dict.fromkeys(name for losses in last for name in losses)
    return {name: sum(losses.get(name, 0.0) for losses in last) / len(last) for name in names}
