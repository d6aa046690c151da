"""The view of words alone: the text's word pieces, and neither entities nor facts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.errors import BatchError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views import WORDS_ONLY, WordsView
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

SMALL = BuilderConfig(max_words=30, max_nodes=90)


def test_it_is_the_tokenizers_output(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    view = WordsView.of(small_graph, tokenizer)
    config = dataclasses.replace(SMALL, **WORDS_ONLY)
    for text in linked:
        graph = build(text, tokenizer, small_graph, generator=generator(0, "t"), config=config)
        batch = view(graph)
        ids = tokenizer(text.text, truncation=True, max_length=30)["input_ids"]
        assert batch.node_ids[0].tolist() == ids
        assert batch.positions[0].tolist() == list(range(len(ids)))
        assert not batch.node_kinds.any()
        assert batch.visibility.mask.all()
        assert batch.node_mask.all()
        assert batch.segment_ids.dtype == torch.int64
        assert batch.entity_ids is None
        assert not (graph.edge_kinds > 1).any()  # mentions, but no fact


def test_replaced_mentions_are_refused(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    text = next(text for text in linked if text.links)
    graph = build(text, tokenizer, small_graph, generator=generator(0, "t"), config=SMALL)
    with pytest.raises(BatchError, match="replace_mentions=False"):
        WordsView()(graph)
