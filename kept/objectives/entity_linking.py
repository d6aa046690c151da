"""KnowBERT's objective: choose each mention's entity (`el`; Peters et al. 2019, section 3.4).

Axis legend: batch, mention, asked (mentions that are scored), candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.batches.host_copies import at, on_both, places
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.knowbert import KnowBERT
from kept.errors import ConfigError
from kept.layers.kar import KAR
from kept.layers.means import mean_of
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.outputs import KnowledgeOutput

MOST_RANDOM = 5


@dataclass(frozen=True, kw_only=True)
class EntityLinkingOptions:
    """Softmax without the gold entity, and mentions of masked words.

    `missing_gold`: "ignore" leaves a mention out whose gold entity (or NIL) is not among its
    candidates; "first" takes the first candidate for gold (the released code). The margin loss
    pushes all of them down in either case. `mask_share` and `random_share`: of the mentions with a
    masked word (by `mlm`, which comes first), the shares that get the MASK entity alone, and random
    candidates of the text, so that candidates do not reveal a masked name; both lose their labels.
    """

    missing_gold: str = "ignore"
    mask_share: float = 0.8
    random_share: float = 0.1

    def __post_init__(self) -> None:
        if self.missing_gold not in ("ignore", "first"):
            raise ConfigError(f"missing_gold is {self.missing_gold!r}; use 'ignore' or 'first'")
        if min(self.mask_share, self.random_share) < 0 or self.mask_share + self.random_share > 1:
            raise ConfigError(
                f"objective el: mask_share {self.mask_share} + random_share {self.random_share}: "
                "from 0 to 1"
            )


class EntityLinkingPreparation(Preparation):
    """Masks candidates where words are masked; labels come from the view.

    The released code decides once per masked piece and mention over it; here once per mention.
    """

    def __init__(self, options: EntityLinkingOptions) -> None:
        self.options = options

    @classmethod
    def of(cls, options: EntityLinkingOptions, world: PreparationContext) -> Self:
        return cls(options)

    @property
    def fingerprint(self) -> str:
        return str(self.options)

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        spans = batch.mention_spans
        if batch.node_labels is None or spans is None or batch.mention_labels is None:
            return batch
        hidden = (batch.node_labels[0] != IGNORE).tolist()
        mentions = dict.fromkeys(map(tuple, spans[0].tolist()))
        for start, stop in mentions:
            if not any(hidden[start:stop]):
                continue
            draw = draws.random()
            if draw < self.options.mask_share:
                batch = mask_span(batch, (start, stop))
            elif draw < self.options.mask_share + self.options.random_share:
                batch = _randomise(batch, (start, stop), draws)
        return batch


def mask_span(batch: KnowledgeBatch, span: tuple[int, int]) -> KnowledgeBatch:
    """Give every mention of exactly this span, in every graph, MASK as its only candidate."""
    mentions = _equal(batch, span)
    assert batch.candidate_ids is not None
    ids = torch.full_like(batch.candidate_ids, PAD_ROW)
    ids[..., 0] = MASK_ROW
    priors = torch.zeros(ids.shape)
    priors[..., 0] = 1
    return _with_candidates(batch, mentions, ids, priors)


def _randomise(
    batch: KnowledgeBatch, span: tuple[int, int], draws: np.random.Generator
) -> KnowledgeBatch:
    """Give every mention of this span one to five candidates of its graph from the same text."""
    mentions = _equal(batch, span)
    assert batch.candidate_ids is not None
    ids = torch.full_like(batch.candidate_ids, PAD_ROW)
    priors = torch.zeros(ids.shape)
    graphs = torch.zeros_like(mentions, dtype=torch.int64)
    if batch.mention_graphs is not None:
        graphs = batch.mention_graphs
    for mention_row in mentions[0].nonzero()[:, 0].tolist():
        pool = batch.candidate_ids[0][graphs[0] == graphs[0, mention_row]].unique()
        pool = pool[pool >= N_SPECIAL_ROWS].numpy()
        n_drawn = min(int(draws.integers(1, MOST_RANDOM + 1)), len(pool), ids.shape[2])
        if n_drawn == 0:
            ids[0, mention_row, 0], priors[0, mention_row, 0] = MASK_ROW, 1
            continue
        shares = draws.random(n_drawn) + 1e-6
        sampled_rows = draws.choice(pool, n_drawn, replace=False)
        ids[0, mention_row, :n_drawn] = torch.from_numpy(sampled_rows)
        priors[0, mention_row, :n_drawn] = torch.from_numpy(shares / shares.sum()).float()
    return _with_candidates(batch, mentions, ids, priors)


def _equal(batch: KnowledgeBatch, span: tuple[int, int]) -> Bool[Tensor, "batch mention"]:
    assert batch.mention_spans is not None
    return (batch.mention_spans == torch.tensor(span)).all(2)


def _with_candidates(
    batch: KnowledgeBatch, mentions: Tensor, ids: Tensor, priors: Tensor
) -> KnowledgeBatch:
    """Set other candidates at `mentions`, whose labels are then ignored."""
    assert batch.candidate_ids is not None
    assert batch.candidate_priors is not None
    labels = batch.mention_labels
    column = mentions[..., None]
    return batch.replace(
        candidate_ids=ids.where(column, batch.candidate_ids),
        candidate_priors=priors.where(column, batch.candidate_priors),
        mention_labels=None if labels is None else labels.masked_fill(mentions, IGNORE),
    )


class EntityLinking(Objective):
    """One loss per KAR, `el` where there is one and `el_NAME` where there are several.

    Margin: the mean over candidates of `max(0, m - s)` for the gold one and `max(0, m + s)` for
    every other. Softmax: cross entropy over a mention's candidates.
    """

    def __init__(self, *, missing_gold: str) -> None:
        super().__init__()
        self.missing_gold = missing_gold

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: EntityLinkingOptions) -> Self:
        """Raises `ConfigError` unless the encoder scores links."""
        if not isinstance(encoder, KnowBERT):
            raise ConfigError(f"el needs linking scores; {type(encoder).__name__} has none")
        return cls(missing_gold=options.missing_gold)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """Means over the labelled mentions of each KAR; 0 where none is labelled."""
        labels, ids, scores = batch.mention_labels, batch.candidate_ids, output.linking_scores
        if labels is None or ids is None or scores is None:
            return {}
        assert isinstance(encoder, KnowBERT)
        losses = {}
        for index, spec in enumerate(encoder.specs):
            chosen = _labelled(labels, batch.mention_graphs, index)
            real = on_both(lambda rows: rows != PAD_ROW, at(ids, chosen))
            right = on_both(
                lambda real, rows, gold: real & (rows == gold[:, None]),
                real, at(ids, chosen), at(labels, chosen),
            )  # fmt: skip
            name = "el" if len(encoder.specs) == 1 else f"el_{spec.name}"
            losses[name] = self._loss(spec, at(scores, chosen), real, right)
        return losses

    def _loss(
        self,
        spec: KAR,
        scores: Float[Tensor, "asked candidate"],
        real: Bool[Tensor, "asked candidate"],
        right: Bool[Tensor, "asked candidate"],
    ) -> Float[Tensor, ""]:
        if spec.loss == "margin":
            return margin_loss(scores, real, right, margin=spec.margin)
        return softmax_loss(scores, real, right, missing_gold=self.missing_gold)


def _labelled(labels: Tensor, graphs: Tensor | None, index: int) -> Tensor:
    """The flat places of the labelled mentions of graph `index`."""
    if graphs is None:
        return places(lambda labels: labels != IGNORE, labels)
    return places(lambda labels, graphs: (labels != IGNORE) & (graphs == index), labels, graphs)


def margin_loss(
    scores: Float[Tensor, "asked candidate"],
    real: Bool[Tensor, "asked candidate"],
    right: Bool[Tensor, "asked candidate"],
    *,
    margin: float,
) -> Float[Tensor, ""]:
    """Gold candidates above the margin, all others below minus the margin; 0 without any."""
    losses = F.relu(margin + torch.where(right, -scores, scores)).masked_fill(~real, 0.0)
    return mean_of(losses.sum(), real.sum())


def softmax_loss(
    scores: Float[Tensor, "asked candidate"],
    real: Bool[Tensor, "asked candidate"],
    right: Bool[Tensor, "asked candidate"],
    *,
    missing_gold: str = "ignore",
) -> Float[Tensor, ""]:
    """Cross entropy of the gold candidate (its first place); 0 where no mention has one."""
    chosen = places(lambda each: each.any(1), right if missing_gold == "ignore" else real)
    targets = right.index_select(0, chosen).to(torch.uint8).argmax(1)
    total = F.cross_entropy(scores.index_select(0, chosen), targets, reduction="sum")
    return mean_of(total, len(targets))
