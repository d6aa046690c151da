"""Options of `kept pretrain`, declared once: the command and `kept.pretrain` are made from them."""

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
from kept.help_texts import (
    AS_PUBLISHED,
    BUDGET_MINUTES,
    CONFIG,
    DEVICE,
    EPOCHS_TEXT,
    HOST,
    KG,
    LEARNING_RATE,
    LINKED_TEXT,
    REDIRECTS,
    RESUME,
    SEED,
    SHARD,
    SKIP_DAMAGED,
    STEPS,
    THREADS,
    TRACK,
)
from kept.training.options import TRAINING, RunOptions, option


class PretrainOptions(RunOptions):
    """What `kept pretrain` is given; a field is an option, its description the help.

    >>> PretrainOptions(output="run", objective=("mlm",), steps=5).fields()
    {'training.steps': 5, 'objectives': {'mlm': {}}}
    """

    output: Path = Field(
        description="Folder of the run. The model, checkpoints, log and curves are written there.",
        json_schema_extra={"short": "-o", "field": None},
    )
    config: Path | None = option(CONFIG, None, short="-c")
    kg: Path | None = option(KG)
    text: tuple[Path, ...] = option(LINKED_TEXT, default=())
    redirects: Path | None = option(REDIRECTS, metavar="FILE")
    treebank: tuple[Path, ...] = option(
        "Treebank in CoNLL-U, plain or compressed, instead of --text. May be repeated.",
        default=(),
    )
    host: str | None = option(HOST, check="local or hub")
    method: str | None = option(
        "Method to pre-train, with the settings of its recipe: colake (the default), or "
        "one of {kept.methods:METHODS}."
    )
    as_published: bool | None = option(AS_PUBLISHED)
    objective: tuple[str, ...] = option(
        "Train this objective with its default options instead of those of the method: "
        "one of {kept.objectives.model:OBJECTIVES}. May be repeated.",
        None, default=(), metavar="NAME",
    )  # fmt: skip
    start_from: Path | None = option("Folder of an earlier run whose weights to start from.")
    train_only: tuple[str, ...] = option(
        "Part of the encoder to train; all other parts stay fixed. May be repeated.",
        default=(), metavar="PART",
    )  # fmt: skip
    steps: int | None = option(STEPS, TRAINING, ge=1, le=MAX_COUNT)
    epochs: int | None = option(EPOCHS_TEXT, TRAINING, ge=1, le=MAX_COUNT)
    batch_size: int | None = option(
        "Number of texts per batch. Give either this or --node-budget.",
        TRAINING, ge=1, le=MAX_COUNT,
    )  # fmt: skip
    node_budget: int | None = option(
        "Largest number of graph nodes per batch. Give either this or --batch-size.",
        TRAINING, ge=1, le=MAX_COUNT,
    )  # fmt: skip
    learning_rate: float | None = option(
        LEARNING_RATE, TRAINING, flag="--lr", ge=LEAST_RATE, le=MAX_RATE
    )
    entity_learning_rate: float | None = option(
        "Learning rate of the entity table (default: 0.001).",
        TRAINING, flag="--entity-lr", ge=LEAST_RATE, le=MAX_RATE,
    )  # fmt: skip
    warmup_steps: int | None = option(
        "Number of first steps in which the learning rate rises from 0.",
        TRAINING, flag="--warmup", ge=0, le=MAX_COUNT,
    )  # fmt: skip
    seed: int | None = option(SEED, TRAINING, ge=0, le=MAX_SEED)
    workers: int | None = option(
        "Number of processes that build batches (default: the training process does).",
        TRAINING, ge=0, le=MAX_THREADS,
    )  # fmt: skip
    threads: int | None = option(THREADS, TRAINING, ge=1, le=MAX_THREADS)
    device: str | None = option(DEVICE, TRAINING)
    shard: tuple[str, ...] = option(SHARD, TRAINING, default=(), metavar="PART")
    budget_minutes: float | None = option(
        BUDGET_MINUTES, TRAINING, ge=LEAST_MINUTES, le=MAX_MINUTES
    )
    settings: tuple[str, ...] = option(
        "Any other setting of the run, such as training.clip_norm=0.5. May be repeated.",
        None, default=(), flag="--set", metavar="NAME=VALUE",
    )  # fmt: skip
    track: tuple[str, ...] = option(TRACK, None, default=(), metavar="NAME")
    resume: bool = option(RESUME, None, default=False)
    skip_damaged: bool = option(SKIP_DAMAGED, None, default=False)

    def fields(self) -> dict[str, Any]:
        """As any run's; `objective` are names, with their default options."""
        objectives: dict[str, Any] = {name: {} for name in self.objective}
        return super().fields() | ({"objectives": objectives} if objectives else {})
