"""Options of `kept finetune`, declared once: the command and `kept.finetune` are made from them.

An option with a `field` is that field of `FinetuneConfig`, in a file of `--config` and under
`--set` too; the others say how a run is started. Names that a help text lists are those of tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from kept.bounds import (
    LEAST_MINUTES,
    LEAST_RATE,
    MAX_COUNT,
    MAX_MINUTES,
    MAX_RATE,
    MAX_SEED,
    MAX_THREADS,
)
from kept.training.config import RunConfig

TRAINING = "training."


def option(help_text: str, field: str | None = "", **extra: Any) -> Any:
    """An option that may be left out.

    `field` is the field of the configuration, "" for that of the option's own name, None for an
    option about the start. `ge` and `le` are bounds; `flag`, `short`, `metavar` and `check` are
    those of `kept.apps.cli.declared`.
    """
    bounds = {name: extra.pop(name) for name in ("ge", "le") if name in extra}
    default = extra.pop("default", None)
    extra["field"] = field
    return Field(default, description=help_text, json_schema_extra=extra, **bounds)


class FinetuneOptions(RunConfig):
    """What `kept finetune` is given; a field is an option, its description the help."""

    data: Path | None = option(
        "Labelled texts in kept's own format (CSV, TSV, JSON lines): as --train DATA --format "
        "table, with the task that their columns make, linked where they have no links.",
        None,
    )
    output: Path = Field(
        description="Folder of the run: model, scores, answers, log.",
        json_schema_extra={"short": "-o", "field": None},
    )
    config: Path | None = option("YAML file; flags override it.", None, short="-c")
    task: str | None = option("What is asked: {kept.tasks.datasets.formats:TASKS}.")
    format: str | None = option(
        "Format of the files, {kept.tasks.datasets.formats:FORMATS}; table is kept's own, "
        "CSV, TSV or JSON lines (docs/reference/formats-of-texts.md)."
    )
    train: Path | None = option("Training file.")
    dev: Path | None = option("Development file (default: dev.* beside TRAIN, else a share of it).")
    test: Path | None = option("Test file.")
    kg: Path | None = option("Folder of the knowledge graph.")
    model: Path | None = option("Folder of a trained model, or give --method.")
    method: str | None = option(
        "A new encoder of this method, with its recipe: {kept.methods:METHODS}."
    )
    as_published: bool | None = option(
        "The settings of the method's paper, not the recipe with which it reads facts."
    )
    host: str | None = option("minilm (default), a folder or a hub name.", check="local or hub")
    adapter: tuple[Path, ...] = option(
        "For a new encoder: an adapter, or a run that trained one; may be repeated.",
        "adapters", default=(), metavar="DIR",
    )  # fmt: skip
    knowledge: str | None = option(
        "What the run is given, {kept.inputs.controls.conditions:Knowledge}; true without it."
    )
    markers: str | None = option(
        "Marks around targets: {kept.training.finetuning.markers:MARKERS}."
    )
    link: bool | None = option("Link texts without links by the graph's names.")
    case: str | None = option(
        "How case counts where texts are linked by names "
        "({entity_linking.names.rules.case:Case}): sensitive matches case, insensitive ignores it, "
        "smart lets a text raise the case of a name, never lower it. Default: that of the run or "
        "index that is given, else smart.",
        check="case",
    )
    head: str | None = option("How the model answers: {kept.heads.model:HEADS}.")
    freeze: tuple[str, ...] = option(
        "Part of the encoder to freeze; encoder is all of it.", default=()
    )
    train_only: tuple[str, ...] = option("The only parts to train beside the head.", default=())
    steps: int | None = option(
        "Optimiser steps, or give --epochs; 200 without both.", TRAINING, ge=1, le=MAX_COUNT
    )
    epochs: int | None = option("Passes over the examples.", TRAINING, ge=1, le=MAX_COUNT)
    batch_size: int | None = option("Examples a batch (default: 16).", TRAINING, ge=1, le=MAX_COUNT)
    learning_rate: float | None = option(
        "Of the network.", TRAINING, flag="--lr", ge=LEAST_RATE, le=MAX_RATE
    )
    evaluate_every: int | None = option(
        "Evaluate on dev every this many steps, and log it.", TRAINING, ge=1, le=MAX_COUNT
    )
    seed: int | None = option("Of everything random.", TRAINING, ge=0, le=MAX_SEED)
    threads: int | None = option("Threads of torch.", TRAINING, ge=1, le=MAX_THREADS)
    device: str | None = option("auto (default), cpu, cuda or mps.", TRAINING)
    shard: tuple[str, ...] = option(
        "Under a launcher: what the processes share out, each with a part of it "
        "({kept.training.config:Shard}); may be repeated.",
        TRAINING, default=(), metavar="PART",
    )  # fmt: skip
    budget_minutes: float | None = option(
        "Stop with a checkpoint after this many minutes.",
        TRAINING, ge=LEAST_MINUTES, le=MAX_MINUTES,
    )  # fmt: skip
    settings: tuple[str, ...] = option(
        "Any other field, such as max_train=500.",
        None, default=(), flag="--set", metavar="NAME=VALUE",
    )  # fmt: skip
    track: tuple[str, ...] = option(
        "Curves in one of {kept.apps.integrations.trackers:NAMES} too; may be repeated.",
        None, default=(), metavar="NAME",
    )  # fmt: skip
    resume: bool = option("Resume from the last checkpoint in the folder.", None, default=False)
    skip_damaged: bool = option("With --resume: skip damaged checkpoints.", None, default=False)

    def fields(self) -> dict[str, Any]:
        """Return the fields of `FinetuneConfig` that are given, by their names in a file.

        >>> FinetuneOptions(output="run", task="typing", steps=5).fields()
        {'task': 'typing', 'training.steps': 5}
        """
        values = ((field, getattr(self, name)) for name, field in configured().items())
        return {field: value for field, value in values if value not in (None, ())}


def configured() -> dict[str, str]:
    """Return the options that are fields of a configuration, and the name of each field there.

    >>> configured()["learning_rate"], "output" in configured()
    ('training.learning_rate', False)
    """
    names = {}
    for name, info in FinetuneOptions.model_fields.items():
        extra = info.json_schema_extra
        field = extra.get("field") if isinstance(extra, dict) else None
        if isinstance(field, str):
            names[name] = field + name if field in ("", TRAINING) else field
    return names
