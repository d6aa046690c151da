"""Facts as plain words: the host reads each linked entity's facts written out after its mention.

No paper: it is K-BERT without its soft positions and its visible matrix, the simplest way to give a
text its facts, and so the one that every other has to beat. The view
(`kept.graphs.views.kbert`, with both switched off) writes the facts; the model is the host itself,
which adds no parameters.
"""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder
from kept.encoders.pieces import piece_vectors
from kept.outputs import KnowledgeOutput


class FactsAsWordsConfig(KnowledgeConfig):
    """A host's configuration and nothing else."""

    model_type = "kept-words"

    def __init__(self, **options: Any) -> None:  # else transformers makes one of its own
        super().__init__(**options)


class FactsAsWords(KnowledgeEncoder):
    """The host over the words of the text and of its facts."""

    config_class = FactsAsWordsConfig
    holds_rows = False
    needs_layers = False

    def __init__(self, config: FactsAsWordsConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        self.post_init()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every node; those of padding are meaningless."""
        return self.read(piece_vectors(self.host, batch), batch)
