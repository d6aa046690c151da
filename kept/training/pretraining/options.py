"""Options of `kept pretrain`, declared once: the command and `kept.pretrain` are made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from kept import bounds, help_texts
from kept.training.options import TRAINING, EncoderRunOptions, option


class PretrainOptions(EncoderRunOptions):
    """What `kept pretrain` is given; a field is an option, its description the help.

    >>> PretrainOptions(output="run", objective=("mlm",), steps=5).fields()
    {'training.steps': 5, 'objectives': {'mlm': {}}}
    """

    output: Path = Field(
        description="Folder of the run. The model, checkpoints, log and curves are written there.",
        json_schema_extra={"short": "-o", "field": None},
    )
    text: tuple[Path, ...] = option(help_texts.LINKED_TEXT, default=())
    redirects: Path | None = option(help_texts.REDIRECTS, metavar="FILE")
    treebank: tuple[Path, ...] = option(
        "Treebank in CoNLL-U, plain or compressed, instead of --text. May be repeated.", default=()
    )
    method: str | None = option(
        "Method to pre-train, with the settings of its recipe: colake (the default), or "
        "one of {kept.methods:METHODS}."
    )
    objective: tuple[str, ...] = option(
        "Train this objective with its default options instead of those of the method: "
        "one of {kept.objectives.model:OBJECTIVES}. May be repeated.",
        None,
        default=(),
        metavar="NAME",
    )
    start_from: Path | None = option("Folder of an earlier run whose weights to start from.")
    train_only: tuple[str, ...] = option(
        "Part of the encoder to train; all other parts stay fixed. May be repeated.",
        default=(),
        metavar="PART",
    )
    steps: int | None = option(help_texts.STEPS, TRAINING, bounds=(1, bounds.MAX_COUNT))
    epochs: int | None = option(help_texts.EPOCHS_TEXT, TRAINING, bounds=(1, bounds.MAX_COUNT))
    batch_size: int | None = option(
        "Number of texts per batch. Give either this or --node-budget.",
        TRAINING,
        bounds=(1, bounds.MAX_COUNT),
    )
    node_budget: int | None = option(
        "Largest number of graph nodes per batch. Give either this or --batch-size.",
        TRAINING,
        bounds=(1, bounds.MAX_COUNT),
    )
    entity_learning_rate: float | None = option(
        "Learning rate of the entity table (default: 0.001).",
        TRAINING,
        flag="--entity-lr",
        bounds=(bounds.LEAST_RATE, bounds.MAX_RATE),
    )
    warmup_steps: int | None = option(
        "Number of first steps in which the learning rate rises from 0.",
        TRAINING,
        flag="--warmup",
        bounds=(0, bounds.MAX_COUNT),
    )
    workers: int | None = option(
        "Number of processes that build batches (default: the training process does).",
        TRAINING,
        bounds=(0, bounds.MAX_THREADS),
    )

    def fields(self) -> dict[str, Any]:
        """As any run's; `objective` are names, with their default options."""
        objectives: dict[str, Any] = {name: {} for name in self.objective}
        return super().fields() | ({"objectives": objectives} if objectives else {})
