"""The host alone: the baseline that every method is compared with, on the same path.

No paper: words in, the host's own states out. Pre-trained further on the same text, it is the
control for "more text" as against "knowledge".
"""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder
from kept.outputs import KnowledgeOutput


class PlainConfig(KnowledgeConfig):
    """A host's configuration and nothing else."""

    model_type = "kept-plain"

    def __init__(self, **options: Any) -> None:  # else transformers makes one of its own
        super().__init__(**options)


class Plain(KnowledgeEncoder):
    """The host over words."""

    config_class = PlainConfig
    holds_rows = False
    needs_layers = False

    def __init__(self, config: PlainConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        self.post_init()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every word; those of padding are meaningless."""
        hidden = hosts.embed_words(self.host, batch)
        states = hosts.run(
            self.host, hidden, batch.visibility, batch.node_mask, positions=batch.positions
        )
        return KnowledgeOutput.of(states)
