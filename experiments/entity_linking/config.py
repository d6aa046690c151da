"""`Study`: every setting of the experiment, as the YAML file holds it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TextPlan(_Part):
    """How the annotated text is divided and made into documents.

    `shares` of the documents go to the counts, to training and to the held-out part. Documents are
    1 to `most_sentences` sentences; of mentions that can be written shorter a share
    `shorten_first` is at the first mention of the entity, `shorten_later` after it. `n_train` and
    `n_held_out` are documents by source. A share `hidden` of the mentions loses its
    entity from the candidates, so that there is NIL to learn from.
    """

    shares: dict[str, NonNegativeFloat]
    overlap_words: PositiveInt
    most_sentences: PositiveInt
    shorten_first: NonNegativeFloat
    shorten_later: NonNegativeFloat
    n_train: dict[str, NonNegativeInt]
    n_held_out: dict[str, NonNegativeInt]
    hidden: NonNegativeFloat


class DensePlan(_Part):
    """Cards, the context that is compared with them, and how many of the nearest are proposed.

    `window` is in words on either side, the same to propose and to choose.
    """

    host: str
    card_pieces: PositiveInt
    context_pieces: PositiveInt
    window: PositiveInt
    n_nearest: PositiveInt
    cards: dict[str, Any] = {}


class Study(_Part):
    """The whole experiment.

    Of `hidden_tried`, widths of the re-ranker's hidden layer, the one with the best accuracy on the
    half of the held-out documents that training stops by is kept; the first of equals.
    """

    seed: NonNegativeInt
    texts: TextPlan
    dense: DensePlan
    names: dict[str, Any] = {}
    linker: dict[str, Any] = {}
    gates: dict[str, dict[str, Any]] = {}
    n_candidates: PositiveInt
    mix: dict[str, float]
    normalisation: Literal["none", "z", "log-softmax"] = "none"
    coherence: dict[str, Any] = {}
    reranker: dict[str, Any] = {}
    hidden_tried: tuple[NonNegativeInt, ...] = (0,)
    n_resamples: PositiveInt
    published: dict[str, dict[str, float]] = {}
