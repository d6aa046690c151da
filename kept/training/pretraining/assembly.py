"""From a `PretrainConfig` to a model and its data, whatever the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedTokenizerBase

from entity_linking.annotations.redirects import read_resolved
from kept import hosts
from kept.encoders.base import KnowledgeEncoder
from kept.errors import CheckpointError, ConfigError
from kept.inputs.flat_texts import read_texts
from kept.inputs.views import builder_for, view_for
from kept.methods import Method, method
from kept.objectives.model import KnowledgeForPreTraining, objective_kind
from kept.objectives.word_heads import copy_mlm_head
from kept.randomness import torch_draws
from kept.tasks.datasets.conllu import read_conllu
from kept.training.pretraining.config import TREES, PretrainConfig
from kept.training.pretraining.data import WordGraphData
from kept.training.pretraining.treebanks import DependencyData
from kept.training.processes.shards import tables_in_parts
from kept.training.stream import PretrainingData
from kg_loaders import KnowledgeGraph, graph_from_records

Objectives = Mapping[str, Mapping[str, Any]]


def assemble(config: PretrainConfig) -> tuple[KnowledgeForPreTraining, PretrainingData]:
    """The untrained model on its host, and the data; same configuration, same weights.

    Of tables that several processes share out it has this one's rows (`PartTable`).
    """
    method_spec = method(config.method)
    graph = graph_from_records([]) if config.kg is None else KnowledgeGraph.open(config.kg)
    tokenizer = hosts.load_tokenizer(config.host)
    objectives: Objectives = config.objectives or (
        {TREES: {}} if config.treebank else method_spec.objectives
    )
    data: PretrainingData = (
        _trees(config, tokenizer, objectives)
        if config.treebank
        else _texts(config, method_spec, graph, tokenizer, objectives)
    )
    with tables_in_parts(config.training):
        with torch_draws(config.training.seed, "initial weights"):
            encoder = _encoder(config, method_spec, graph, tokenizer)
            model = KnowledgeForPreTraining.of(encoder, objectives)
        if config.start_from is not None:
            copy_mlm_head(config.start_from, model)
    if config.train_only:
        encoder.train_only(config.train_only)
    if config.freeze:
        encoder.freeze_parts(config.freeze)
    return model, data


def _texts(
    config: PretrainConfig,
    method_spec: Method,
    graph: KnowledgeGraph,
    tokenizer: PreTrainedTokenizerBase,
    objectives: Objectives,
) -> WordGraphData:
    texts, documents = read_texts(config.text)
    texts, note = read_resolved(texts, config.redirects, lambda name: name in graph.entities)
    data = WordGraphData(
        texts,
        graph,
        tokenizer,
        builder=builder_for(method_spec, config.graph, config.view, in_pretraining=True),
        view=view_for(method_spec, graph, tokenizer, config.view),
        objectives=objectives,
        documents=documents,
        long=config.long,
    )
    data.notes = [] if note is None else [note]
    data.require_read(
        needs_facts=config.start_from is None
        and not precomputed_options(config.options, method_spec)
    )
    return data


def precomputed_options(options: Mapping[str, Any], method_spec: Method | None) -> list[str]:
    """Options of the method's encoder that name precomputed vectors, or a graph of their own.

    Not those that are computed from whatever graph the run is given, as E-BERT's `vectors: facts`.

    >>> precomputed_options({"vectors": "facts"}, method("ebert"))
    []
    >>> precomputed_options({"vectors": "runs/transe"}, method("ernie"))
    ['vectors']
    """
    vector_options = (None, *(method_spec.encoder.own_vectors if method_spec else ()))
    names = [] if options.get("vectors") in vector_options else ["vectors"]
    kars = [kar for kar in options.get("kars", ()) if isinstance(kar, Mapping)]
    return names + sorted(
        {f"kars.{n}" for kar in kars for n in ("kg", "vectors_from") if kar.get(n)}
    )


def _trees(
    config: PretrainConfig, tokenizer: PreTrainedTokenizerBase, objectives: Objectives
) -> DependencyData:
    """The sentences that fit both `graph.max_words` and the objective's classes."""
    options = objective_kind(TREES).read(TREES, objectives[TREES])
    sentences = [sentence for path in config.treebank for sentence in read_conllu(path)]
    longest = min(config.graph.max_words, options.n_positions)
    return DependencyData(sentences, tokenizer, max_words=longest)


def _encoder(
    config: PretrainConfig,
    method_spec: Method,
    graph: KnowledgeGraph,
    tokenizer: PreTrainedTokenizerBase,
) -> KnowledgeEncoder:
    if config.start_from is None:
        options = {**(method_spec.on_trees if config.treebank else {}), **config.options}
        return method_spec.new_encoder(
            config.host, graph, tokenizer, seed=config.training.seed, **options
        )
    if config.options:
        raise ConfigError("options belong to a new encoder; start_from brings its own")
    encoder: KnowledgeEncoder = method_spec.encoder.from_pretrained(config.start_from, graph=graph)
    words = hosts.word_table(encoder.host).num_embeddings
    if len(tokenizer) > words:
        raise CheckpointError(
            f"the tokenizer of {config.host} has {len(tokenizer)} pieces, the model in "
            f"{config.start_from} {words}; give the host that it was trained on"
        )
    return encoder
