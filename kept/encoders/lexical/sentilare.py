"""SentiLARE: words with their part of speech, their polarity, and the rating of their text.

Ke et al. 2020, "SentiLARE: Sentiment-Aware Language Representation Learning with Linguistic
Knowledge" (EMNLP), section 3.2: the vectors of all three are added to the word's (early fusion of
the rating, which a fine-tuned model is never given).

Axis legend: batch, node, width.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import NONE, KnowledgeBatch
from kept.encoders.base import EMBEDDINGS, KnowledgeConfig, KnowledgeEncoder
from kept.graphs.sentiment import NEUTRAL, OTHER
from kept.graphs.views.sentilare import PART, POLARITY, RATING
from kept.layers.vocabularies import Vocabulary
from kept.outputs import KnowledgeOutput


class SentiLAREConfig(KnowledgeConfig):
    """`n_ratings`: how many ratings a text may have (stars); one more entry means unknown."""

    model_type = "kept-sentilare"

    def __init__(self, *, n_ratings: int = 5, **options: Any) -> None:
        self.n_ratings = n_ratings
        super().__init__(**options)


class SentiLARE(KnowledgeEncoder):
    """The encoder: three small tables beside the host's words.

    Their last entries (other, neutral, unknown) are ordinary vectors, which words without a label
    have. Where we differ from the released code: these rows get gradients from the look-up, too,
    not from the heads alone, and so does `<s>`.
    """

    config_class = SentiLAREConfig

    def __init__(self, config: SentiLAREConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        width = hosts.word_table(self.host).embedding_dim
        last = {PART: OTHER, POLARITY: NEUTRAL, RATING: config.n_ratings}
        self.labels = nn.ModuleDict(
            {
                name: Vocabulary(n_entries=empty + 1, embedding=width, empty=empty)
                for name, empty in last.items()
            }
        )
        self.post_init()

    def table(self, name: str) -> Vocabulary:
        """The vectors of the vocabulary `name`."""
        module = self.labels[name]
        assert isinstance(module, Vocabulary)
        return module

    def group_outside_host(self, name: str) -> str:
        """The tables are embeddings."""
        return EMBEDDINGS

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """States of every word; a vocabulary that the batch lacks is unknown throughout."""
        vectors = self.node_vectors(batch, {0: hosts.word_table(self.host)})
        extra = batch.extra_ids or {}
        nothing = batch.node_ids.new_full((*batch.node_ids.shape, 1), NONE)
        for name in self.labels:
            vectors = vectors + self.table(name)(extra.get(name, nothing))
        return self.read(vectors, batch)
