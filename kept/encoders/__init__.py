"""Encoders: one file a paper. Each takes a `KnowledgeBatch` and returns a `KnowledgeOutput`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kept.errors import CheckpointError

if TYPE_CHECKING:
    from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder

ENCODERS: dict[str, tuple[str, str]] = {
    "kept-colake": ("kept.encoders.colake", "CoLAKE"),
    "kept-kbert": ("kept.encoders.kbert", "KBERT"),
    "kept-kepler": ("kept.encoders.kepler", "KEPLER"),
    "kept-ernie": ("kept.encoders.ernie", "ERNIE"),
}
"""`model_type` of a saved configuration to the module and the class of its encoder."""


def encoder_class(config: Any) -> type[KnowledgeEncoder]:
    """The encoder that a configuration belongs to."""
    return _load(config.model_type, "this configuration")


def read_config(folder: str | Path) -> KnowledgeConfig:
    """The configuration of a saved model; raises `CheckpointError` when it is none of ours."""
    path = Path(folder) / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    config: KnowledgeConfig = _load(
        values.get("model_type"), str(path)
    ).config_class.from_pretrained(folder)
    return config


def _load(model_type: str, place: str) -> type[KnowledgeEncoder]:
    if model_type not in ENCODERS:
        raise CheckpointError(
            f"{place} has model_type {model_type!r}, which is none of {sorted(ENCODERS)}"
        )
    module, name = ENCODERS[model_type]
    found: type[KnowledgeEncoder] = getattr(import_module(module), name)
    return found
