"""Options of `kept vectors train`, declared once; those with a `field` are of `JointConfig`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kept.bounds import LEAST_RATE, MAX_COUNT, MAX_RATE, MAX_SEED
from kept.help_texts import EPOCHS_TEXT, LINKED_TEXT, REDIRECTS, SEED
from kept.training.options import RunOptions, option


class VectorsOptions(RunOptions):
    """What `kept vectors train` is given; a field is an option, its description the help."""

    output: Path = Field(
        description="Folder of the run. vectors.txt and the checkpoint are written there.",
        json_schema_extra={"short": "-o", "field": None},
    )
    text: tuple[Path, ...] = option(LINKED_TEXT, default=())
    redirects: Path | None = option(REDIRECTS, metavar="FILE")
    model: str | None = option(
        "Model to train: wikipedia2vec (the default), or one of {kept.joint.assembly:MODELS}."
    )
    width: int | None = option(
        "Number of dimensions of the vectors, an even number (default: 100).", bounds=(2, 2**16)
    )
    epochs: int | None = option(EPOCHS_TEXT, bounds=(1, MAX_COUNT))
    learning_rate: float | None = option(
        "Learning rate of the first step. It falls during training.",
        flag="--lr",
        bounds=(LEAST_RATE, MAX_RATE),
    )
    min_count: int | None = option(
        "Smallest number of times that a word must occur to get a vector (default: 5).",
        "min_word_count",
        bounds=(1, MAX_COUNT),
    )
    holdout: float | None = option(
        "Leave out the triples that `kept kgc train` holds out with this --holdout and "
        "this --seed (default: 0, none).",
        bounds=(0, 0.5),
    )
    seed: int | None = option(SEED, bounds=(0, MAX_SEED))
    settings: tuple[str, ...] = option(
        "Any other setting of the run, such as options.window=10. May be repeated.",
        None,
        default=(),
        flag="--set",
        metavar="NAME=VALUE",
    )
