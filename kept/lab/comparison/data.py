"""What all runs of an experiment share: its files, its graph without evaluated pairs, its texts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kept.inputs.controls.conditions import without_pairs
from kept.inputs.flat_texts import read_texts
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import files_of_task
from kept.lab.study.addresses import binding_of, digests_of, run_hash
from kept.methods import BASELINE
from kept.randomness import generator
from kept.tasks.datasets.formats import TaskExample, read_examples
from kept.tasks.datasets.public_graphs import GRAPHS, TEXTS, public_graph, public_texts
from kept.tasks.kinds import TASKS
from kept.training.config import TrainConfig
from kept.training.finetuning.assembly import read_sets
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import pair_ids
from kept.training.finetuning.task_files import SETS, FurtherTask
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import WAIT_SECONDS, claim, tidy
from kg_loaders.reading.lines import read_whole

EVALUATION_FIELDS = (
    "task", "format", "link", "case", "dev_share", "test_share", "data_seed", "leave_out",
    "max_train", "max_asked",
)  # fmt: skip
"""Fields that decide, beside the files, which pairs are evaluated."""


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """Data of `experiment`, whose files lie below `root`; the graph is kept in `folder`."""

    experiment: Experiment
    root: Path
    folder: Path

    @cached_property
    def files(self) -> dict[str, Path]:
        """The task's files by set."""
        return files_of_task(self.experiment.task, self.root)

    @cached_property
    def examples(self) -> dict[str, list[TaskExample]]:
        """Every example of the files."""
        kind = self.experiment.task["format"]
        return {name: read_examples(path, kind) for name, path in self.files.items()}

    @cached_property
    def further(self) -> list[FurtherTask]:
        """Tasks that any row learns beside this one, with their files below `root`."""
        rows = (self.experiment.task, *self.experiment.methods.values())
        tasks = [FurtherTask(**self._rooted(task)) for row in rows for task in row.get("also", ())]
        return list({repr(task): task for task in tasks}.values())

    def _rooted(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """A further task with its files below `root`."""
        return {**task, **{name: self.root / task[name] for name in SETS if task.get(name)}}

    def config(self, row: Mapping[str, Any], **fields: Any) -> FinetuneConfig:
        """The configuration of a run from the fields of a `row`, overridden by `fields`."""
        values = {**row, **self.files}
        if "also" in values:
            values["also"] = list(map(self._rooted, values["also"]))
        values.setdefault("data_seed", 0)  # every seed has the same evaluation splits
        return FinetuneConfig.read(None, values | fields)

    @cached_property
    def task(self) -> FinetuneConfig:
        """The task without a method; its graph is not this one."""
        return self.config(self.experiment.task, kg=self.root, method=BASELINE)

    @cached_property
    def every(self) -> list[TaskExample]:
        """The examples of all files, those of further tasks too."""
        examples = [example for part in self.examples.values() for example in part]
        for task in self.further:
            examples += [
                e for path in task.files.values() for e in read_examples(path, task.format)
            ]
        return examples

    @cached_property
    def evaluation_examples(self) -> list[TaskExample]:
        """Every example of dev and test: in the files, split off, or with texts linked."""
        examples = [e for name in SETS[1:] for e in self.examples.get(name, [])]
        for each in (self.task, *map(self.task.of_further, self.further)):
            if TASKS[each.task].has_pair:  # the others ask about no pair
                sets = read_sets(each, self.whole)[0]
                examples += [example for name in SETS[1:] for example in sets.get(name, [])]
        return examples

    @cached_property
    def texts(self) -> list[LinkedText]:
        """Texts of continued pre-training: none of the task, none with an evaluated pair."""
        plan = self.experiment.pretraining
        if plan is None:
            return []
        texts = (
            public_texts(plan.text, self.root)
            if plan.text in TEXTS
            else read_texts([self.root / plan.text])[0]
        )
        examples = self.every + (
            self.evaluation_examples if self.is_linked else []
        )  # else `every` has all pairs
        evaluation_pairs = {frozenset(example.pair) for example in examples if example.pair}
        task_texts = {_normal(example.linked.text) for example in examples}
        free = [
            t
            for t in texts
            if _normal(t.text) not in task_texts and not _pairs(t) & evaluation_pairs
        ]
        if not free:
            raise ConfigError(
                f"none of the {len(texts)} texts of {plan.text} is left before the task: all "
                "are texts of the task or mention an evaluated pair; give others as "
                "pretraining.text"
            )
        order = generator(plan.training.seed, "texts of the first stage").permutation(len(free))
        return [free[i] for i in sorted(order[: plan.n_texts].tolist())]

    @cached_property
    def texts_digest(self) -> str:
        """Hash of those texts with links: equal ones share continued pre-training."""
        return _digest(repr(self.texts).encode())

    @cached_property
    def graph_folder(self) -> Path:
        """The graph, saved, without any triple between two entities of an evaluated pair."""
        kg = self.experiment.task["kg"]
        settings = {
            "files": self.digests,
            "kg": kg if kg in GRAPHS else KnowledgeGraph.open(self.root / kg).content_hash,
            "asked": self.task.model_dump(mode="json", include=set(EVALUATION_FIELDS)),
            "further": [task.model_dump(mode="json", exclude=set(SETS)) for task in self.further],
            "pretraining": self.stage,
        }
        graph_folder = self.folder / "graphs" / run_hash(settings)
        graph_folder.parent.mkdir(parents=True, exist_ok=True)
        with claim(graph_folder.with_suffix(".made"), wait=WAIT_SECONDS):
            if not graph_folder.exists():
                without_pairs(self.whole, pair_ids(self.evaluation_examples, self.whole)).save(
                    graph_folder
                )
            tidy(graph_folder)
        return graph_folder

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """See `graph_folder`."""
        return KnowledgeGraph.open(self.graph_folder)

    @property
    def is_linked(self) -> bool:
        """Whether texts are linked by the graph's names, which takes the whole graph."""
        return bool(self.experiment.task.get("link"))

    @cached_property
    def whole(self) -> KnowledgeGraph:
        """The graph with evaluated pairs; of a public one the part that touches the texts."""
        name = self.experiment.task["kg"]
        if name not in GRAPHS:
            return KnowledgeGraph.open(self.root / name)
        if self.is_linked:
            return public_graph(name, self.root)
        linked = [example.linked for example in self.every] + self.texts
        entities = dict.fromkeys(k.entity for t in linked for k in t.links if k.entity)
        return public_graph(name, self.root, list(entities))

    @cached_property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each file, of a zip archive's member alone (`ARCHIVE.zip/MEMBER`)."""
        files = dict(self.files)
        for path in (path for task in self.further for path in task.files.values()):
            relative = path.relative_to(self.root) if path.is_relative_to(self.root) else path
            files[str(relative)] = path
        digests = {}
        for name, path in files.items():
            digests[name] = _digest(read_whole(path) if ".zip/" in str(path) else path.read_bytes())
        return digests

    @cached_property
    def stage(self) -> dict[str, Any] | None:
        """The continued pre-training as part of a hash."""
        plan = self.experiment.pretraining
        if plan is None:
            return None
        values = {"text": plan.text, "n_texts": plan.n_texts, "training": binding_of(plan.training)}
        return values if plan.text in TEXTS else values | {"content": self.texts_digest}


def on_this_machine(training: TrainConfig) -> TrainConfig:
    """Return how a training of an experiment runs: bf16 only where a step in it is faster here.

    An experiment names bf16 to be quick; its address holds the name, whatever machine runs it.
    """
    if training.precision != "bf16":
        return training
    return training.model_copy(update={"precision": "auto"})


def folder_digests(config: FinetuneConfig) -> dict[str, str]:
    """Hashes of every folder or file that host, adapters, and options of encoder and view name."""
    return digests_of(config.host, config.adapters, config.options, config.view)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _pairs(text: LinkedText) -> set[frozenset[str]]:
    names = sorted({link.entity for link in text.links if link.entity})
    return {frozenset((a, b)) for i, a in enumerate(names) for b in names[i + 1 :]}
