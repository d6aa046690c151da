"""Further tasks joined to a run: their sets kept apart, a head for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kept.errors import ConfigError
from kept.hosts import n_positions
from kept.randomness import torch_draws
from kept.tasks.datasets.class_labels import classes_of, require_labels
from kept.tasks.datasets.formats import TASKS, TaskExample
from kept.tasks.scores.scores import Baseline

if TYPE_CHECKING:
    from kept.training.finetuning.config import FinetuneConfig
    from kept.training.finetuning.run import FinetuneRun

Sets = dict[str, list[TaskExample]]


@dataclass(frozen=True)
class FurtherSets:
    """The data of a further task: `config` has its fields in the place of the run's own."""

    name: str
    config: FinetuneConfig
    sets: Sets
    facts: dict[str, Any]


def keep_apart(
    config: FinetuneConfig, sets: Sets, further: Sequence[FurtherSets]
) -> dict[str, int]:
    """Drop training texts that another task evaluates, unless repeats are kept.

    Raises `ConfigError` where nothing is left.
    """
    if not further or config.keep_repeats:
        return {}
    everything = [("the run's own task", sets), *((each.name, each.sets) for each in further)]
    evaluation_texts = {
        example.linked.text
        for _, examples in everything
        for name in examples
        if name != "train"
        for example in examples[name]
    }
    n_dropped = 0
    for name, examples in everything:
        remaining = [
            example for example in examples["train"] if example.linked.text not in evaluation_texts
        ]
        if not remaining:
            raise ConfigError(f"all training texts of {name} are evaluated by another task")
        n_dropped += len(examples["train"]) - len(remaining)
        examples["train"] = remaining
    return {"n_train_asked_of_other_tasks_dropped": n_dropped}


def with_further(
    run: FinetuneRun, maker: Any, further: Sequence[FurtherSets], *, is_trained: bool = False
) -> FinetuneRun:
    """`run` with a new head and a run of its own for each further task; `maker` makes their data.

    Their evaluation splits are in `run` as `NAME/dev` and `NAME/test`. `is_trained`: the model
    brings the heads.
    """
    further_runs, evaluation = {}, dict(run.evaluation)
    for number, each in enumerate(further, start=1):
        problem_type = TASKS[each.config.task].problem_type
        labels = classes_of(each.sets["train"], problem_type)
        require_labels(labels, len(each.sets["train"]))
        if not is_trained:
            _add_head(run, each, labels)
        own_maker = dataclasses.replace(maker, config=each.config)
        train = own_maker.data(each.sets["train"], {label: i for i, label in enumerate(labels)})
        sets = {
            name: own_maker.data(part, None) for name, part in each.sets.items() if name != "train"
        }
        for name, data in {"train": train, **sets}.items():
            data.require_some(f"{each.name}/{name}", n_positions(run.model.encoder.host))
        further_runs[each.name] = dataclasses.replace(
            run,
            config=each.config,
            train=train,
            evaluation=sets,
            baseline=Baseline.of(each.sets["train"], problem_type),
            facts=each.facts
            | {
                "n_train_skipped": train.skipped,
                "labels": labels,
                "coverage": {"train": train.coverage.as_json()},
            },
            with_link_errors=own_maker.with_link_errors(each.sets),
            task=number,
        )
        evaluation |= {f"{each.name}/{name}": data for name, data in sets.items()}
    return dataclasses.replace(run, evaluation=evaluation, further=further_runs)


def _add_head(run: FinetuneRun, each: FurtherSets, labels: Sequence[str]) -> None:
    task = TASKS[each.config.task]
    with torch_draws(each.config.training.seed, "initial weights", each.name):
        run.model.add_task(
            each.name,
            each.config.head or task.head,
            labels,
            problem_type=task.problem_type,
            layer_mix=each.config.layer_mix,
            **each.config.all_head_options(),
        )
