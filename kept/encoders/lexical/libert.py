"""LIBERT: the host itself, trained on a second task: which words a lexicon joins.

Lauscher et al. 2019, "Specializing Unsupervised Pretraining Models for Word-Level Semantic
Similarity" (COLING 2020). Nothing is added to the host: knowledge enters through the loss alone
(`kept.objectives.lexical.relations`).
"""

from __future__ import annotations

from typing import Any

from kept.encoders.plain import Plain, PlainConfig


class LIBERTConfig(PlainConfig):
    """A host's configuration and nothing else."""

    model_type = "kept-libert"

    def __init__(self, **options: Any) -> None:  # else transformers makes one of its own
        super().__init__(**options)


class LIBERT(Plain):
    """The host over words; its pooler reads pairs of terms."""

    config_class = LIBERTConfig
