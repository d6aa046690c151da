"""What completers of texts ask of a graph, and what they keep of their host beside the weights."""

from __future__ import annotations

import json
from pathlib import Path

from transformers import AutoConfig, PretrainedConfig, PreTrainedTokenizerBase

from kept.errors import ConfigError
from kept.hosts import load_tokenizer
from kept.model_files import seal_model
from kept.model_settings import require_sane, settings_text
from kg_loaders import KnowledgeGraph

_HOST = "host"


def require_texts(graph: KnowledgeGraph, scorer: str) -> None:
    """Raise `ConfigError` where no entity has a label or a description of its own."""
    ids = range(graph.n_entities)
    if not any(graph.label(i) != graph.entities.name(i) or graph.description(i) for i in ids):
        raise ConfigError(
            f"{scorer} reads names and descriptions, but no entity has any: build the graph with "
            "`kept kg build --labels`, or put entity2text.txt into the folder of train, "
            "valid and test"
        )


def save_host(
    folder: Path, tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig | None = None
) -> list[str]:
    """Write a tokenizer, and the configuration of its host, below `folder`; the files' names."""
    host_folder = folder / _HOST
    if config is not None:
        config.save_pretrained(host_folder)
    tokenizer.save_pretrained(host_folder)
    seal_model(host_folder)
    return sorted(f"{_HOST}/{path.name}" for path in host_folder.iterdir())


def saved_host_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that `save_host` wrote."""
    return load_tokenizer(folder / _HOST)


def saved_host_config(folder: Path) -> PretrainedConfig:
    """The host's configuration that `save_host` wrote."""
    require_sane(folder / _HOST)
    values = json.loads(settings_text(folder / _HOST / "config.json"))
    return AutoConfig.for_model(values.pop("model_type"), **values)
