"""LoRA through peft: low-rank changes of the host's attention projections.

Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models" (ICLR), section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from kept import hosts
from kept.errors import ConfigError, MissingExtraError
from kept.host_families import family_of

TARGETS = ("query", "key", "value", "output")
"""Projections of attention; `kept.host_families` has where each lies in a layer of each family."""
NAME_PART = "lora_"


MAX_ALPHA = 1e6
"""A larger scale overflows the weights."""


@dataclass(frozen=True, kw_only=True)
class LoraOptions:
    """The update of a projection is `alpha / rank` times a product of rank `rank`.

    `targets`: of "query", "key", "value", "output"; by default the paper's choice (section 5.1).
    `dropout` before the change. Raises `ConfigError` naming every fault.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: Sequence[str] = ("query", "value")

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        faults = [
            f"targets {name!r}: one of {list(TARGETS)}"
            for name in self.targets
            if name not in TARGETS
        ]
        if not self.targets:
            faults.append(f"targets: at least one of {list(TARGETS)}")
        if self.rank < 1:
            faults.append(f"rank {self.rank}: 1 or more")
        if not 0 < self.alpha <= MAX_ALPHA:
            faults.append(f"alpha {self.alpha}: above 0, at most {MAX_ALPHA}")
        if not 0 <= self.dropout < 1:
            faults.append(f"dropout {self.dropout}: from 0, below 1")
        if faults:
            raise ConfigError("lora: " + "; ".join(faults))


def insert_lora(host: PreTrainedModel, options: LoraOptions) -> None:
    """Insert peft's LoRA layers around the projections, each initially without effect.

    Raises `MissingExtraError` without peft.
    """
    hosts.require_layers(host, "LoRA")
    family = family_of(host.config)
    prefixes = [family.layer_prefix(host, i) for i in range(len(hosts.layers(host)))]
    places = [family.projections[name] for name in options.targets]
    insert_lora_around(host, options, list(dict.fromkeys(a + b for a in prefixes for b in places)))


def insert_lora_around(host: PreTrainedModel, options: LoraOptions, modules: list[str]) -> None:
    """`insert_lora` around the linear maps called `modules`, whatever the host."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise MissingExtraError("LoRA needs peft: pip install 'kept[peft]'") from None
    inject_adapter_in_model(
        LoraConfig(
            r=options.rank,
            lora_alpha=options.alpha,
            lora_dropout=options.dropout,
            target_modules=modules,
            fan_in_fan_out=host.config.model_type == "gpt2",  # its maps hold weights transposed
        ),
        host,
    )
