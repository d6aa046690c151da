"""From a `PretrainConfig` to a model and its data; a new method is one function and one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.annotations import read_jsonl
from entity_linking.mentions import LinkedText
from kept import hosts
from kept.errors import HostError
from kept.objectives.masked_nodes import CoLAKEForPreTraining
from kept.randomness import torch_seed
from kept.training.config import PretrainConfig
from kept.training.wordgraphs import WordGraphData
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport


def assemble(config: PretrainConfig) -> tuple[PreTrainedModel, WordGraphData]:
    """The untrained model on its host, and the data; same configuration, same weights."""
    graph = KnowledgeGraph.open(config.kg)
    texts = read_texts(config.text)
    tokenizer = hosts.load_tokenizer(config.host)
    data = word_graph_data(texts, graph, tokenizer, config)
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(config.training.seed, "initial weights"))
        model = METHODS[config.method](config, graph, tokenizer)
    return model, data


def read_texts(paths: Iterable[Path]) -> list[LinkedText]:
    """Every linked text of JSONL files as `kept link -o` writes them; stops at a faulty line."""
    return [text for path in paths for text in read_jsonl(path, DamageReport())]


def word_graph_data(
    texts: list[LinkedText],
    graph: KnowledgeGraph,
    tokenizer: PreTrainedTokenizerBase,
    config: PretrainConfig,
) -> WordGraphData:
    """`WordGraphData` with the configuration's options; negatives follow the links of `texts`."""
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        raise HostError(f"the tokenizer of {config.host} has no mask or no padding token")
    masking = config.masking.over(
        word_mask_id=tokenizer.mask_token_id,
        n_words=len(tokenizer),
        n_entities=graph.n_entities,
        n_relations=graph.n_relations,
        special_word_ids=tuple(sorted(tokenizer.all_special_ids)),
    )
    return WordGraphData(
        texts,
        graph,
        tokenizer,
        builder=config.graph,
        masking=masking,
        n_negatives=config.n_negatives,
    )


def _colake(
    config: PretrainConfig, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase
) -> PreTrainedModel:
    model = CoLAKEForPreTraining.from_host(hosts.load_host(config.host), graph)
    model.encoder.initialise_from_labels(graph, tokenizer)
    return model


METHODS: dict[str, Callable[[PretrainConfig, KnowledgeGraph, Any], PreTrainedModel]] = {
    "colake": _colake
}
