"""How true a model holds what stands in the place of an answer (WKLM's zero-shot completion).

Xiong et al. 2020, "Pretrained Encyclopedia: Weakly Supervised Knowledge-Pretrained Language Model"
(ICLR), section 3.1; released code xwhan/fairseq-wklm. A candidate is put into the text, and scored
by the probability that the mention was not replaced; the released code may add the probability of
its first piece, which stands unmasked in its place.

Axis legend: sample, node.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.batches.batch import MENTION_FILLS
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.objectives.masked_words import MaskedWords
from kept.objectives.mentions.truth import MentionTruth
from kept.objectives.model import KnowledgeForPreTraining


def require_truth(model: KnowledgeForPreTraining, name: str) -> None:
    """Raise `ConfigError` for a model without the head of `mention_truth`."""
    if not any(isinstance(head, MentionTruth) for head in model.objectives.values()):
        raise ConfigError(
            f"{name} was trained for {sorted(model.objectives)}: it cannot judge whether a "
            f"mention is true; train it with --objective mention_truth (kept pretrain "
            f"--method wklm), "
            "or leave out --truth"
        )


def truths(
    model: KnowledgeForPreTraining,
    batch: KnowledgeBatch,
    spans: Int[Tensor, "sample 2"],
    *,
    first_word: float = 0.0,
) -> Float[Tensor, " sample"]:
    """Return p(true) of the mention at the nodes `spans`, plus `first_word` times the probability
    that `mlm` gives its first piece there.

    Raises `ConfigError` where `first_word` is not 0 and the model has no `mlm`.
    """
    fields: dict[str, Any] = dict.fromkeys(MENTION_FILLS)
    batch = batch.replace(**fields | {"mention_spans": spans[:, None]})
    encoder = model.encoder
    assert isinstance(encoder, KnowledgeEncoder)
    output = encoder(batch)
    (head,) = (head for head in model.objectives.values() if isinstance(head, MentionTruth))
    scores: Tensor = head.chance_true(output, batch, encoder)[:, 0]
    if not first_word:
        return scores
    words = next((h for h in model.objectives.values() if isinstance(h, MaskedWords)), None)
    if words is None:
        raise ConfigError("the first word's weight needs a model that was trained with mlm, too")
    rows, first = torch.arange(len(spans), device=spans.device), spans[:, 0]
    table = hosts.word_table(encoder.host).weight
    chances = words.logits(output.node_states[rows, first], table).softmax(-1)
    return scores + first_word * chances[rows, batch.node_ids[rows, first]]
