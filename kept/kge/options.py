"""Options of scorers in `kept kgc train`: each is declared once, a scorer takes those of its model.

The command line, its help and its errors are made of these models. None is the recipe's value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kept.bounds import MAX_COUNT

Epochs = Annotated[
    int | None,
    Field(
        ge=1,
        le=10**6,
        description="Largest number of passes over the training triples (default: the recipe's).",
    ),
]
Width = Annotated[
    int | None,
    Field(
        ge=2, le=2**16, description="Number of dimensions of the vectors (default: the recipe's)."
    ),
]
Reciprocal = Annotated[
    bool,
    Field(description="Train an inverse of each relation; predict heads as tails of inverses."),
]
Norm = Annotated[
    int | None,
    Field(ge=1, le=2, description="Norm of the distance, 1 or 2 (default: transe 2, rotate 1)."),
]
Weights = Annotated[
    Path | None,
    Field(
        description="With ultra: a released checkpoint, which --epochs trains further. With "
        "kepler: the folder of a run of `kept pretrain`."
    ),
]
Of = Annotated[
    tuple[Path, ...],
    Field(
        description="Folder of a trained scorer. Its weight is fitted on the validation triples. "
        "May be repeated."
    ),
]
Host = Annotated[
    str | None,
    Field(
        description="Language model to start from: minilm (default), a folder, or a name on the "
        "Hugging Face hub.",
        json_schema_extra={"check": "local or hub"},
    ),
]
BatchSize = Annotated[
    int | None,
    Field(ge=2, le=2**20, description="Number of triples per batch (default: the recipe's)."),
]
Steps = Annotated[
    int | None,
    Field(
        ge=1,
        le=MAX_COUNT,
        description="Number of optimiser steps after which training ends (default: all epochs).",
    ),
]
Tokens = Annotated[
    int | None,
    Field(
        ge=4,
        le=512,
        description="Longest text of an entity, in word pieces (default: the recipe's).",
    ),
]
EpochTriples = Annotated[
    int | None,
    Field(
        ge=1,
        le=MAX_COUNT,
        description="Number of training triples per epoch (default: the recipe's). All epochs are "
        "run, also if validation no longer improves.",
    ),
]
Literals = Annotated[
    bool,
    Field(description="Put the numbers and dates in SOURCE/literals.tsv before the descriptions."),
]


class ScorerOptions(BaseModel):
    """Abstract: what a scorer takes; a field is an option of the command line."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NetworkOptions(ScorerOptions):
    """Of a network over the graph."""

    epochs: Epochs = None
    width: Width = None


class VectorOptions(NetworkOptions):
    """Of a scorer with a vector for each entity."""

    reciprocal: Reciprocal = False


class DistanceOptions(VectorOptions):
    """Of a scorer that measures a distance."""

    norm: Norm = None


class PathOptions(NetworkOptions):
    """Of a scorer that reads paths."""

    batch_size: BatchSize = None
    ask: EpochTriples = None


class UltraOptions(PathOptions):
    """Of ULTRA."""

    weights: Weights = None


class TextOptions(ScorerOptions):
    """Of a scorer that reads texts."""

    epochs: Epochs = None
    host: Host = None
    batch_size: BatchSize = None
    literals: Literals = False


class SimKGCOptions(TextOptions):
    """Of SimKGC."""

    steps: Steps = None
    tokens: Tokens = None


class EncoderOptions(TextOptions):
    """Of a scorer that is an encoder of kept over texts."""

    tokens: Tokens = None
    ask: EpochTriples = None


class KeplerOptions(EncoderOptions):
    """Of KEPLER."""

    weights: Weights = None


class MixOptions(ScorerOptions):
    """Of a mix."""

    of: Of = ()
