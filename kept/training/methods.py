"""From a `PretrainConfig` to a model and its data, whatever the method."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from entity_linking.annotations import read_jsonl
from entity_linking.mentions import LinkedText
from kept import hosts
from kept.encoders.base import KnowledgeEncoder
from kept.errors import CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.methods import Method, method
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import torch_seed
from kept.training.config import PretrainConfig
from kept.training.wordgraphs import WordGraphData
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport


def assemble(config: PretrainConfig) -> tuple[KnowledgeForPreTraining, WordGraphData]:
    """The untrained model on its host, and the data; same configuration, same weights."""
    chosen = method(config.method)
    graph = KnowledgeGraph.open(config.kg)
    tokenizer = hosts.load_tokenizer(config.host)
    objectives = config.objectives or chosen.objectives
    texts, documents = read_texts(config.text)
    data = WordGraphData(
        texts,
        graph,
        tokenizer,
        builder=builder_for(chosen, config.graph),
        view=chosen.view.of(graph, tokenizer),
        objectives=objectives,
        documents=documents,
    )
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(config.training.seed, "initial weights"))
        encoder = _encoder(config, chosen, graph, tokenizer)
        model = KnowledgeForPreTraining.of(encoder, objectives)
    if config.train_only:
        encoder.train_only(config.train_only)
    return model, data


def builder_for(chosen: Method, config: BuilderConfig) -> BuilderConfig:
    """`config` with the fields that the method's view needs."""
    needed: Mapping[str, Any] = chosen.builder
    return dataclasses.replace(config, **needed)


def read_texts(paths: Iterable[Path]) -> tuple[list[LinkedText], list[int]]:
    """Every linked text of JSONL files as `kept link -o` writes them, and how many each file has.

    Stops at a faulty line. A file is a document to objectives that ask for pairs of texts.
    """
    files = [list(read_jsonl(path, DamageReport())) for path in paths]
    return [text for file in files for text in file], [len(file) for file in files]


def _encoder(
    config: PretrainConfig,
    chosen: Method,
    graph: KnowledgeGraph,
    tokenizer: PreTrainedTokenizerBase,
) -> KnowledgeEncoder:
    if config.start_from is None:
        host = hosts.load_host(config.host)
        return chosen.encoder.for_graph(
            host, graph, tokenizer, seed=config.training.seed, **config.options
        )
    if config.options:
        raise ConfigError("options belong to a new encoder; start_from brings its own")
    encoder: KnowledgeEncoder = chosen.encoder.from_pretrained(config.start_from, graph=graph)
    words = hosts.word_table(encoder.host).num_embeddings
    if len(tokenizer) > words:
        raise CheckpointError(
            f"the tokenizer of {config.host} has {len(tokenizer)} pieces, the model in "
            f"{config.start_from} {words}; give the host that it was trained on"
        )
    return encoder
