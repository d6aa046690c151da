"""A head that scores where an answer starts and ends, and how its scores become answers.

Devlin et al. 2019, "BERT" (NAACL), sections 4.2 and 4.3: two vectors, whose products with the
states are scores of start and end; the score of a span is their sum, that of no answer the sum at
the first node.

Axis legend: batch, node, width, piece (word pieces of a window's context), window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.heads.base import Head
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class SpanOptions:
    """How a question is shown, and read off.

    Of a question `max_question` word pieces are read; a context that is too long is read in windows
    that begin `stride` pieces after one another. An answer has `max_answer` pieces at most;
    `n_best` starts and ends of a window are tried with each other. `no_answer`: a question may have
    none. `over`: which nodes a loss is over, "shown" or "all", padding too, as in released codes.
    """

    dropout: float = 0.0
    over: str = "shown"
    no_answer: bool = False
    stride: int = 128
    max_question: int = 64
    max_answer: int = 30
    n_best: int = 20

    def __post_init__(self) -> None:
        faults = [
            f"{name} {value}: 1 or more"
            for name in ("stride", "max_question", "max_answer", "n_best")
            if (value := getattr(self, name)) < 1
        ]
        if self.over not in ("shown", "all"):
            faults.append(f"over {self.over!r}: 'shown' or 'all'")
        if faults:
            raise ConfigError("head span: " + "; ".join(faults))


class SpanHead(Head):
    """Dropout and one linear layer to two scores a node: `[batch node 2]`.

    Unless a loss is over all nodes, padding has the lowest score that there is.
    """

    def __init__(self, *, width: int, n_classes: int, options: SpanOptions) -> None:
        super().__init__()
        self.over = options.over
        self.dropout = nn.Dropout(options.dropout)
        self.classes = nn.Linear(width, n_classes)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, n_classes: int, options: SpanOptions) -> Self:
        width = encoder.host.config.hidden_size
        return cls(width=width, n_classes=n_classes, options=options)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        scores: Tensor = self.classes(self.dropout(output.node_states))
        if self.over == "all":
            return scores
        return scores.masked_fill(~batch.node_mask[..., None], torch.finfo(scores.dtype).min)


class Window(NamedTuple):
    """Scores of one window: `scores [node 2]`, `nodes [piece 2]` (where a piece stands, end
    exclusive; (0, 0) nowhere) and `spans [piece 2]` (its characters)."""

    scores: NDArray[np.float32]
    nodes: NDArray[np.int64]
    spans: NDArray[np.int32]


class Span(NamedTuple):
    """A stretch of the text that may answer, and its score."""

    start: int
    end: int
    score: float


def best_spans(windows: Sequence[Window], options: SpanOptions) -> list[Span]:
    """The best spans over all windows, the best first, each stretch once; ties go to the earlier.

    Where several pieces share a node, a span starts at the first of them and ends with the last.
    """
    best_scores: dict[tuple[int, int], float] = {}
    for window in windows:
        for start, end, score in _spans_of(window, options):
            key = int(window.spans[start, 0]), int(window.spans[end, 1])
            best_scores[key] = max(score, best_scores.get(key, -np.inf))
    best = sorted(best_scores.items(), key=lambda item: (-item[1], item[0]))
    return [Span(*key, score) for key, score in best[: options.n_best]]


def score_of_none(windows: Sequence[Window]) -> float:
    """The score of no answer: the lowest over the windows, since one with an answer is enough."""
    return min(float(window.scores[0].sum()) for window in windows)


def _spans_of(window: Window, options: SpanOptions) -> list[tuple[int, int, float]]:
    rows_with_nodes = np.flatnonzero(window.nodes[:, 1] > window.nodes[:, 0])
    if not len(rows_with_nodes):
        return []
    nodes = window.nodes[rows_with_nodes]
    is_first = np.r_[True, nodes[1:, 0] != nodes[:-1, 0]]
    is_last = np.r_[nodes[1:, 1] != nodes[:-1, 1], True]
    starts, ends = rows_with_nodes[is_first], rows_with_nodes[is_last]
    of_start = window.scores[window.nodes[starts, 0], 0]
    of_end = window.scores[window.nodes[ends, 1] - 1, 1]
    return [
        (int(starts[i]), int(ends[j]), float(of_start[i] + of_end[j]))
        for i in np.argsort(-of_start, kind="stable")[: options.n_best]
        for j in np.argsort(-of_end, kind="stable")[: options.n_best]
        if 0 <= ends[j] - starts[i] < options.max_answer
    ]
