"""A batch of texts in one pass is the texts one by one, bitwise: graphs, views and lookups."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.mentions import LinkedText
from kept.batches import KnowledgeBatch
from kept.errors import BatchError, ConfigError
from kept.graphs.builder import BuilderConfig, Exclusion, join_all, join_words
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views import CoLAKEView, adjacency, colake_batch, colake_view
from kept.graphs.words import encode_words, join_texts
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

CONFIGS = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["file", "random", "degree", "relevance"]),
        "max_neighbours": st.integers(0, 5),
        "directions": st.sampled_from(["head", "both"]),
        "replace_mentions": st.sampled_from([True, False, "facts"]),
        "repeats": st.sampled_from(["all", "first"]),
        "drop_probability": st.sampled_from([None, 0.5]),
        "drop": st.sampled_from(["triple", "anchor"]),
        "max_words": st.sampled_from([8, 20, 60]),
        "max_nodes": st.sampled_from([120, 126, 140]),
    }
)


def same(one: WordKnowledgeGraph, other: WordKnowledgeGraph) -> bool:
    """Bitwise, types included."""
    for field in dataclasses.fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if not isinstance(mine, np.ndarray):
            if mine != theirs:
                return False
        elif (mine.dtype, mine.shape, mine.tobytes()) != (
            theirs.dtype, theirs.shape, theirs.tobytes()
        ):  # fmt: skip
            return False
    return True


@pytest.fixture(scope="module")
def pool(linked: list[LinkedText]) -> list[LinkedText]:
    """Texts with and without links, pairs of texts, and a text without words."""
    pairs = [join_texts(linked[i], linked[i + 1]) for i in range(0, 12, 3)]
    return [*linked[:20], *pairs, LinkedText("the old river", ()), LinkedText("", ())]


@given(options=CONFIGS, seed=st.integers(0, 2**20), data=st.data())
@settings(max_examples=60, deadline=None)
def test_texts_in_one_pass_are_the_texts_one_by_one(
    tokenizer: Any,
    pool: list[LinkedText],
    small_graph: KnowledgeGraph,
    options: dict[str, Any],
    seed: int,
    data: st.DataObject,
) -> None:
    texts = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=7))
    row = st.integers(0, small_graph.n_triples - 1)
    hidden = data.draw(st.lists(st.none() | row, min_size=len(texts), max_size=len(texts)))
    exclude = [
        None if row is None else Exclusion(pairs=small_graph.triples[[row]][:, [0, 2]])
        for row in hidden
    ]
    config = BuilderConfig(**options)
    words = encode_words(
        [text.text for text in texts], tokenizer, max_words=config.max_words,
        pair_starts=[text.pair_start for text in texts],
    )  # fmt: skip

    def draws() -> list[np.random.Generator]:
        return [generator(seed, "graph", i) for i in range(len(texts))]

    together = join_all(
        texts, words, small_graph, generators=draws(), config=config, exclude=exclude
    )
    alone = [
        join_words(text, of_text, small_graph, generator=draw, config=config, exclude=hides)
        for text, of_text, draw, hides in zip(texts, words, draws(), exclude, strict=True)
    ]
    assert len(together) == len(texts)
    assert all(map(same, together, alone))
    for weigh, reach in ((False, 1), (True, 1), (False, 2)):
        view = CoLAKEView(weigh_links=weigh, reach=reach)
        singles = [view(graph) for graph in alone]
        stacked = KnowledgeBatch.stack(singles, word_pad_id=9)
        assert view.stacked(together, word_pad_id=9).same_as(stacked)
        assert all(batch.node_mask.all() for batch in singles)


def test_word_pieces_in_one_call_are_those_of_each_text(
    tokenizer: Any, pool: list[LinkedText]
) -> None:
    def encode(texts: list[LinkedText]) -> list[Any]:
        starts = [text.pair_start for text in texts]
        return encode_words([t.text for t in texts], tokenizer, max_words=9, pair_starts=starts)

    for text, words in zip(pool, encode(pool), strict=True):
        (alone,) = encode([text])
        for name in ("ids", "spans", "segment_ids"):
            mine, theirs = getattr(words, name), getattr(alone, name)
            assert (mine.dtype, mine.tolist()) == (theirs.dtype, theirs.tolist())


def test_unequal_numbers_are_refused(
    tokenizer: Any, pool: list[LinkedText], small_graph: KnowledgeGraph
) -> None:
    words = encode_words([pool[0].text], tokenizer, max_words=9)
    with pytest.raises(ValueError, match=r"\(2, 1, 0, 2\)"):
        join_all(pool[:2], words, small_graph, generators=[], config=BuilderConfig())
    assert join_all([], [], small_graph, generators=[], config=BuilderConfig()) == []
    with pytest.raises(BatchError, match="nothing to stack"):
        colake_batch([])


def test_ranges_of_their_own_hold_the_same_nodes(
    tokenizer: Any, pool: list[LinkedText], small_graph: KnowledgeGraph
) -> None:
    config = BuilderConfig(policy="file")
    words = encode_words([text.text for text in pool[:4]], tokenizer, max_words=60)
    draws = [generator(0, i) for i in range(4)]
    graphs = join_all(pool[:4], words, small_graph, generators=draws, config=config)
    grouped = colake_batch(graphs, layout="grouped", word_pad_id=9)
    samples = [colake_view(graph) for graph in graphs]
    assert grouped.same_as(KnowledgeBatch.stack(samples, layout="grouped", word_pad_id=9))
    assert grouped.node_ids.shape[1] > max(graph.n_nodes for graph in graphs) - 1


def steps_from(adjacency: np.ndarray, start: int) -> list[int]:
    """Edges on the shortest path to each node, by search in breadth; more than any where none."""
    steps = [len(adjacency)] * len(adjacency)
    steps[start], front = 0, [start]
    while front:
        node = front.pop(0)
        for other in np.flatnonzero(adjacency[node]).tolist():
            if steps[other] > steps[node] + 1:
                steps[other] = steps[node] + 1
                front.append(other)
    return steps


@pytest.mark.parametrize("reach", [1, 2, 3, 4])
def test_a_node_sees_what_is_within_reach(
    tokenizer: Any, pool: list[LinkedText], small_graph: KnowledgeGraph, reach: int
) -> None:
    config = BuilderConfig(policy="file")
    words = encode_words([text.text for text in pool[:4]], tokenizer, max_words=60)
    draws = [generator(0, i) for i in range(4)]
    graphs = join_all(pool[:4], words, small_graph, generators=draws, config=config)
    assert max(max(steps_from(adjacency(graph), 0)) for graph in graphs) == 3
    for graph in graphs:
        seen = CoLAKEView(reach=reach)(graph).visibility.mask[0]
        expected = [
            [n <= reach for n in steps_from(adjacency(graph), i)] for i in range(graph.n_nodes)
        ]
        assert seen.tolist() == expected
    assert len({CoLAKEView(reach=r).fingerprint for r in (1, 2, 3)}) == 3
    with pytest.raises(ConfigError, match="reach 0: 1 or more"):
        CoLAKEView(reach=0)
