"""Encoders: one file per paper. Each takes a `KnowledgeBatch` and returns a `KnowledgeOutput`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kept.errors import CheckpointError
from kg_loaders.errors import PluginError
from kg_loaders.plugins import METHODS, plugins_of

if TYPE_CHECKING:
    from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder

ENCODERS: dict[str, tuple[str, str]] = {
    "kept-colake": ("kept.encoders.colake", "CoLAKE"),
    "kept-kepler": ("kept.encoders.kepler", "KEPLER"),
    "kept-ernie": ("kept.encoders.ernie", "ERNIE"),
    "kept-kadapter": ("kept.encoders.kadapter", "KAdapter"),
    "kept-plain": ("kept.encoders.plain", "Plain"),
    "kept-kbert": ("kept.encoders.kbert", "KBERT"),
    "kept-libert": ("kept.encoders.lexical.libert", "LIBERT"),
    "kept-sensebert": ("kept.encoders.lexical.sensebert", "SenseBERT"),
    "kept-sentilare": ("kept.encoders.lexical.sentilare", "SentiLARE"),
    "kept-ebert": ("kept.encoders.ebert", "EBERT"),
    "kept-wklm": ("kept.encoders.wklm", "WKLM"),
    "kept-words": ("kept.encoders.words", "FactsAsWords"),
    "kept-ktnet": ("kept.encoders.ktnet", "KTNET"),
    "kept-qagnn": ("kept.encoders.subgraph.qagnn", "QAGNN"),
    "kept-greaselm": ("kept.encoders.subgraph.greaselm", "GreaseLM"),
    "kept-knowbert": ("kept.encoders.knowbert", "KnowBERT"),
    "kept-luke": ("kept.encoders.luke", "LUKE"),
}
"""`model_type` of a saved configuration to the module and the class of its encoder.

Encoders of plugins are those of their methods: `kept-NAME` is that of the entry point NAME.
"""


def encoder_class(config: Any) -> type[KnowledgeEncoder]:
    """The encoder that a configuration belongs to."""
    return _load(config.model_type, "this configuration")


def encoder_of(config: KnowledgeConfig, encoder: KnowledgeEncoder | None) -> KnowledgeEncoder:
    """Return the encoder under a model's heads: `encoder` with its weights, or else a new one.

    `config` and the encoder share the host's configuration from here on.
    """
    from kept.model_files import keep_weights  # loads torch

    if encoder is None:
        encoder = encoder_class(config)(config)
    else:
        keep_weights(encoder)
    config.host = encoder.config.host
    return encoder


def read_config(folder: str | Path) -> KnowledgeConfig:
    """The configuration of a saved model; raises `CheckpointError` when it is none of ours."""
    from kept.model_files import MODEL, readable, verify_model  # loads torch
    from kept.model_settings import require_sane, settings_text

    path = Path(folder) / "config.json"
    if (Path(folder) / MODEL.manifest).is_file():
        verify_model(folder)
    try:
        values = json.loads(settings_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(
            f"{path} holds a {type(values).__name__}, not the fields of a model; give the folder "
            "of a saved model"
        )
    require_sane(Path(folder))
    kind: type[KnowledgeConfig] = _load(str(values.get("model_type")), str(path)).config_class
    with readable(path):
        config: KnowledgeConfig = kind.from_pretrained(folder)
    return config


def _load(model_type: str, module_name: str) -> type[KnowledgeEncoder]:
    if model_type in ENCODERS:
        module, name = ENCODERS[model_type]
        encoder: type[KnowledgeEncoder] = getattr(import_module(module), name)
        return encoder
    plugins = {f"kept-{plugin.name}": plugin for plugin in plugins_of(METHODS)}
    if model_type not in plugins:
        raise CheckpointError(
            f"{module_name} has model_type {model_type!r}, which is not one of "
            f"{sorted([*ENCODERS, *plugins])}; if it is a plugin's, install that package"
        )
    line = plugins[model_type].load()
    if not hasattr(line, "encoder"):
        raise PluginError(
            f"the plugin {plugins[model_type]} in {METHODS} is not a kept.methods.Method"
        )
    loaded: type[KnowledgeEncoder] = line.encoder
    return loaded
