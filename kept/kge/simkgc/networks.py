"""SimKGC's two encoders, and scores with in-batch, pre-batch and self negatives.

Wang et al. 2022, "SimKGC: Simple Contrastive Knowledge Graph Completion with Pre-trained Language
Models" (ACL), section 3; released code intfloat/SimKGC, whose weights load by `ORIGINAL`.

Axis legend: batch, text, token, width, tail (columns of a batch), slot (of the queue), column.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from transformers import PreTrainedModel

from kept.errors import ConfigError
from kept.host_families import n_segments
from kept.kge.simkgc.texts import Tokens

Pooling = Literal["mean", "cls", "max"]
MASKED = -1e4
"""What a score becomes that does not compete, and a padded state under max pooling."""
ORIGINAL = {"hr_bert.": "questions.", "tail_bert.": "entities.", "log_inv_t": "log_scale"}
"""Beginnings of the released program's names -> ours."""


class BiEncoder(nn.Module):
    """One encoder of (head, relation) pairs, one of entities; they begin as copies.

    `log_scale` is the logarithm of 1 / temperature, learned unless `learn_temperature` is False.
    """

    def __init__(
        self,
        host: PreTrainedModel,
        *,
        pooling: Pooling = "mean",
        temperature: float = 0.05,
        learn_temperature: bool = True,
    ) -> None:
        super().__init__()
        if pooling not in ("mean", "cls", "max"):
            raise ConfigError(f"pooling {pooling!r} is unknown; take mean, cls or max")
        self.pooling = pooling
        self.questions = host
        self.entities = deepcopy(host)
        start = torch.tensor(math.log(1 / temperature), dtype=host.dtype)
        self.log_scale = nn.Parameter(start, requires_grad=learn_temperature)

    def encode_questions(self, tokens: Tokens) -> Float[Tensor, "text width"]:
        """Vectors of length 1 of (head, relation) pairs."""
        return self._encode(self.questions, tokens)

    def encode_entities(self, tokens: Tokens) -> Float[Tensor, "text width"]:
        """Vectors of length 1 of entities, tails and heads alike."""
        return self._encode(self.entities, tokens)

    def _encode(self, encoder: PreTrainedModel, tokens: Tokens) -> Tensor:
        states = encoder(
            input_ids=tokens.ids,
            attention_mask=tokens.mask.long(),
            token_type_ids=tokens.types if n_segments(encoder.config) > 1 else None,
        ).last_hidden_state
        return normalize(pooled(states, tokens.mask, self.pooling), dim=1)


def pooled(
    states: Float[Tensor, "text token width"], mask: Bool[Tensor, "text token"], pooling: Pooling
) -> Float[Tensor, "text width"]:
    """The first state, the mean or the maximum over all that is not padding."""
    if pooling == "cls":
        return states[:, 0]
    if pooling == "max":
        return states.masked_fill(~mask[..., None], MASKED).amax(1)
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


@dataclass(frozen=True, eq=False)
class Contrast:
    """A batch's scores `logits [batch column]`: tails, then the queue's slots, then the own head.

    `backwards [tail batch]` are the scores of the first columns the other way round.
    """

    logits: Float[Tensor, "batch column"]
    backwards: Float[Tensor, "tail batch"]

    def losses(self) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the right tail for each question, and of the question for each tail.

        Training adds them up; validation reads the first alone.
        """
        right = torch.arange(len(self.logits), device=self.logits.device)
        return cross_entropy(self.logits, right), cross_entropy(self.backwards, right)


def contrast(
    questions: Float[Tensor, "batch width"],
    tails: Float[Tensor, "tail width"],
    log_scale: Tensor,
    mask: Bool[Tensor, "batch tail"],
    *,
    margin: float = 0.0,
    pre_batch: Float[Tensor, "batch slot"] | None = None,
    heads: Float[Tensor, "batch width"] | None = None,
    head_mask: Bool[Tensor, " batch"] | None = None,
) -> Contrast:
    """Scores of a batch (equations 4 to 6).

    `mask` True = competes; `margin` is taken from the right tails' cosines and is for training
    alone. `pre_batch` are scores that `PreBatch.scores` made; with `heads` every question's own
    head is one more column.
    """
    scale = log_scale.exp()
    cosines = questions @ tails.T
    on_diagonal = torch.eye(len(questions), dtype=cosines.dtype, device=cosines.device)
    inner = ((cosines - margin * on_diagonal) * scale).masked_fill(~mask, MASKED)
    columns = [inner] if pre_batch is None else [inner, pre_batch]
    if heads is not None:
        own_scores = (questions * heads).sum(1) * scale
        if head_mask is not None:
            own_scores = own_scores.masked_fill(~head_mask, MASKED)
        columns.append(own_scores[:, None])
    return Contrast(torch.cat(columns, 1), inner.T)


class PreBatch:
    """A ring of the tail vectors of the last `n_batches` steps, as further negatives.

    Vectors carry no gradient and are in no checkpoint. As released, slots hold random unit vectors
    until a step has written them, and nothing is masked before the last slot was written once.
    """

    def __init__(
        self, *, n_batches: int, batch_size: int, width: int, generator: torch.Generator
    ) -> None:
        start = torch.randn(n_batches * batch_size, width, generator=generator)
        self.vectors = normalize(start, dim=1)
        self.tails = torch.full((len(start),), -1)
        self.offset = 0

    @property
    def is_filled(self) -> bool:
        """Whether the last slot was written."""
        return bool(self.tails[-1] >= 0)

    def scores(
        self,
        questions: Float[Tensor, "batch width"],
        log_scale: Tensor,
        mask: Bool[Tensor, "batch slot"],
        *,
        weight: float = 0.5,
    ) -> Float[Tensor, "batch slot"]:
        """Weighed scores of all slots; `mask` (True = competes) counts once the ring is filled."""
        cosines = questions @ self.vectors.clone().T
        logits = cosines * (log_scale.exp() * weight)
        return logits.masked_fill(~mask, MASKED) if self.is_filled else logits

    def store(self, vectors: Float[Tensor, "tail width"], tails: Int[Tensor, " tail"]) -> None:
        """Write a step's tails over the oldest ones, after their scores were read."""
        slots = slice(self.offset, self.offset + len(vectors))
        self.vectors[slots], self.tails[slots] = vectors.detach(), tails
        self.offset = (self.offset + len(vectors)) % len(self.tails)
