"""WKLM: the host itself, trained to distinguish true mentions from replaced ones.

Xiong et al. 2020, "Pretrained Encyclopedia: Weakly Supervised Knowledge-Pretrained Language Model"
(ICLR). Nothing is added to the host: knowledge enters through the loss alone
(`kept.objectives.mentions.truth`), so a trained WKLM costs what its host does.
"""

from __future__ import annotations

from typing import Any

from kept.encoders.plain import Plain, PlainConfig


class WKLMConfig(PlainConfig):
    """A host's configuration and nothing else."""

    model_type = "kept-wklm"

    def __init__(self, **options: Any) -> None:  # else transformers makes one of its own
        super().__init__(**options)


class WKLM(Plain):
    """The encoder: words in, the host's states out."""

    config_class = WKLMConfig
