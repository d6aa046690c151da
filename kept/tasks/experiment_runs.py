"""Runs of an experiment: one method with one kind of knowledge and one seed, addressed by a hash.

A folder of runs holds

    runs.jsonl     a `RunRecord` a line, appended when a run is finished
    HASH/          answers, log and curves of a run
    pretrained/    first stages, shared by the seeds of a method and kind of knowledge
    graphs/        the graph without what is asked

Axis legend: node, item (an example).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from filelock import FileLock

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.encoders.base import KnowledgeEncoder
from kept.errors import CheckpointError
from kept.graphs.builder import BuilderConfig
from kept.methods import method
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator, torch_seed
from kept.tasks.answers import ANSWERS, write_answers
from kept.tasks.controls import Knowledge, controlled_graph, controlled_text, without_pairs
from kept.tasks.experiment import Experiment, FurtherPretraining, RunRecord, run_hash
from kept.tasks.finetuning import FinetuneRun, assemble, read_sets
from kept.tasks.finetuning_config import FinetuneConfig
from kept.tasks.finetuning_data import TaskData, pair_ids, prepared
from kept.tasks.finetuning_examples import TASKS, TaskExample, read_examples
from kept.tasks.method_runs import BASELINE, n_trained, objectives_of, sentence_milliseconds, size
from kept.tasks.public_graphs import GRAPHS, TEXTS, public_graph, public_texts
from kept.training.config import TrainConfig, binding
from kept.training.device import process_settings
from kept.training.log import Reporter
from kept.training.loop import Resume, train
from kept.training.methods import builder_for, read_texts, view_for
from kept.training.wordgraphs import WordGraphData, linked_entities
from kg_loaders import KnowledgeGraph

RECORDS = "runs.jsonl"
VERSION = 1
"""Part of every hash; raised when a default changes, as hashes leave defaults out."""
SETS = ("train", "dev", "test")
OF_THE_FIRST_STAGE = (
    "method", "host", "options", "graph", "view", "knowledge", "objectives", "content",
    "pretraining", "control_seed",
)  # fmt: skip
LEFT_BY_A_RUN = (ANSWERS, "log.jsonl", "curves.png")


@dataclass(frozen=True)
class RunKey:
    """Which run of an experiment."""

    method: str
    knowledge: Knowledge
    seed: int

    def __str__(self) -> str:
        return f"{self.method}, knowledge {self.knowledge}, seed {self.seed}"


def planned(methods: Sequence[str], controls: Sequence[Knowledge], seeds: int) -> Iterator[RunKey]:
    """All runs, seed by seed, so that what is done first is whole: the baseline before all."""
    for seed in range(seeds):
        yield RunKey(BASELINE, "off", seed)
        for name in methods:
            if name != BASELINE:
                for knowledge in ("true", *controls):
                    yield RunKey(name, knowledge, seed)


@dataclass(frozen=True, eq=False)
class ExperimentRuns:
    """The runs of `experiment` in `folder`; `root` is where its data lie."""

    experiment: Experiment
    root: Path
    folder: Path
    reporter: Reporter | None = None
    should_stop: Callable[[], bool] | None = None

    # ---- what is shared --------------------------------------------------------------------
    @cached_property
    def files(self) -> dict[str, Path]:
        """The task's files by set."""
        named = {name: self.experiment.task.get(name) for name in SETS}
        return {name: self.root / path for name, path in named.items() if path is not None}

    @cached_property
    def examples(self) -> dict[str, list[TaskExample]]:
        """Every example of the files."""
        kind = self.experiment.task["format"]
        return {name: read_examples(path, kind) for name, path in self.files.items()}

    @cached_property
    def texts(self) -> list[LinkedText]:
        """What the first stage reads: no text of the task, no pair of entities that is asked."""
        plan = self.experiment.pretraining
        if plan is None:
            return []
        found = (
            public_texts(plan.text, self.root)
            if plan.text in TEXTS
            else read_texts([self.root / plan.text])[0]
        )
        asked = {frozenset(e.pair) for part in self.examples.values() for e in part if e.pair}
        own = {_normal(e.linked.text) for part in self.examples.values() for e in part}
        free = [t for t in found if _normal(t.text) not in own and not _pairs(t) & asked]
        order = generator(plan.training.seed, "texts of the first stage").permutation(len(free))
        return [free[i] for i in sorted(order[: plan.n_texts].tolist())]

    @cached_property
    def graph_folder(self) -> Path:
        """The graph, saved, without any triple between two entities that dev or test ask about."""
        name = self.experiment.task["kg"]
        settings = {"kg": str(name), "files": self._digests, "pretraining": self._stage}
        place = self.folder / "graphs" / run_hash(settings)
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_suffix(".lock")):
            if not place.exists():
                self._graph(name).save(place)
        return place

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """See `graph_folder`."""
        return KnowledgeGraph.open(self.graph_folder)

    def _graph(self, name: str) -> KnowledgeGraph:
        if name in GRAPHS:
            linked = [e.linked for part in self.examples.values() for e in part] + self.texts
            entities = dict.fromkeys(k.entity for t in linked for k in t.links if k.entity)
            around = None if self.experiment.task.get("link") else list(entities)
            whole = public_graph(name, self.root, around)
        else:
            whole = KnowledgeGraph.open(self.root / name)
        asked = [e for name in SETS[1:] for e in self.examples.get(name, [])]
        return without_pairs(whole, pair_ids(asked, whole))

    @cached_property
    def _digests(self) -> dict[str, str]:
        found = {}
        for name, path in self.files.items():
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        return found

    @property
    def _stage(self) -> dict[str, Any] | None:
        plan = self.experiment.pretraining
        if plan is None:
            return None
        return {"text": plan.text, "n_texts": plan.n_texts, "training": _binding(plan.training)}

    # ---- one run -----------------------------------------------------------------------------
    def config(self, key: RunKey) -> FinetuneConfig:
        """What `kept finetune` would be given for a run, but for the model of a first stage."""
        own = self.experiment.methods.get(key.method, {})
        values = _merged(self.experiment.task, own)
        values |= dict(self.files)
        values |= {"kg": self.graph_folder, "method": key.method, "knowledge": key.knowledge}
        values.setdefault("data_seed", 0)  # every seed is asked the same
        values["training"] = {**values.get("training", {}), "seed": key.seed}
        if key.method == BASELINE:
            values["knowledge"] = "true"  # it reads none
        return FinetuneConfig.read(None, values)

    def settings(self, key: RunKey) -> dict[str, Any]:
        """All that the outcome of a run depends on."""
        config = self.config(key)
        fixed = config.model_dump(
            mode="json", exclude={*SETS, "kg", "training"}, exclude_defaults=True
        )
        return {
            "version": VERSION,
            **{name: fixed.get(name) for name in OF_THE_FIRST_STAGE},
            **fixed,
            "knowledge": key.knowledge,
            "files": self._digests,
            "content": self.graph.content_hash,
            "training": _binding(config.training),
            "pretraining": self._stage,
            "objectives": dict(objectives_of(key.method, key.knowledge)),
        }

    def name(self, key: RunKey) -> str:
        """The hash of a run."""
        return run_hash(self.settings(key))

    def record(self, key: RunKey) -> RunRecord | None:
        """The finished run, or None."""
        return read_records(self.folder).get(self.name(key))

    def run(self, key: RunKey) -> RunRecord | None:
        """Train, ask and record a run; goes on where an earlier process was cut.

        None: told to stop before the end. NoControlError: the control changes nothing here.
        """
        settings = self.settings(key)
        name = run_hash(settings)
        same = self._same_as_baseline(key, settings)
        if same is not None:
            return self._keep(same)
        pretrained = self._first_stage(key)
        if pretrained is None and self.experiment.pretraining is not None:
            return None
        config = self.config(key)
        if pretrained is not None:
            update: dict[str, Any] = {"model": pretrained, "method": None, "options": {}}
            config = FinetuneConfig.read(None, config.model_dump() | update)
        made = assemble(config, is_pretrained_control=pretrained is not None)
        place = self.folder / name
        ended = train(
            made.model,
            made.data,
            config.training,
            place,
            evaluate=made.evaluate if config.training.evaluate_every else None,
            reporter=self.reporter,
            resume=Resume.IF_ANY,
            should_stop=self.should_stop,
        )
        if ended.stopped != "finished":
            return None
        with process_settings(config.training):
            scores, predictions = made.metrics()
            milliseconds = sentence_milliseconds(made.model, next(iter(made.asked.values())))
        write_answers(place / ANSWERS, made, predictions)
        costs = self._costs(key, made) | {
            "milliseconds_a_sentence": milliseconds,
            "steps": ended.step,
            "seconds": ended.seconds,
            "pretraining": None if pretrained is None else pretrained.name,
        }
        _leave(place)
        return self._keep(
            RunRecord(
                run=name,
                experiment=self.experiment.name,
                method=key.method,
                knowledge=key.knowledge,
                seed=key.seed,
                scores=scores,
                costs=costs,
                settings=settings,
            )
        )

    def asked_data(self, key: RunKey) -> TaskData:
        """The asked set as a run sees it, without a model."""
        config, chosen = self.config(key), method(key.method)
        graph = controlled_graph(self.graph, key.knowledge, config.control_seed)
        tokenizer = hosts.load_tokenizer(config.host)
        sets, _ = read_sets(config, self.graph)
        task = TASKS[config.task]
        return TaskData(
            prepared(
                sets[self.experiment.asked],
                markers=config.markers or task.markers,
                knowledge=key.knowledge,
            ),
            graph,
            tokenizer,
            builder=builder_for(chosen, config.graph or BuilderConfig()),
            view=view_for(chosen, graph, tokenizer, config.view or {}),
            problem_type=task.problem_type,
            labels=None,
        )

    def _costs(self, key: RunKey, made: FinetuneRun) -> dict[str, Any]:
        links = [e.linked for data in made.asked.values() for e in data.examples]
        entities = linked_entities(links, self.graph)[0]
        known = entities[entities >= 0]
        has_facts = np.isin(known, self.graph.triples[:, [0, 2]])
        encoder = made.model.encoder
        return {
            "added": size(encoder) - size(encoder.host),
            "trained": n_trained(made.model),
            "mentions": len(entities),
            "mentions_in_graph": len(known),
            "mentions_with_facts": int(has_facts.sum()),
            "reads_graph": made.train.view.reads_graph,
        }

    def _keep(self, record: RunRecord) -> RunRecord:
        path = self.folder / RECORDS
        with FileLock(path.with_suffix(".lock")), path.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")
        return record

    # ---- no knowledge and no part of its own: the baseline under another name ------------------
    def _same_as_baseline(self, key: RunKey, settings: dict[str, Any]) -> RunRecord | None:
        if key.knowledge != "off" or key.method == BASELINE or not self._is_baseline(key):
            return None
        found = self.record(RunKey(BASELINE, "off", key.seed))
        if found is None:
            return None
        costs = found.costs | {"same_as": found.run}
        shutil.copytree(self.folder / found.run, self.folder / run_hash(settings))
        return dataclasses.replace(
            found,
            run=run_hash(settings),
            method=key.method,
            knowledge=key.knowledge,
            costs=costs,
            settings=settings,
        )

    def _is_baseline(self, key: RunKey) -> bool:
        """Whether method and baseline have as many weights, and the same states bit by bit."""
        own = self.experiment.methods.get(key.method, {})
        base = self.experiment.methods.get(BASELINE, {})
        if own != base:
            return False
        encoders = [self._encoder(name, "off").eval() for name in (key.method, BASELINE)]
        if size(encoders[0]) != size(encoders[1]):
            return False
        texts = [e.linked for e in self.examples["train"][:8]]
        states = []
        for name, encoder in zip((key.method, BASELINE), encoders, strict=True):
            data = self._text_data(name, "off", texts)
            samples = [data.sample(i, epoch=0, seed=0) for i in range(len(data))]
            with torch.no_grad():
                batch = data.collate(samples, epoch=0, seed=0, step=0)
                states.append(encoder(batch).node_states)
        return torch.equal(*states)

    # ---- the first stage ---------------------------------------------------------------------
    def _first_stage(self, key: RunKey) -> Path | None:
        """The folder of the pre-trained model; None where there is no such stage, or on a stop."""
        plan = self.experiment.pretraining
        if plan is None:
            return None
        settings = self.settings(dataclasses.replace(key, seed=0))
        stage = {name: settings[name] for name in OF_THE_FIRST_STAGE}
        place = self.folder / "pretrained" / run_hash(stage)
        if not (place / "tokenizer_config.json").exists():
            if not self._pretrain(key, plan, place):
                return None
            tokenizer = hosts.load_tokenizer(self.config(key).host)
            tokenizer.save_pretrained(place)
            shutil.rmtree(place / "checkpoints")
            description = json.dumps(stage, indent=1, ensure_ascii=False)
            (place / "stage.json").write_text(description + "\n", encoding="utf-8")
        return place

    def _pretrain(self, key: RunKey, plan: FurtherPretraining, place: Path) -> bool:
        encoder = self._encoder(key.method, key.knowledge)
        with torch.random.fork_rng():
            torch.manual_seed(torch_seed(plan.training.seed, "initial weights", "heads"))
            objectives = objectives_of(key.method, key.knowledge)
            model = KnowledgeForPreTraining.of(encoder, objectives)
        data = self._text_data(key.method, key.knowledge, self.texts)
        ended = train(
            model,
            data,
            plan.training,
            place,
            reporter=self.reporter,
            resume=Resume.IF_ANY,
            should_stop=self.should_stop,
        )
        return ended.stopped == "finished"

    def _encoder(self, name: str, knowledge: Knowledge) -> KnowledgeEncoder:
        config = self.config(RunKey(name, knowledge, 0))
        graph = controlled_graph(self.graph, knowledge, config.control_seed)
        with torch.random.fork_rng():
            torch.manual_seed(torch_seed(0, "initial weights", "encoder"))
            return method(name).encoder.for_graph(
                hosts.load_host(config.host),
                graph,
                hosts.load_tokenizer(config.host),
                seed=0,
                **config.options,
            )

    def _text_data(
        self, name: str, knowledge: Knowledge, texts: Sequence[LinkedText]
    ) -> WordGraphData:
        config, chosen = self.config(RunKey(name, knowledge, 0)), method(name)
        graph = controlled_graph(self.graph, knowledge, config.control_seed)
        tokenizer = hosts.load_tokenizer(config.host)
        return WordGraphData(
            [controlled_text(text, knowledge) for text in texts],
            graph,
            tokenizer,
            builder=builder_for(chosen, config.graph or BuilderConfig()),
            view=view_for(chosen, graph, tokenizer, config.view or {}),
            objectives=objectives_of(name, knowledge),
            require_links=knowledge != "off",
        )


