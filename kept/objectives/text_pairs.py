"""Text pairs: next-sentence prediction and sentence order (`nsp`, `sop`).

Devlin et al. 2019 (BERT), section 3.1: class 0 is the real next text, 1 a random one. Lan et al.
2020 (ALBERT), section 3.1: class 0 is the texts in order, 1 swapped. Pairs and classes are made
with the data (`kept.inputs.pairs`), since graphs are built around pairs.

Axis legend: batch, width, class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.layers.means import mean_of
from kept.objectives.base import Objective, Pairing, Preparation, PreparationContext
from kept.outputs import KnowledgeOutput

N_CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class TextPairOptions:
    """No options: classes are balanced, as in both papers."""


class TextPairObjective(Objective):
    """Abstract: two classes on the host's pooler over the first node (`hosts.pooled`)."""

    loss_name: ClassVar[str]

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.classes = nn.Linear(width, N_CLASSES)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: TextPairOptions) -> Self:
        return cls(width=encoder.host.config.hidden_size)

    def logits(
        self, output: KnowledgeOutput, encoder: KnowledgeEncoder
    ) -> Float[Tensor, "batch class"]:
        """Scores of the two classes."""
        return self.classes(hosts.pooled(encoder.host, output.node_states))

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """The mean over samples with a class; 0 where all are IGNORE."""
        if batch.pair_labels is None:
            return {}
        labels = batch.pair_labels
        total = F.cross_entropy(
            self.logits(output, encoder), labels, reduction="sum", ignore_index=IGNORE
        )
        return {self.loss_name: mean_of(total, (labels != IGNORE).sum())}


class NextSentence(TextPairObjective):
    """BERT's: whether the second text follows the first."""

    loss_name = "nsp"


class SentenceOrder(TextPairObjective):
    """ALBERT's: whether the two texts are in order."""

    loss_name = "sop"


class TextPairPreparation(Preparation):
    """Abstract: requires pairs of the data, and labels nothing itself."""

    @classmethod
    def of(cls, options: TextPairOptions, world: PreparationContext) -> Self:
        return cls()

    @property
    def fingerprint(self) -> str:
        return f"{self.pairing}"


class NextSentencePreparation(TextPairPreparation):
    """Pairs with the next text or a random one."""

    pairing: ClassVar[Pairing | None] = "next_sentence"


class SentenceOrderPreparation(TextPairPreparation):
    """Pairs of two texts in order or swapped."""

    pairing: ClassVar[Pairing | None] = "sentence_order"
