"""Schedules over groups of layers: which are trained when, and at which rate.

The groups are the encoder's own (`KnowledgeEncoder.group_of`); what is not the encoder's is "head".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from torch import nn

from kept.encoders.base import EMBEDDINGS, HEAD, KnowledgeEncoder
from kept.errors import ConfigError
from kept.training.config import TrainConfig, Unfreezing

PREFIX = "encoder."


@runtime_checkable
class HasRateShares(Protocol):
    """A model that says itself at which share of the rate some of its parameters are trained."""

    def rate_shares(self) -> Mapping[int, float]:
        """By `id` of a parameter; 1 where absent."""
        ...


def layer_groups(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Every parameter of a model in its group, lowest group first.

    A tied parameter belongs to its first group. Raises `ConfigError` for a model without a
    `KnowledgeEncoder`.
    """
    encoder = _encoder(model)
    groups: dict[str, list[nn.Parameter]] = {name: [] for name in encoder.groups}
    for name, parameter in model.named_parameters():
        inside = name.startswith(PREFIX)
        group = encoder.group_of(name.removeprefix(PREFIX)) if inside else HEAD
        groups[group].append(parameter)
    return groups


def rate_scales(model: nn.Module, config: TrainConfig) -> dict[int, float]:
    """Share of the rate by `id` of a parameter, 1 where absent.

    `rate_decay`: 1 for the head, 1 / decay one group further down (Howard and Ruder 2018, section
    3.1). `host_learning_rate`: its share of the rate for the host's own parameters. A model of
    `HasRateShares` has shares of its own.
    """
    scales: dict[int, float] = dict(model.rate_shares()) if isinstance(model, HasRateShares) else {}
    if config.rate_decay is not None:
        for depth, parameters in enumerate(reversed(layer_groups(model).values())):
            scales |= {id(p): config.rate_decay**-depth for p in parameters}
    if config.host_learning_rate is not None:
        share = config.host_learning_rate / config.learning_rate
        for p in _encoder(model).host.parameters():
            scales[id(p)] = scales.get(id(p), 1.0) * share
    return scales


def stages(groups: tuple[str, ...], order: str) -> list[tuple[str, ...]]:
    """Return the groups trained in each stage, `groups` lowest first; the last stage goes on.

    >>> stages(("embeddings", "layer.0", "head"), "gradual")
    [('head',), ('layer.0', 'head'), ('embeddings', 'layer.0', 'head')]
    >>> stages(("embeddings", "layer.0", "head"), "chain")[:3]
    [('head',), ('embeddings',), ('layer.0',)]
    >>> stages(("embeddings", "layer.0", "layer.1", "head"), "sequential")[1:]
    [('layer.0', 'layer.1', 'head'), ('embeddings', 'layer.0', 'layer.1', 'head')]
    """
    if order == "gradual":
        return [groups[start:] for start in reversed(range(len(groups)))]
    if order == "two-stage":
        return list(dict.fromkeys([groups[-1:], groups]))
    if order == "sequential":
        without = tuple(name for name in groups if name != EMBEDDINGS)
        return list(dict.fromkeys([groups[-1:], without, groups]))
    top, *rest = (groups[-1], *groups[:-1])
    return [*((name,) for name in (top, *rest)), groups]


class Stages:
    """`Unfreezing` of a model: a context in which groups are frozen, and released at its end.

    Which groups are trained is a function of step and epoch alone. A frozen group has no gradients:
    its parameters neither decay nor advance their moments.
    """

    def __init__(self, model: nn.Module, unfreezing: Unfreezing | None) -> None:
        self._every = None if unfreezing is None else unfreezing.every
        self._moving: dict[str, list[nn.Parameter]] = {}
        self._stages: list[tuple[str, ...]] = []
        if unfreezing is not None:
            self._moving = {
                name: trained
                for name, parameters in layer_groups(model).items()
                if (trained := [p for p in parameters if p.requires_grad])
                and not {*map(id, trained)} <= _parameters_without_output(model)
            }
            self._stages = stages(tuple(self._moving), unfreezing.order)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._set(tuple(self._moving))

    def at(self, step: int, epoch: int) -> tuple[str, ...] | None:
        """Return the groups trained at a step, lowest first; None without such a schedule."""
        if not self._stages:
            return None
        stage = epoch if self._every is None else step // self._every
        return self._stages[min(stage, len(self._stages) - 1)]

    def enter(self, step: int, epoch: int) -> None:
        """Unfreeze the step's groups, and freeze all others."""
        active = self.at(step, epoch)
        if active is not None:
            self._set(active)

    def never(self, last_step: int, last_epoch: int) -> tuple[str, ...]:
        """Return the groups that no step up to the last one trains."""
        last = self.at(last_step, last_epoch)
        if last is None:
            return ()
        earlier = {name for stage in self._stages[: self._stages.index(last) + 1] for name in stage}
        return tuple(name for name in self._moving if name not in earlier)

    def _set(self, names: tuple[str, ...]) -> None:
        for name, parameters in self._moving.items():
            for parameter in parameters:
                parameter.requires_grad_(name in names)


def _encoder(model: nn.Module) -> KnowledgeEncoder:
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, KnowledgeEncoder):
        raise ConfigError(
            f"{type(model).__name__} has no encoder of ours: unfreezing, rate_decay and "
            "host_learning_rate go by its parts; leave them out"
        )
    return encoder


def _parameters_without_output(model: nn.Module) -> set[int]:
    """Parameters that no output depends on, by `id`: alone they are not a stage."""
    encoder = _encoder(model)
    return {id(p) for name, p in encoder.named_parameters() if name.startswith(encoder.unused)}
