"""Words with the entities of their mentions: which words, in which order, with which labels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import Link, LinkedText, Mention
from kept.batches import N_SPECIAL_ROWS
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views.linked_words import LinkedWordsView, linked_words
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

TEXT = LinkedText("Berlin lies near Paris", (
    Link(Mention(0, 6), (), "Q64", 0.25), Link(Mention(17, 22), (), "Q90", 0.75),
))  # fmt: skip


@pytest.fixture
def built(tokenizer: Any, small_graph: KnowledgeGraph) -> WordKnowledgeGraph:
    config = BuilderConfig(replace_mentions=False, max_neighbours=0)
    return build(TEXT, tokenizer, small_graph, generator=generator(0), config=config)


def test_mentions_are_the_words_between_their_ends(
    built: WordKnowledgeGraph, tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    batch = linked_words(built)
    pieces = tokenizer.convert_ids_to_tokens(batch.node_ids[0])
    assert batch.mention_spans is not None
    assert batch.mention_labels is not None
    texts = [
        "".join(pieces[start:end]).replace("##", "")
        for start, end in batch.mention_spans[0].tolist()
    ]
    assert texts == ["berlin", "paris"]
    names = [
        small_graph.entities.name(row - N_SPECIAL_ROWS) for row in batch.mention_labels[0].tolist()
    ]
    assert names == ["Q64", "Q90"]
    assert batch.mention_classes is None
    assert batch.mention_weights is None


def test_labels_of_links_are_the_classes_of_their_mentions(built: WordKnowledgeGraph) -> None:
    labelled = dataclasses.replace(built, link_labels=np.array([5, 3]))
    batch = linked_words(labelled)
    assert batch.mention_classes is not None
    assert batch.mention_classes.tolist() == [[5, 3]]


def test_mentions_weigh_what_their_links_are_sure_of(built: WordKnowledgeGraph) -> None:
    assert LinkedWordsView()(built).mention_weights is None
    weights = LinkedWordsView(weigh_links=True)(built).mention_weights
    assert weights is not None
    assert weights.tolist() == [[0.25, 0.75]]
