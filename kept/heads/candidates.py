"""A head that chooses among the candidates of a mention, or none of them.

Poerner, Waltinger and Schütze 2020, "E-BERT" (Findings of EMNLP), section 4.3: at a mask before the
mention, the transformed state is compared with the vectors of the mention's candidates, and with a
trained vector that stands for none.

Axis legend: batch, mention, candidate, width, embedding (of the host's word table).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from kept import hosts
from kept.batches import PAD_ROW, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import BatchError, ConfigError
from kept.heads.base import Head
from kept.host_families import layer_norm_eps
from kept.layers.rows import RowTable
from kept.layers.transform import Transform
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class CandidatesOptions:
    """`priors`: the log of a candidate's prior is added to its score, and a trained number to that
    of none."""

    priors: bool = True


class CandidatesHead(Head):
    """Scores `[batch 1 + candidate]` of a text's first mention: of none, then of its candidates.

    It reads the state at the first node of `mention_spans`, and the encoder's own vectors of
    entities, which must lie in the space of the host's words. Places without a candidate have the
    lowest score that there is. `transform` may take the weights of a head over words.
    """

    def __init__(self, *, width: int, embedding: int, epsilon: float, table: str, priors: bool):
        super().__init__()
        self.table, self.priors = table, priors
        self.transform = Transform(width=width, embedding=embedding, epsilon=epsilon)
        self.null_vector = nn.Parameter(torch.zeros(embedding))
        self.null_bias = nn.Parameter(torch.zeros(1))

    @classmethod
    def for_encoder(
        cls, encoder: KnowledgeEncoder, n_classes: int, options: CandidatesOptions
    ) -> Self:
        """Raises `ConfigError` for an encoder without such vectors."""
        host = encoder.host.config
        return cls(
            width=host.hidden_size,
            embedding=hosts.word_table(encoder.host).embedding_dim,
            epsilon=layer_norm_eps(host),
            table=entity_table(encoder),
            priors=options.priors,
        )

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        """Raises `BatchError` for a batch without candidates."""
        if batch.candidate_ids is None or batch.mention_spans is None:
            raise BatchError(
                "the head candidates reads candidate_ids of a mention: make the batch with "
                "kept.training.finetuning.linking.questions.CandidateData"
            )
        ids = batch.candidate_ids[:, 0]
        rows = torch.arange(len(ids), device=ids.device)
        states = self.transform(output.node_states[rows, batch.mention_spans[:, 0, 0]])
        scores = torch.einsum("bce,be->bc", encoder.get_submodule(self.table)(ids), states)
        none = states @ self.null_vector
        if self.priors:
            if batch.candidate_priors is None:
                raise BatchError("the head candidates adds priors, and the batch has none")
            priors = batch.candidate_priors[:, 0].clamp(min=torch.finfo(scores.dtype).tiny)
            scores, none = scores + priors.log(), none + self.null_bias
        scores = scores.masked_fill(ids == PAD_ROW, torch.finfo(scores.dtype).min)
        return torch.cat([none[:, None], scores], dim=1)


def entity_table(encoder: KnowledgeEncoder) -> str:
    """The name of the encoder's module of entities that have vectors in the space of words.

    Raises `ConfigError` where it has none.
    """
    tables: list[RowTable] = [
        table for table in encoder.row_tables() if table.of == "entity" and table.space == "words"
    ]
    if not tables:
        raise ConfigError(
            f"{type(encoder).__name__} has no vectors of entities in the space of the host's "
            "words, which the head candidates compares with; take ebert or colake"
        )
    return tables[0].name.removesuffix(".weight")
