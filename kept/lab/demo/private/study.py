"""The private chapter's runs: a method trained under four conditions, then a graph that changes.

Each training leaves `private/KEY.json`, its answers under the hash of all that decides them; a
chapter that was interrupted resumes.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from entity_linking import DictionaryLinker, score_links
from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import Counts, accuracy_counts, f1_value
from kept.graphs.builder import BuilderConfig
from kept.lab.demo.private.changes import Changes, after_changes
from kept.lab.demo.private.world import Company, company
from kept.lab.reading.cell import Budget, Cell, open_host
from kept.lab.reading.trial import Opened, ReadingTrial, training_of
from kept.lab.study.addresses import fingerprint
from kept.lab.study.store import stored_once
from kept.tasks.datasets.example import TaskExample
from kept.training.config import RunConfig
from kept.training.finetuning.predictor import Predictor
from kept.training.finetuning.run import predict
from kept.training.log import Reporter
from kept.training.loop import train

FOLDER = "private"
FAULT, REMEDY = "is not a file of kept demo", "remove it and run again"
VERSION = 1
"""Part of every hash; raised when the same settings would come to other answers."""
CONDITIONS = {
    "true": "the facts as they are",
    "shuffled": "the same facts with the objects of each relation shuffled",
    "anchors-only": "the links, and a graph without a fact",
    "off": "the text alone",
}
VIEW: dict[str, Any] = {"directions": "head"}
"""Facts that a person is the head of: three each."""


class PrivateConfig(RunConfig):
    """How the chapter is run; `arm` is a way to run a method that reads (`kept.lab.reading.arms`).

    Every training takes `steps`, whatever it comes to, with one text for each training person.
    `n_new` people are added after training; the first `n_explained` misled answers are explained.
    """

    host: str
    arm: str
    seeds: tuple[Annotated[int, Field(ge=0)], ...]
    n_layers: PositiveInt
    steps: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat
    warmup_steps: NonNegativeInt
    threads: PositiveInt | None = None
    n_test: Annotated[int, Field(ge=8)]
    n_new: PositiveInt
    n_explained: PositiveInt

    @field_validator("seeds")
    @classmethod
    def _at_least_two(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < max(2, len(seeds)):
            raise ValueError("give two or more different seeds; one does not show how results vary")
        return seeds

    def cell(self, condition: str, seed: int) -> Cell:
        """What is trained."""
        budget = Budget(
            steps=self.steps, batch_size=self.batch_size, learning_rate=self.learning_rate,
            warmup_steps=self.warmup_steps, host=self.host, n_layers=self.n_layers,
        )  # fmt: skip
        return Cell(task="occupation", arm=self.arm, condition=condition, seed=seed, budget=budget)


class Trained(msgspec.Struct, frozen=True):
    """Answers of one trained model to the test questions; `changes` of the first true one alone."""

    answers: list[str]
    changes: Changes | None


@dataclass(frozen=True)
class PrivateResult:
    """All that the chapter shows. `right`: by condition and seed, whether each answer is right.

    `ceiling` is the share of test questions whose person was linked rightly: who reads each fact of
    the linked entities perfectly has that accuracy.
    """

    company: Company
    config: PrivateConfig
    links: str
    ceiling: float
    right: dict[str, list[list[bool]]]
    changes: Changes

    def accuracy(self, condition: str) -> Effect:
        """Mean over seeds, with an interval over seeds and questions."""
        return effect(np.stack(self._counts(condition)), f1_value)

    def gain(self, condition: str) -> Effect:
        """True facts minus a control."""
        return difference(self._counts("true"), self._counts(condition), f1_value)

    def by_seed(self, condition: str) -> tuple[float, ...]:
        """The accuracy of each seed."""
        return tuple(float(np.mean(each)) for each in self.right[condition])

    def _counts(self, condition: str) -> list[Counts]:
        return list(accuracy_counts(self.right[condition]))

    def as_json(self) -> dict[str, Any]:
        """Numbers for `results.json`."""
        return {
            "links": self.links,
            "chance": self.company.world.chance,
            "ceiling": self.ceiling,
            "accuracy": {name: _numbers(self.accuracy(name)) for name in self.right},
            "seeds": {name: self.by_seed(name) for name in self.right},
            "true minus": {
                name: _numbers(self.gain(name)) for name in self.right if name != "true"
            },
            "changes": msgspec.to_builtins(self.changes),
            "config": self.config.model_dump(mode="json"),
        }


def _numbers(gain: Effect) -> dict[str, float]:
    interval = gain.interval()
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def run_private(
    folder: Path,
    config: PrivateConfig,
    *,
    announce: Callable[[str], None],
    reporter: Reporter | None = None,
    opened: Callable[[Budget], Opened] = open_host,
) -> PrivateResult:
    """Train what is missing in `folder`, and evaluate; `opened` gives host and tokenizer.

    Raises `CheckpointError` for a damaged file of answers.
    """
    first = config.seeds[0]
    firm, links, ceiling = _linked(
        company(
            first,
            n_train=config.steps * config.batch_size,
            n_test=config.n_test,
            n_new=config.n_new,
        )
    )
    announce(f"links by the graph's own names: {links}")
    gold = [example.labels[0] for example in firm.world.test]
    right: dict[str, list[list[bool]]] = {name: [] for name in CONDITIONS}
    changes = None

    def train_cell(cell: Cell, is_first: bool) -> Trained:
        announce(f"{cell.condition}, seed {cell.seed}: running")
        return _trained(firm, cell, config, is_first, opened(cell.budget), reporter)

    for condition in CONDITIONS:
        for seed in config.seeds:
            cell = config.cell(condition, seed)
            is_first = condition == "true" and seed == first
            path = folder / FOLDER / f"{_key(cell, config, firm, is_first)}.json"
            make = partial(train_cell, cell, is_first)
            trained = stored_once(path, Trained, make, fault=FAULT, remedy=REMEDY)
            changes = changes or trained.changes
            right[condition].append([a == g for a, g in zip(trained.answers, gold, strict=True)])
            announce(f"{condition}, seed {seed}: accuracy {np.mean(right[condition][-1]):.3f}")
    assert changes is not None
    return PrivateResult(firm, config, links, ceiling, right, changes)


def _key(cell: Cell, config: PrivateConfig, firm: Company, is_first: bool) -> str:
    """The first 16 digits of the SHA-256 of all that a model's answers depend on."""
    settings = [VERSION, cell.settings, config.n_test, config.n_new, config.n_explained]
    settings += [firm.later.content_hash, VIEW, is_first]
    return fingerprint(settings, n_digits=16)


