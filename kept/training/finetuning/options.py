"""Options of `kept finetune`, declared once: the command and `kept.finetune` are made from them.

An option with a `field` is that field of `FinetuneConfig`, in a file of `--config` and under
`--set` too; the others say how a run is started. Names that a help text lists are those of tables.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kept import bounds, help_texts
from kept.training.options import TRAINING, EncoderRunOptions, option


class FinetuneOptions(EncoderRunOptions):
    """What `kept finetune` is given; a field is an option, its description the help.

    >>> FinetuneOptions(output="run", task="typing", steps=5).fields()
    {'task': 'typing', 'training.steps': 5}
    >>> FinetuneOptions.configured()["learning_rate"]
    'training.learning_rate'
    """

    data: Path | None = option(
        "Labelled texts as CSV, TSV or JSON lines with named columns. The same as --train DATA "
        "--format table --link, with the task that the columns make.",
        None,
    )
    output: Path = Field(
        description="Folder of the run. The model, scores, answers and log are written there.",
        json_schema_extra={"short": "-o", "field": None},
    )
    task: str | None = option("Kind of task: {kept.tasks.kinds:TASKS}.")
    format: str | None = option(
        "Format of the files: {kept.tasks.datasets.formats:FORMATS}. table is CSV, TSV or "
        "JSON lines with named columns (docs/reference/formats-of-texts.md)."
    )
    train: Path | None = option(help_texts.TRAIN)
    dev: Path | None = option(
        "File of development examples, used to watch training (default: dev.* in the "
        "folder of TRAIN, otherwise a share of TRAIN)."
    )
    test: Path | None = option(help_texts.TEST)
    model: Path | None = option(
        "Folder of a trained model to fine-tune. Give either this or --method."
    )
    method: str | None = option(
        "Method of a new encoder, with the settings of its recipe: "
        "{kept.methods:METHODS}. Give either this or --model."
    )
    adapter: tuple[Path, ...] = option(
        "For a new encoder (--method): folder of a trained adapter, or of a run that "
        "trained one. May be repeated.",
        "adapters",
        default=(),
        metavar="DIR",
    )
    knowledge: str | None = option(
        "Facts that the model gets, for control runs: "
        "{kept.inputs.controls.conditions:Knowledge}. Default: true, the facts of the graph."
    )
    markers: str | None = option(
        "How the mentions in question are marked in the text: "
        "{kept.training.finetuning.markers:MARKERS}."
    )
    link: bool | None = option("Link texts that come without links by the names in the graph.")
    case: str | None = option(help_texts.CASE, check="case")
    head: str | None = option(
        "Head, the last layer that turns states into answers: {kept.heads.model:HEADS}."
    )
    freeze: tuple[str, ...] = option(
        "Part of the encoder whose weights stay fixed; `encoder` means all of it. May be repeated.",
        default=(),
    )
    train_only: tuple[str, ...] = option(
        "Part of the encoder to train together with the head; all other parts stay "
        "fixed. May be repeated.",
        default=(),
    )
    steps: int | None = option(
        "Number of optimiser steps. Give either this or --epochs. Default: 200 steps.",
        TRAINING,
        bounds=(1, bounds.MAX_COUNT),
    )
    epochs: int | None = option(
        "Number of passes over the training examples. Give either this or --steps.",
        TRAINING,
        bounds=(1, bounds.MAX_COUNT),
    )
    batch_size: int | None = option(
        "Number of examples per batch. Default: 16.", TRAINING, bounds=(1, bounds.MAX_COUNT)
    )
    evaluate_every: int | None = option(
        "Evaluate on the development examples after every so many steps and log the score.",
        TRAINING,
        bounds=(1, bounds.MAX_COUNT),
    )
