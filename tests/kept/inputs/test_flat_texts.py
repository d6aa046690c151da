"""Links and words of a whole data set at once, against one text after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kept.inputs.flat_texts
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import CoLAKEView
from kept.graphs.words import encode_words
from kept.inputs.flat_texts import (
    encode_texts,
    linked_entities,
    node_bounds,
    without_candidates,
)
from kept.inputs.pairs import pair_bounds
from kg_loaders import KnowledgeGraph


def text(words: str, *entities: str | None) -> LinkedText:
    links = tuple(
        Link(Mention(i, i + 1), (Candidate("Q90", 0.5, 0.5),), entity, 0.5)
        for i, entity in enumerate(entities)
    )
    return LinkedText(words, links)


TEXTS = [
    text("the river", "Q142", None), text("near"), text("old city", "Q-unknown", "Q90", "Q90"),
    text("a river flows", "Q830149"),
]  # fmt: skip


def test_links_of_all_texts_in_order(small_graph: KnowledgeGraph) -> None:
    ids, offsets = linked_entities(TEXTS, small_graph)
    expected = [small_graph.entities.find(n) for n in ("Q142", "Q90", "Q90", "Q830149")]
    assert ids.tolist() == [expected[0], -1, -1, *expected[1:]]
    assert offsets.tolist() == [0, 2, 2, 5, 6]
    no_ids, one_offset = linked_entities([], small_graph)
    assert (len(no_ids), one_offset.tolist(), one_offset.dtype) == (0, [0], np.int64)


@pytest.mark.parametrize("at_once", [1, 3, 4096])
def test_words_are_those_of_each_text(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(kept.inputs.flat_texts, "TEXTS_PER_CALL", at_once)
    pair = LinkedText("the river near a city", (), pair_start=10)
    texts = [*TEXTS, pair, text("flows " * 30)]
    words, offsets = encode_texts(texts, tokenizer, 12)
    assert len(offsets) == len(texts) + 1
    assert offsets[-1] == len(words.ids)
    for i, each in enumerate(texts):
        (alone,) = encode_words([each.text], tokenizer, max_words=12, pair_starts=[each.pair_start])
        part = words[slice(offsets[i], offsets[i + 1])]
        assert part.ids.tolist() == alone.ids.tolist()
        assert part.spans.tolist() == alone.spans.tolist()
        assert part.segment_ids.tolist() == alone.segment_ids.tolist()
    assert {*words[slice(offsets[4], offsets[5])].segment_ids.tolist()} == {0, 1}


def bounds_of(graph: KnowledgeGraph, **options: Any) -> list[int]:
    of_pairs = options.pop("of_pairs", False)
    entities, offsets = linked_entities(TEXTS, graph)
    bounds = node_bounds(
        entities, offsets, np.array([4, 3, 5, 6]), graph, BuilderConfig(**options), CoLAKEView(),
        of_pairs=of_pairs,
    )  # fmt: skip
    return [int(each) for each in bounds]


def degree(graph: KnowledgeGraph, name: str, *columns: int) -> int:
    entity = graph.entities.find(name)
    return sum(int((graph.triples[:, column] == entity).sum()) for column in columns)


@pytest.mark.parametrize("most", [1, 2, 99])
def test_a_text_has_at_most_its_words_its_links_and_their_facts(
    small_graph: KnowledgeGraph, most: int
) -> None:
    """CoLAKE's bound: words, links and two nodes for each fact."""
    for directions, columns in (("head", (0,)), ("both", (0, 2))):
        first, paris = (min(most, degree(small_graph, name, *columns)) for name in ("Q142", "Q90"))
        assert bounds_of(small_graph, directions=directions, max_neighbours=most) == [
            4 + 1 + 2 * first, 3, 5 + 2 + 2 * 2 * paris, 6 + 1,
        ]  # fmt: skip
    assert degree(small_graph, "Q142", 0) > 1


def test_no_more_facts_are_counted_than_a_graph_has_nodes(small_graph: KnowledgeGraph) -> None:
    bounds = bounds_of(small_graph, max_neighbours=9, max_nodes=4, max_words=3)
    assert bounds[2] == 5 + 2 + 2 * 4
    assert bounds[1] == 3


def test_pairs_are_bounded_by_the_larger_of_their_texts(small_graph: KnowledgeGraph) -> None:
    options: dict[str, Any] = {"max_neighbours": 1}
    facts = [1, 0, 2, 0]
    words, links, n_facts = (
        pair_bounds(np.array(each)) for each in ([4, 3, 5, 6], [1, 0, 2, 1], facts)
    )
    expected = np.minimum(words, 7) + links + 2 * n_facts
    assert bounds_of(small_graph, of_pairs=True, max_words=7, **options) == expected.tolist()


def test_candidates_are_dropped_and_nothing_else() -> None:
    before = TEXTS[0]
    after = without_candidates(before)
    assert [link.candidates for link in after.links] == [(), ()]
    assert [(link.mention, link.entity) for link in after.links] == [
        (link.mention, link.entity) for link in before.links
    ]
    assert after.text == before.text
