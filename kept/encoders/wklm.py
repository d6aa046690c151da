"""WKLM: the host itself, trained to tell true mentions from replaced ones.

Xiong et al. 2020, "Pretrained Encyclopedia: Weakly Supervised Knowledge-Pretrained Language Model"
(ICLR). Nothing is added to the host: knowledge enters through the loss alone
(`kept.objectives.mentions.truth`), so a trained WKLM costs what its host does.
"""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder
from kept.outputs import KnowledgeOutput


class WKLMConfig(KnowledgeConfig):
    """A host's configuration and nothing else."""

    model_type = "kept-wklm"

    def __init__(self, **options: Any) -> None:  # else transformers makes one of its own
        super().__init__(**options)


class WKLM(KnowledgeEncoder):
    """The encoder: words in, the host's states out."""

    config_class = WKLMConfig

    def __init__(self, config: WKLMConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        self.post_init()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """States of every word; padded nodes have states that mean nothing."""
        hidden = hosts.embed_words(self.host, batch)
        states = hosts.run(self.host, hidden, batch.visibility, batch.node_mask)
        return KnowledgeOutput(
            node_states=states[-1], hidden_states=states, pooled_state=states[-1][:, 0]
        )
