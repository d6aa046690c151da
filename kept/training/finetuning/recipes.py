"""Recipes as fields of a fine-tuning: what `--method X` means where nothing else is given.

A published method is made for days on many processors; at a small budget most do not read a single
fact with their paper's settings. `Method.recipe` has the settings with which it does; here they
become fields of `FinetuneConfig`, below everything that a user gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kept.adapters.inside import PLACES
from kept.auto.saved import saved_builder
from kept.inputs.lengths import LENGTHS, with_lengths, with_windows
from kept.methods import BASELINE, method, title
from kept.options import merged
from kept.tasks.datasets.formats import TASKS
from kept.training.config import TrainConfig, with_auto_precision

RECIPE_HOST = "minilm"
"""The host that rates of recipes are for, also with its first layers alone (minilm:3)."""
WIDER_HOST = 1 / 3
"""Rates of another host, as a share: hosts of 768 and more diverge at those of MiniLM."""
WARMUP_STEPS, WARMUP_SHARE = 20, 10
DEFAULT_STEPS, DEFAULT_BATCH_SIZE = 200, 16
"""Of a training where none is given: within these every recipe read facts in the reading control
(`kept check reading --recipes`, five seeds)."""
RATES = ("learning_rate", "host_learning_rate")


def with_recipe(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of `FinetuneConfig` with those of the method's recipe under them.

    The paper's head of a task comes with either. Other fields that say `as_published`, or have no
    new method (`model` is given), or an unknown task, are returned as they are: the configuration
    names a fault.

    >>> with_recipe({"task": "typing", "method": "kbert"})["view"]
    {'max_branches': 8}
    """
    name, task = fields.get("method"), str(fields.get("task")).replace("-", "_")
    if name is None or task not in TASKS:
        return dict(fields)
    if not fields.get("head") and task in (heads := method(name).heads):
        fields = {**fields, "head": heads[task]}
    if fields.get("as_published"):
        return dict(fields)
    recipe = method(name).recipe
    under: dict[str, Any] = {**recipe.fields(), **_reading(fields, task)}
    under["training"] = _training(fields, recipe.rates)
    set_fields = {name: value for name, value in fields.items() if value is not None}
    return merged(under, set_fields)


def with_defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a new run with its method's recipe and the length of its texts.

    Its budget is that of `with_budget`, its precision auto and its batches by length where nothing
    else is given, but for `as_published`; longer texts are read in windows. A `model` brings the
    length with which it was trained, where `graph` has other settings alone.
    """
    completed = with_faster_training(with_lengths(with_recipe(with_budget(with_windows(fields)))))
    model, graph = completed.get("model"), completed.get("graph")
    if isinstance(model, str | Path) and isinstance(graph, Mapping) and "max_words" not in graph:
        saved = saved_builder(model)
        lengths = {name: getattr(saved, name) for name in LENGTHS}
        completed["graph"] = {**lengths, **graph}
    return completed


def with_faster_training(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with the faster precision, and batches by length, where nothing is given.

    Those that say `as_published` compute in float32 and shuffle, as the library does by default.

    >>> with_faster_training({"training": {"steps": 2}})["training"]
    {'order': 'by_length', 'precision': 'auto', 'steps': 2}
    """
    training = fields.get("training") or {}
    if fields.get("as_published") or not isinstance(training, Mapping):
        return dict(fields)
    below = {"training": {"order": "by_length"}}
    return merged(below, with_auto_precision({**fields, "training": dict(training)}))


def with_budget(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with the default steps and batch size where none are given.

    Not with `as_published`: a paper's budget is another for each task.

    >>> with_budget({"training": {"epochs": 3}})["training"]
    {'epochs': 3, 'batch_size': 16}
    """
    training = fields.get("training", {})
    if fields.get("as_published") or not isinstance(training, Mapping):
        return dict(fields)
    below: dict[str, Any] = {}
    if all(training.get(name) is None for name in ("steps", "epochs")):
        below["steps"] = DEFAULT_STEPS
    if all(training.get(name) is None for name in ("batch_size", "node_budget")):
        below["batch_size"] = DEFAULT_BATCH_SIZE
    return {**fields, "training": {**training, **below}}


def _reading(fields: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The head reads the words of a target, or of the text, themselves: a mark sees no fact."""
    line = TASKS[task]
    head, markers = fields.get("head") or line.head, fields.get("markers")
    if not line.kind.has_one_answer:
        return {}
    if head == "pooled":
        return {"head_options": {"read": "mean"}}
    if head == "targets" and markers in (None, "none"):
        return {"markers": "none", "head_options": {"read": "mean"}}
    if head == "entities" and markers in (None, "none"):
        return {"markers": "none"}
    return {}


def _training(fields: Mapping[str, Any], rates: Mapping[str, float]) -> dict[str, Any]:
    training = fields.get("training") or {}
    if not isinstance(training, Mapping):
        return {}
    learning_rates: dict[str, Any] = {}
    if not any(training.get(name) for name in RATES):
        is_small = str(fields.get("host") or RECIPE_HOST).startswith(RECIPE_HOST)
        share = 1.0 if is_small else WIDER_HOST
        still = fields.get("strategy") == "features" or "encoder" in (fields.get("freeze") or ())
        adapted = any(fields.get(name) is not None for name in PLACES)
        names = ("learning_rate",) if still or adapted else RATES
        learning_rates = {name: rates[name] * share for name in names if name in rates}
    steps = training.get("steps")
    if isinstance(steps, int) and "warmup_steps" not in training:
        learning_rates["warmup_steps"] = min(WARMUP_STEPS, steps // WARMUP_SHARE)
    return learning_rates


def budget_warning(config: Any, n_train: int) -> str | None:
    """Return why this training is likely too short for the method to read facts, if it is.

    `config` is a `FinetuneConfig`; `n_train` are its training examples.
    """
    if config.method in (None, BASELINE) or config.knowledge == "off":
        return None
    needed, training = method(config.method).recipe.examples, config.training
    if needed is None:
        return None
    n_examples_seen = n_examples(training, n_train)
    if n_examples_seen >= needed:
        return None
    return (
        f"{title(config.method)} read {needed:,} examples in the reading control before it "
        f"answered from facts; this run reads {n_examples_seen:,}, and may end without having "
        "learned to; give more --steps or a larger --batch-size"
    )


def n_examples(training: TrainConfig, n_train: int) -> int:
    """How many examples a training reads, passes counted."""
    if training.steps is None:
        return (training.epochs or 0) * n_train
    size = training.batch_size
    return training.steps * training.accumulate * (n_train if size is None else size)
