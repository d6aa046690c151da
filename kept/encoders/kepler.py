"""KEPLER: the host itself, whose state over a description is the entity's vector.

Wang et al. 2021, "KEPLER: A Unified Model for Knowledge Embedding and Pre-trained Language
Representation" (TACL 9). Nothing is added to the host: knowledge enters through the loss alone
(`kept.objectives.knowledge_embedding`), so that a trained KEPLER costs what its host does and can
replace it anywhere.

Axis legend: batch, node, text, width.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder
from kept.outputs import KnowledgeOutput


class KEPLERConfig(KnowledgeConfig):
    """`zero_padding`: embeddings of padded nodes are set to zero, as the released code does.

    It changes the (meaningless) states of padded nodes only.
    """

    model_type = "kept-kepler"

    def __init__(self, *, zero_padding: bool = False, **options: Any) -> None:
        self.zero_padding = zero_padding
        super().__init__(**options)


class KEPLER(KnowledgeEncoder):
    """The encoder: words in, the host's states out.

    Where we differ from the released code: it lets padded positions look at the text; here a padded
    node sees itself. No real node can tell.
    """

    config_class = KEPLERConfig
    needs_layers = False

    def __init__(self, config: KEPLERConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        self.post_init()

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every node; those of padding are meaningless."""
        hidden = hosts.embed_words(self.host, batch)
        if self.config.zero_padding:  # the released code computes padding, from zeros
            hidden = hidden.masked_fill(~batch.node_mask[..., None], 0.0)
            states = hosts.run(self.host, hidden, batch.visibility, positions=batch.positions)
        else:
            states = hosts.run(
                self.host, hidden, batch.visibility, batch.node_mask, positions=batch.positions
            )
        return KnowledgeOutput.of(states)

    def encode_texts(self, texts: KnowledgeBatch) -> Float[Tensor, "batch width"]:
        """Vectors of the entities that `texts` describe: the state of each first node.

        Bare, without projection or normalisation.
        """
        return self(texts).node_states[:, 0]
