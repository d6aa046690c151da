"""The view and the builder of a method: how its encoder's input comes of a linked text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedTokenizerBase

from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import View
from kept.methods import Method
from kg_loaders import KnowledgeGraph


def builder_for(
    method_spec: Method,
    config: BuilderConfig,
    view: Mapping[str, Any],
    *,
    in_pretraining: bool = False,
) -> BuilderConfig:
    """Return `config` with the fields that the method's view needs and a `drop_probability`.

    `view` holds the options of the view, which may need fields of their own. A `drop_probability`
    of None is the method's own in pre-training, and 0 in a task.
    """
    require_options(method_spec, view)
    view = {**method_spec.view_options, **view}
    needed = {**method_spec.view.builder_fields(config, view), **method_spec.builder}
    if config.drop_probability is None:
        needed["drop_probability"] = 0.0
    if in_pretraining:
        needed |= pretraining_fields(method_spec, config)
    return dataclasses.replace(config, **needed)


def pretraining_fields(method_spec: Method, config: BuilderConfig) -> dict[str, Any]:
    """The fields that the method sets in pre-training where `config` does not."""
    return dict(method_spec.in_pretraining) if config.drop_probability is None else {}


def view_for(
    method_spec: Method,
    graph: KnowledgeGraph,
    tokenizer: PreTrainedTokenizerBase,
    options: Mapping[str, Any],
) -> View:
    """The method's view with `options`; raises `ConfigError` naming one that it does not have."""
    require_options(method_spec, options)
    return method_spec.view.of(graph, tokenizer, **{**method_spec.view_options, **options})


def require_options(method_spec: Method, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` naming an option that the method's view does not have."""
    names = method_spec.view.option_names()
    unknown = [name for name in options if name not in names]
    if unknown:
        raise ConfigError(
            f"{method_spec.view.__name__} has no option {unknown[0]!r}; "
            f"it has {', '.join(names) or 'none'}"
        )
