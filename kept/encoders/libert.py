"""LIBERT: the host itself, which is taught by a second task which words a lexicon joins.

Lauscher et al. 2019, "Specializing Unsupervised Pretraining Models for Word-Level Semantic
Similarity" (COLING 2020). Nothing is added to the host: knowledge enters through the loss alone
(`kept.objectives.lexical.relations`).
"""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder
from kept.outputs import KnowledgeOutput


class LIBERTConfig(KnowledgeConfig):
    """A host's configuration and nothing else."""

    model_type = "kept-libert"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)


class LIBERT(KnowledgeEncoder):
    """The host over words; its pooler reads pairs of terms."""

    config_class = LIBERTConfig

    def __init__(self, config: LIBERTConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        self.post_init()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """States of every word; padded nodes have states that mean nothing."""
        hidden = hosts.embed_words(self.host, batch)
        states = hosts.run(self.host, hidden, batch.visibility, batch.node_mask)
        return KnowledgeOutput(
            node_states=states[-1], hidden_states=states, pooled_state=states[-1][:, 0]
        )