def _linked(firm: Company) -> tuple[Company, str, float]:
    """The questions with the dictionary linker's links, their quality in words, and the ceiling."""
    world = firm.world
    examples = [*world.train, *world.test]
    relinked = _with_links(examples, DictionaryLinker(world.graph))
    score = score_links([e.linked for e in examples], [e.linked for e in relinked])
    n = len(world.train)
    ceiling = float(np.mean([_is_found(example) for example in relinked[n:]]))
    quality = (
        f"precision {score.precision:.3f}, recall {score.recall:.3f} on {score.n_gold} links of "
        f"{len(examples)} texts"
    )
    linked = dataclasses.replace(world, train=relinked[:n], test=relinked[n:])
    return dataclasses.replace(firm, world=linked), quality, ceiling


def _with_links(examples: Sequence[TaskExample], linker: DictionaryLinker) -> list[TaskExample]:
    linked = linker.link([example.linked.text for example in examples])
    return [
        dataclasses.replace(e, linked=dataclasses.replace(e.linked, links=text.links))
        for e, text in zip(examples, linked, strict=True)
    ]


def _is_found(example: TaskExample) -> bool:
    return any(
        link.mention == example.targets[0] and link.entity == example.linked.id
        for link in example.linked.links
    )


def _trained(
    firm: Company,
    cell: Cell,
    config: PrivateConfig,
    is_first: bool,
    host: Opened,
    reporter: Reporter | None,
) -> Trained:
    """A new model, trained and evaluated; the first one also on changes of its graph."""
    trial = ReadingTrial.of(cell, host, firm.world)
    trial = dataclasses.replace(trial, arm=dataclasses.replace(trial.arm, graph=VIEW))
    training = training_of(cell, config.steps, evaluate_every=None, threads=config.threads)
    with tempfile.TemporaryDirectory(prefix="kept-demo-") as folder:
        train(trial.model, trial.data(firm.world.train), training, Path(folder), reporter=reporter)
    predictions = predict(trial.model, trial.data(firm.world.test), threshold=0.0)
    answers = [labels[0] for labels in predictions]
    if not is_first:
        return Trained(answers, None)
    predictor = Predictor(
        trial.model,
        trial.tokenizer,
        task="roles",
        markers=trial.arm.markers,
        builder=BuilderConfig(**VIEW),
        view=trial.arm.view,
    )
    changes = after_changes(predictor, firm, seed=cell.seed, n_explained=config.n_explained)
    return Trained(answers, changes)
