"""What is inserted into an otherwise frozen host: LoRA, bottlenecks or PALs, saved with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import PreTrainedModel

from kept.adapters import bottleneck, lora, pals
from kept.adapters.bottleneck import HoulsbyOptions, insert_bottlenecks
from kept.adapters.lora import LoraOptions, insert_lora
from kept.adapters.pals import PALOptions, insert_pals
from kept.errors import ConfigError
from kept.options import read_options

PLACES: dict[str, tuple[str, ...]] = {
    "lora": (f".{lora.NAME_PART}",),
    "houlsby": (f".{bottleneck.MODULE_NAME}.", ".LayerNorm."),
    "pals": (f".{pals.MODULE_NAME}.",),
}
"""Kind to parts of its parameters' names; with bottlenecks, layer norms are trained, too."""


InsideOptions = LoraOptions | HoulsbyOptions | PALOptions
_KINDS: dict[str, tuple[Any, Callable[[PreTrainedModel, Any], None]]] = {
    "lora": (LoraOptions, insert_lora),
    "houlsby": (HoulsbyOptions, insert_bottlenecks),
    "pals": (PALOptions, insert_pals),
}


def read_inside(values: Mapping[str, Mapping[str, Any]]) -> dict[str, InsideOptions]:
    """Options by kind; raises `ConfigError` for an unknown kind or field, or for two kinds."""
    if len(values) > 1 or not values.keys() <= _KINDS.keys():
        raise ConfigError(f"inside is {dict(values)}: {', '.join(_KINDS)}, one of them")
    return {name: read_options(_KINDS[name][0], fields, name) for name, fields in values.items()}


def put_inside(host: PreTrainedModel, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Insert what `values` names, initially without effect, and freeze the rest of the host."""
    for kind, options in read_inside(values).items():
        before = {id(module) for module in host.modules()}
        _KINDS[kind][1](host, options)
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
    return any(part in name for kind in kinds for part in PLACES[kind])
