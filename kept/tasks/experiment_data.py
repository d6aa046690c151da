"""What all runs of an experiment share: its files, its graph without what is asked, its texts."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock

from entity_linking.mentions import LinkedText
from kept.randomness import generator
from kept.tasks.controls import without_pairs
from kept.tasks.experiment import Experiment, run_hash
from kept.tasks.finetuning_data import pair_ids
from kept.tasks.finetuning_examples import TaskExample, read_examples
from kept.tasks.public_graphs import GRAPHS, TEXTS, public_graph, public_texts
from kept.training.config import TrainConfig, binding
from kept.training.methods import read_texts
from kg_loaders import KnowledgeGraph

SETS = ("train", "dev", "test")


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """Data of `experiment`, whose files lie below `root`; the graph is kept in `folder`."""

    experiment: Experiment
    root: Path
    folder: Path

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
    def texts_digest(self) -> str:
        """SHA-256 of those texts: two tasks in one folder share a first stage where it is equal."""
        read = "\n".join(text.text for text in self.texts)
        return hashlib.sha256(read.encode()).hexdigest()[:16]

    @cached_property
    def graph_folder(self) -> Path:
        """The graph, saved, without any triple between two entities that dev or test ask about."""
        name = self.experiment.task["kg"]
        settings = {"kg": str(name), "files": self.digests, "pretraining": self.stage}
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
    def digests(self) -> dict[str, str]:
        """SHA-256 of each file, of a zip archive's member alone (`ARCHIVE.zip/MEMBER`)."""
        found = {}
        for name, path in self.files.items():
            archive, is_member, member = str(path).partition(".zip/")
            content = (
                zipfile.Path(f"{archive}.zip", member).read_bytes()
                if is_member
                else path.read_bytes()
            )
            found[name] = hashlib.sha256(content).hexdigest()[:16]
        return found

    @property
    def stage(self) -> dict[str, Any] | None:
        """The first stage as part of a hash."""
        plan = self.experiment.pretraining
        if plan is None:
            return None
        return {"text": plan.text, "n_texts": plan.n_texts, "training": binding_of(plan.training)}


def binding_of(training: TrainConfig) -> dict[str, Any]:
    """What of a training's settings touches the weights and is not the default."""
    named = training.model_dump(mode="json", exclude_defaults=True)
    return {name: value for name, value in binding(training).items() if name in named}


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _pairs(text: LinkedText) -> set[frozenset[str]]:
    names = sorted({link.entity for link in text.links if link.entity})
    return {frozenset((a, b)) for i, a in enumerate(names) for b in names[i + 1 :]}
