"""Dependency heads: the linguistic adapter's task (Wang et al. 2020, section 3.3).

Class 0 means none, class 1 + n the n-th word piece of the sentence, special pieces counted; the
head of a root is the first piece.

Axis legend: batch, node, position (classes), width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertAttention

from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.kadapter import KAdapter
from kept.errors import BatchError, ConfigError
from kept.layers.means import mean_of
from kept.objectives.adapter_features import AdapterFeatures, features_for, keep_initialisation
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class DependencyHeadsOptions:
    """`adapter`: the one that learns ("" = the only one in training, or the encoder's own states).

    `n_positions`: classes; sentences may have as many word pieces, special ones counted.
    """

    adapter: str = ""
    n_positions: int = 128
    dropout: float = 0.1


class DependencyHeadsPreparation(Preparation):
    """Nothing to mark: labels come with the treebank."""

    @classmethod
    def of(cls, options: DependencyHeadsOptions, world: PreparationContext) -> Self:
        """Raises `ConfigError`: linked texts have no trees."""
        raise ConfigError(
            "dependency_heads learns from trees, not from linked texts; train it on "
            "kept.training.pretraining.treebanks.DependencyData (`kept pretrain --treebank`)"
        )

    @property
    def fingerprint(self) -> str:
        """Nothing is sampled here."""
        return "trees"


class HeadScores(NamedTuple):
    """Intermediate states of the head."""

    context: Float[Tensor, "batch node width"]
    attention: Float[Tensor, "batch 1 node node"]
    logits: Float[Tensor, "batch node position"]


class DependencyHeads(Objective):
    """One more block of self-attention with a single head, then two linear layers.

    The block's attention is a second, untrained prediction of heads in the released evaluation; no
    loss is put on it there nor here.
    """

    def __init__(
        self, features: nn.Module, *, width: int, n_positions: int, dropout: float
    ) -> None:
        super().__init__()
        self.features, self.n_positions = features, n_positions
        self.self_attention = BertAttention(
            BertConfig(
                hidden_size=width,
                num_attention_heads=1,
                layer_norm_eps=1e-5,
                hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=dropout,
                attn_implementation="eager",  # the only one that gives probabilities
            )
        )
        self.dense = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(width, n_positions)
        keep_initialisation(self)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: DependencyHeadsOptions) -> Self:
        features = features_for(encoder, options.adapter)
        if isinstance(encoder, KAdapter) and isinstance(features, AdapterFeatures):
            encoder.describe_adapter(features.adapter, trained_on="dependency_heads", graph_hash="")
        return cls(
            features,
            width=encoder.host.config.hidden_size,
            n_positions=options.n_positions,
            dropout=options.dropout,
        )

    def scores(self, features: Float[Tensor, "batch node width"], node_mask: Tensor) -> HeadScores:
        """Context, attention and logits; every node attends to the real ones."""
        mask = Visibility.of_real(node_mask).attention("eager", features.dtype)
        context, attention = self.self_attention(features, mask)
        logits = self.out_proj(self.dropout(self.dense(context)))
        return HeadScores(context, attention, logits)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """Mean cross entropy over labelled pieces, under the name dependency_heads.

        Raises `BatchError` for a label beyond the last class.
        """
        labels = batch.node_labels
        if labels is None:
            return {}
        if labels.numel() and int(labels.max()) >= self.n_positions:
            raise BatchError(
                f"a head has class {int(labels.max())}, the objective has "
                f"{self.n_positions}; raise n_positions or leave out longer sentences"
            )
        logits = self.scores(self.features(output), batch.node_mask).logits
        flat = labels.flatten()
        total = F.cross_entropy(logits.flatten(0, 1), flat, reduction="sum", ignore_index=IGNORE)
        return {"dependency_heads": mean_of(total, (flat != IGNORE).sum())}
