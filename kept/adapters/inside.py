"""What is inserted into an otherwise frozen host: LoRA or bottlenecks, saved with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedModel

from kept.adapters import bottleneck, lora
from kept.adapters.bottleneck import HoulsbyOptions, insert_bottlenecks
from kept.adapters.lora import LoraOptions, insert_lora
from kept.errors import ConfigError
from kept.options import read_options

PLACES: dict[str, tuple[str, ...]] = {
    "lora": (f".{lora.PLACE}",),
    "houlsby": (f".{bottleneck.PLACE}.", ".LayerNorm."),
}
"""Kind to parts of its parameters' names; with bottlenecks, layer norms are trained, too."""


def read_inside(values: Mapping[str, Mapping[str, Any]]) -> dict[str, LoraOptions | HoulsbyOptions]:
    """Options by kind; raises `ConfigError` for an unknown kind or field, or for two kinds."""
    kinds = {"lora": LoraOptions, "houlsby": HoulsbyOptions}
    if len(values) > 1 or not values.keys() <= kinds.keys():
        raise ConfigError(f"inside is {dict(values)}: lora or houlsby, one of them")
    return {name: read_options(kinds[name], fields, name) for name, fields in values.items()}


def put_inside(host: PreTrainedModel, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Insert what `values` names, initially without effect, and freeze the rest of the host."""
    for options in read_inside(values).values():
        before = {id(module) for module in host.modules()}
        if isinstance(options, LoraOptions):
            insert_lora(host, options)
        else:
            insert_bottlenecks(host, options)
        for module in host.modules():
            if id(module) not in before:
                module._is_hf_initialized = True  # else it is initialised again
        host.to(host.dtype)
    freeze_around(host, tuple(values))


def freeze_around(host: PreTrainedModel, kinds: tuple[str, ...]) -> None:
    """Freeze all of the host but what was inserted; without any insertion, nothing."""
    for name, parameter in host.named_parameters():
        if kinds and not is_inside(name, kinds):
            parameter.requires_grad_(False)


def is_inside(name: str, kinds: tuple[str, ...]) -> bool:
    """Whether a parameter of the host belongs to one of these kinds."""
    return any(place in name for kind in kinds for place in PLACES[kind])
