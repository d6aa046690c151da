"""Knowledge graph and text in one space, aligned by the descriptions of entities.

Zhong, Zhang, Wang, Wan and Chen 2015, "Aligning Knowledge and Text Embeddings by Entity
Descriptions" (EMNLP), section 3: the knowledge and the text model of Wang et al. 2014, and in place
of links and names a word of an entity's description and the entity predict each other.

Axis legend: pair, negative, width.
"""

from __future__ import annotations

from torch import Tensor

from kept.joint.likelihood import BIAS, Negatives, prediction_losses


def description_losses(
    entity: Tensor,
    word: Tensor,
    drawn_words: Negatives,
    drawn_entities: Negatives,
    bias: float = BIAS,
) -> Tensor:
    """Minus `log Pr(w | e) + log Pr(e | w)` of a word of e's description, `[pair]`."""
    return prediction_losses(entity, word, drawn_words, bias) + prediction_losses(
        word, entity, drawn_entities, bias
    )
