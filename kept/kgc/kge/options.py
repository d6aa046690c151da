"""Options of scorers in `kept kgc train`: each is declared once, a scorer takes those of its model.

The command line, its help and its errors are made of these models. None is the recipe's value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from kept.bounds import MAX_COUNT

Epochs = Annotated[int | None, Field(ge=1, le=10**6, description="Instead of the recipe's.")]
Width = Annotated[int | None, Field(ge=2, le=2**16, description="Instead of the recipe's.")]
Reciprocal = Annotated[bool, Field(description="Ask for heads as tails of inverse relations.")]
Norm = Annotated[
    int | None, Field(ge=1, le=2, description="Of the distance: else 2 of transe, 1 of rotate.")
]
Weights = Annotated[
    Path | None,
    Field(
        description="ultra: a released file; with --epochs it is trained further. kepler: a run of "
        "kept pretrain."
    ),
]
Of = Annotated[
    tuple[Path, ...],
    Field(description="Folders of trained scorers, weighed on validation; may be repeated."),
]
Host = Annotated[
    str | None,
    Field(
        description="minilm (default), a folder or a hub name.",
        json_schema_extra={"check": "local or hub"},
    ),
]
BatchSize = Annotated[int | None, Field(ge=2, le=2**20, description="Instead of the recipe's.")]
Steps = Annotated[int | None, Field(ge=1, le=MAX_COUNT, description="End after as many.")]
Tokens = Annotated[int | None, Field(ge=4, le=512, description="Word pieces of a text.")]
Ask = Annotated[
    int | None,
    Field(ge=1, le=MAX_COUNT, description="Triples asked in an epoch; all epochs are run."),
]
Literals = Annotated[
    bool,
    Field(description="Numbers and dates of literals.tsv in SOURCE, before descriptions."),
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
    ask: Ask = None


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
    ask: Ask = None


class KeplerOptions(EncoderOptions):
    """Of KEPLER."""

    weights: Weights = None


class MixOptions(ScorerOptions):
    """Of a mix."""

    of: Of = ()
