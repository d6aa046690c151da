"""Further vocabularies beside the word pieces: senses, polarities, parts of speech.

A vocabulary is read at the input, where the rows of a word's ids are added up, and predicted at the
output, against the same rows or others. Levine et al. 2020, "SenseBERT" (ACL), sections 3.2 and
3.3; Ke et al. 2020, "SentiLARE" (EMNLP), sections 3.2 and 3.3.

Axis legend: batch, node, slot (ids of one node), chosen (nodes that are scored), width, embedding,
entry (rows of the vocabulary).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from kept.batches import IGNORE, NONE
from kept.batches.host_copies import moved, on_host
from kept.errors import BatchError
from kept.layers.transform import Transform


class Vocabulary(nn.Module):
    """One vector per entry; a node's input is the sum of the vectors of its ids.

    An empty slot adds nothing, or the vector of `empty`, for vocabularies that have an entry of
    their own for it ("other", "neutral").
    """

    def __init__(self, *, n_entries: int, embedding: int, empty: int | None = None) -> None:
        super().__init__()
        self.vectors = nn.Embedding(n_entries, embedding)
        self.empty = empty

    def forward(self, ids: Int[Tensor, "batch node slot"]) -> Float[Tensor, "batch node embedding"]:
        """Raises `IndexError` for an id beyond the vocabulary."""
        is_empty = ids == NONE
        vectors: Tensor = self.vectors(ids.masked_fill(is_empty, self.empty or 0))
        if self.empty is None:
            vectors = vectors.masked_fill(is_empty[..., None], 0)
        return vectors.sum(2)


class VocabularyHead(nn.Module):
    """Scores of a vocabulary's entries against vectors of them, with one bias per entry.

    States go through `Transform` first, as of masked words, or with `transform` False are compared
    as they are, which needs states as wide as the vectors.
    """

    def __init__(
        self,
        *,
        width: int,
        embedding: int,
        n_entries: int,
        epsilon: float = 1e-12,
        transform: bool = True,
    ) -> None:
        super().__init__()
        self.transform: nn.Module = nn.Identity()
        if transform:
            self.transform = Transform(width=width, embedding=embedding, epsilon=epsilon)
        self.bias = nn.Parameter(torch.zeros(n_entries))

    def forward(
        self, states: Float[Tensor, "*chosen width"], vectors: Float[Tensor, "entry embedding"]
    ) -> Float[Tensor, "*chosen entry"]:
        """`vectors` are those of the entries: a `Vocabulary`'s own, where the two are tied."""
        return F.linear(self.transform(states), vectors, self.bias)


def allowed_losses(
    logits: Float[Tensor, "chosen entry"], labels: Int[Tensor, "chosen slot"]
) -> tuple[Float[Tensor, " chosen"], Float[Tensor, " chosen"]]:
    """Return two losses per node over the set of entries that its `labels` allow (IGNORE: none).

    The first is -log of the allowed entries' total probability, the second the mean of their -log
    probabilities (SenseBERT, section 3.3, equations 3 and 4). With one label both are the cross
    entropy; without any both are 0. Raises `BatchError` for a label outside the vocabulary.
    """
    known = on_host(labels)
    is_labelled = known != IGNORE
    outside = is_labelled & ((known < 0) | (known >= logits.shape[-1]))
    if bool(outside.any()):
        raise BatchError(
            f"label {int(known[outside][0])} is outside the {logits.shape[-1]} entries of the "
            "vocabulary"
        )
    allowed = torch.zeros_like(logits, dtype=torch.bool)
    rows, _ = is_labelled.nonzero(as_tuple=True)
    entries = moved(rows * logits.shape[-1] + known[is_labelled], logits.device)
    allowed.view(-1).index_fill_(0, entries, True)
    some = allowed.any(1)
    shares = logits.log_softmax(1)
    least = torch.finfo(shares.dtype).min
    together = torch.where(some, -shares.masked_fill(~allowed, least).logsumexp(1), 0.0)
    each = -shares.masked_fill(~allowed, 0.0).sum(1) / allowed.sum(1).clamp(min=1)
    return together, each