def read_records(folder: Path) -> dict[str, RunRecord]:
    """The finished runs of a folder by their hashes; CheckpointError for a line that is none.

    A last line without its end was cut by a kill, and is not counted.
    """
    path = folder / RECORDS
    if not path.exists():
        return {}
    found = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = msgspec.json.decode(line, type=RunRecord)
        except msgspec.DecodeError as error:
            raise CheckpointError(
                f"{path}:{number} is no run ({error}); remove the line"
            ) from error
        found[record.run] = record
    return found


def _binding(training: TrainConfig) -> dict[str, Any]:
    """What of a training's settings touches the weights and is not the default."""
    named = training.model_dump(mode="json", exclude_defaults=True)
    return {name: value for name, value in binding(training).items() if name in named}


def _leave(place: Path) -> None:
    """Of a finished run only what tables and reports read."""
    for path in sorted(place.glob("*")):
        if path.name not in LEFT_BY_A_RUN:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _merged(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`own` over `values`, mappings field by field."""
    found = dict(values)
    for name, value in own.items():
        inner = found.get(name)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        found[name] = _merged(inner, value) if both else value  # type: ignore[arg-type]
    return found


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _pairs(text: LinkedText) -> set[frozenset[str]]:
    names = sorted({link.entity for link in text.links if link.entity})
    return {frozenset((a, b)) for i, a in enumerate(names) for b in names[i + 1 :]}
