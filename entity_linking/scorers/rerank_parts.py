"""What a re-ranker and its training share: settings, a record, weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.parts import Scores

Weights = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """How a re-ranker is trained.

    `absent`: a mention whose gold entity is not among its candidates trains NIL ("nil", which is
    what the linker should then answer) or is left out ("skip"). Mentions without a candidate are
    always left out: nothing about them is to be decided. Training ends after `epochs`, or when
    the held-out loss has not fallen for `patience` epochs; the best epoch is kept. `hidden` is 0
    because hidden units fit the entities of the training texts: trained on T-REx, 16 of them nearly
    halve the held-out loss, are no more accurate on entities that training had not seen, and less
    on Wiki80 (`benchmarks/linking/linking_rerankers.py`).

    `networks` that begin elsewhere answer together by the mean of their shares (`rerank_logits`);
    without `hidden` there is one best network, so that several are refused.
    """

    seed: int = 0
    epochs: int = 40
    patience: int = 4
    hidden: int = 0
    learning_rate: float = 0.01
    weight_decay: float = 1e-4
    mentions_per_step: int = 256
    absent: Literal["nil", "skip"] = "nil"
    networks: int = 1

    def __post_init__(self) -> None:
        counts = (self.epochs, self.patience, self.mentions_per_step, self.networks)
        if min(counts) < 1 or self.hidden < 0 or self.learning_rate <= 0 or self.weight_decay < 0:
            raise LinkingError(
                f"{self} has a count below 1, a negative size or a rate that is not above 0"
            )
        if self.absent not in ("nil", "skip"):
            raise LinkingError(f"absent is {self.absent!r}; choose nil or skip")
        if self.networks > 1 and not self.hidden:
            raise LinkingError(
                f"{self.networks} networks without hidden units are one; give hidden units too"
            )


DEFAULTS = RerankSettings()


@dataclass(frozen=True, slots=True)
class RerankRecord:
    """What a re-ranker was made from and how it went; stands in its manifest."""

    settings: RerankSettings
    graph_hash: str
    trained_on: str
    n_mentions: int
    n_nil: int
    n_held_out: int
    best_epoch: int
    train_loss: float
    held_out_loss: float


def standard(values: Scores, weights: Mapping[str, Scores], kind: str) -> Scores:
    """Features with the mean and deviation of the training set taken out."""
    return (values - weights[f"{kind}.mean"]) / weights[f"{kind}.deviation"]
