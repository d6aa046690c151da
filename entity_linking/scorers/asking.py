"""Dear scorers, asked only about mentions that the others leave open.

A cascade (Wang, Lin and Metzler 2011, "A cascade ranking model for efficient ranked retrieval",
SIGIR): a first stage reads the cheap scorers and says how sure it is of its answer; dear ones
(vectors of contexts, a cross-encoder) read the mentions of which it is not surer than a share
fitted on held-out text. Dear scorers must judge each link by itself.

Axis legend: mention, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.parts import Scores
from entity_linking.scorers.candidate_rows import CandidateRows, Ints
from entity_linking.scorers.rerank_logits import log_shares

MOST_MISSED = 0.001
"""Share of the held-out answers that may differ from those of asking about every mention."""
MARGIN = 0.5
"""Of the doubt up to which answers changed there, what is asked too: other texts are less alike."""
FEWEST_HELD_OUT = 100
"""With fewer held-out mentions nothing is fitted: dear scorers are asked everywhere."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Which scorers are dear and when they are asked; stands in a re-ranker's manifest.

    They are asked where the first stage's share of its answer is at most `most_sure`. `asked` is
    the share of the held-out mentions where that is so, `changeable` that of the answers which
    they change when asked about all of them, `missed` what of that is not asked.
    """

    dear: tuple[str, ...]
    most_sure: float
    asked: float
    changeable: float
    missed: float

    def __post_init__(self) -> None:
        if not self.dear or not 0.0 <= self.most_sure <= 1.0:
            raise LinkingError(f"{self} asks no scorer, or its share is not between 0 and 1")

    def __str__(self) -> str:
        return (
            f"{' and '.join(self.dear)} used where the best answer without it has at most "
            f"{self.most_sure:.4f}: for {self.asked:.1%} of the held-out mentions; used for all "
            f"it changes {self.changeable:.1%} of the answers, and {self.missed:.1%} are missed"
        )

    def is_asked(self, sure: Scores, rows: CandidateRows) -> NDArray[np.bool_]:
        """About which mentions `[mention]`, by how sure the first stage is of each."""
        return (sure <= self.most_sure) & (rows.sizes > 0)


class FirstStage(NamedTuple):
    """How sure the first stage is of a mention, and whether dear scorers were asked about it."""

    sure: float
    is_asked: bool


def answers(rows: CandidateRows, logits: Scores) -> Ints:
    """The place of each mention's likeliest candidate, -1 where that is NIL, `[mention]`."""
    chosen = np.full(rows.n_mentions, -1, np.int64)
    ordered = rows.order(logits)
    firsts = rows.offsets[:-1]
    links = rows.best(logits) > 0
    chosen[links] = ordered[firsts[links]] - firsts[links]
    return chosen


def sureness(rows: CandidateRows, logits: Scores) -> Scores:
    """The share of each mention's likeliest answer, NIL among them, `[mention]`."""
    candidates, nil = log_shares(logits, rows)
    return np.exp(np.maximum(rows.best(candidates, empty=-np.inf), nil))


def fitted(
    rows: CandidateRows, first: Scores, full: Scores, expensive: Sequence[str], most_missed: float
) -> Asking:
    """The least asking that misses no more than a share of the answers, and `MARGIN` beyond.

    `first` and `full` `[candidate]` are logits of held-out mentions without and with the dear
    scorers. A change is missed where nothing is asked though all scorers together answer otherwise.
    """
    counted = rows.sizes > 0
    sure = sureness(rows, first)
    differs = counted & (answers(rows, first) != answers(rows, full))
    n_mentions = max(int(counted.sum()), 1)
    most = int(most_missed * n_mentions)
    where = np.sort(sure[differs])[::-1]
    if n_mentions < FEWEST_HELD_OUT:
        most_sure = 1.0
    elif len(where) > most:
        most_sure = 1.0 - MARGIN * (1.0 - float(where[most]))
    else:
        most_sure = 0.0
    return Asking(
        tuple(expensive),
        most_sure,
        asked=float((counted & (sure <= most_sure)).sum()) / n_mentions,
        changeable=len(where) / n_mentions,
        missed=float((where > most_sure).sum()) / n_mentions,
    )
