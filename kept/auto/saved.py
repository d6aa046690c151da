"""A saved run: its encoder, its tokenizer, and the settings that it was trained with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from transformers import PreTrainedTokenizerBase

from entity_linking.names.rules.case import CASES, Case
from kept import hosts
from kept.encoders import encoder_class, read_config
from kept.encoders.base import KnowledgeEncoder
from kept.errors import CheckpointError
from kept.graphs.builder import BuilderConfig
from kept.model_files import readable
from kept.model_settings import settings_text
from kg_loaders import KnowledgeGraph

Saved = TypeVar("Saved")
ENCODER_FILE = "encoder.json"
RUN_FILES = ("finetune.json", "pretrain.json", ENCODER_FILE)
"""A run's configuration beside its model, with its builder's settings in `graph` and the view's
options in `view`; `ENCODER_FILE` is what `AutoEncoder.save_pretrained` writes."""
STORED_SETTINGS = ("method", "host", "task", "knowledge", "training")
"""What `save_pretrained` keeps of a run's configuration beside them."""


def saved_encoder(folder: str | Path, *, graph: KnowledgeGraph | None = None) -> KnowledgeEncoder:
    """The encoder in a folder, without any heads, in evaluation mode."""
    encoder: KnowledgeEncoder = encoder_class(read_config(folder)).from_pretrained(
        folder, graph=graph
    )
    encoder.eval()
    return encoder


def saved_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer beside a saved model; raises `CheckpointError` when there is none."""
    if not (Path(folder) / "tokenizer_config.json").is_file():
        raise CheckpointError(
            f"{folder} has no tokenizer; save that of its host there "
            "(load_tokenizer(host).save_pretrained(folder)), or give one"
        )
    return hosts.load_tokenizer(folder)


def saved_builder(folder: str | Path) -> BuilderConfig:
    """The builder's settings of the run that made a folder; the defaults for a bare model."""
    return _saved(folder, lambda values: BuilderConfig(**(values.get("graph") or {})))


def saved_view(folder: str | Path) -> dict[str, Any]:
    """The view's options of the run that made a folder; none for a bare model."""
    return _saved(folder, lambda values: dict((values.get("view") or {}).items()))


def saved_case(folder: str | Path) -> Case:
    """Return how case counted where the run's texts were linked by names; smart for a bare model.

    Raises `CheckpointError` for what is not a case policy.
    """
    case = _saved(folder, lambda values: values.get("case", "smart"))
    if case not in CASES:
        raise CheckpointError(f"{folder}: case {case!r} is none of {', '.join(CASES)}")
    return cast(Case, case)


def saved_settings(folder: str | Path) -> dict[str, Any]:
    """Return the configuration of the run that made a folder; empty for a bare model."""
    for name in RUN_FILES:
        path = Path(folder) / name
        if path.is_file():
            with readable(path):
                return dict(json.loads(settings_text(path)))
    return {}


def _saved(folder: str | Path, read: Callable[[Any], Saved]) -> Saved:
    """What `read` makes of the run's configuration; of {} where there is none."""
    for name in RUN_FILES:
        path = Path(folder) / name
        if path.is_file():
            try:
                return read(json.loads(settings_text(path)))
            except (ValueError, TypeError, AttributeError) as error:
                raise CheckpointError(f"{path} is not what a run wrote: {error}") from error
    return read({})
