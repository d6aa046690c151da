"""`LinkingStudy`: every setting of the experiment, as the YAML file holds it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from kept.training.config import RunConfig


class TextPlan(RunConfig):
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


class DensePlan(RunConfig):
    """Cards, the context that is compared with them, and how many of the nearest are proposed.

    `window` is in words on either side, the same to propose and to choose.
    """

    host: str
    card_pieces: PositiveInt
    context_pieces: PositiveInt
    window: PositiveInt
    n_nearest: PositiveInt
    cards: dict[str, Any] = Field(default_factory=dict)


class LinkingStudy(RunConfig):
    """The whole experiment.

    Of `hidden_tried`, widths of the re-ranker's hidden layer, the one with the best accuracy on the
    half of the held-out documents that training stops by is kept; the first of equals.
    """

    seed: NonNegativeInt
    texts: TextPlan
    dense: DensePlan
    names: dict[str, Any] = Field(default_factory=dict)
    linker: dict[str, Any] = Field(default_factory=dict)
    gates: dict[str, dict[str, Any]] = Field(default_factory=dict)
    n_candidates: PositiveInt
    mix: dict[str, float]
    normalisation: Literal["none", "z", "log-softmax"] = "none"
    coherence: dict[str, Any] = Field(default_factory=dict)
    reranker: dict[str, Any] = Field(default_factory=dict)
    hidden_tried: tuple[NonNegativeInt, ...] = (0,)
    n_resamples: PositiveInt
    published: dict[str, dict[str, float]] = Field(default_factory=dict)
