"""ERNIE's view: words at running positions, an entity beside the first piece of its mention."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from entity_linking.alignment import align
from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS, PAD_ROW
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views import ERNIEView
from kept.methods import METHODS
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

PLAIN = BuilderConfig(max_words=100, max_nodes=200, **METHODS["ernie"].builder)


def batch_of(text: LinkedText, graph: KnowledgeGraph, tokenizer: Any, **options: Any) -> list[int]:
    built = build(text, tokenizer, graph, generator=generator(0, "t"), config=PLAIN)
    batch = ERNIEView.of(graph, tokenizer, **options)(built)
    assert batch.node_ids[0].tolist() == tokenizer(text.text)["input_ids"]
    assert batch.visibility.mask.all()
    assert batch.entity_ids is not None
    entities: list[int] = batch.entity_ids[0].tolist()
    return entities


@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_entities_stand_at_first_pieces_of_confident_links(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText], threshold: float
) -> None:
    n_kept = n_left = 0
    for text in linked:
        expected = [PAD_ROW] * len(tokenizer(text.text)["input_ids"])
        for link in text.links:
            entity = None if link.entity is None else small_graph.entities.find(link.entity)
            if entity is None:
                continue
            ((first, _),) = align(text.text, [link.mention], tokenizer)
            if link.confidence > threshold:
                expected[first] = entity + N_SPECIAL_ROWS
                n_kept += 1
            else:
                n_left += 1
        assert batch_of(text, small_graph, tokenizer, min_confidence=threshold) == expected
    assert n_kept > 40
    assert (n_left > 0) == (threshold > 0)


def test_the_threshold_itself_is_left_out(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = LinkedText("Paris", (gold_link(0, 5, "Q90", 0.5),))
    assert max(batch_of(text, small_graph, tokenizer, min_confidence=0.5)) == PAD_ROW
    assert max(batch_of(text, small_graph, tokenizer, min_confidence=0.49)) >= N_SPECIAL_ROWS


def test_bad_input_is_refused(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    with pytest.raises(ConfigError, match=r"min_confidence 1\.5"):
        ERNIEView(min_confidence=1.5)
    text = next(text for text in linked if text.links)
    replaced = dataclasses.replace(PLAIN, replace_mentions=True)
    graph = build(text, tokenizer, small_graph, generator=generator(0, "t"), config=replaced)
    with pytest.raises(BatchError, match="replace_mentions=False"):
        ERNIEView()(graph)


def test_it_travels_to_workers_and_tells_its_options() -> None:
    view = pickle.loads(pickle.dumps(ERNIEView(min_confidence=0.2)))
    assert view.fingerprint == ERNIEView(min_confidence=0.2).fingerprint
    assert view.fingerprint != ERNIEView().fingerprint
