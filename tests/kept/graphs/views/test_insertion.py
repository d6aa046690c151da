"""Nodes between words, in their place or behind them all: what a loop over the words writes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kept.batches import PIECE, KnowledgeBatch, Visibility
from kept.graphs.graph import NodeKind
from kept.graphs.views.insertion import Insertion, insert


def words(n_words: int) -> KnowledgeBatch:
    """Word pieces 100, 101, …; the second half are of a second text."""
    numbers = torch.arange(n_words)[None]
    return KnowledgeBatch(
        node_ids=numbers + 100,
        node_kinds=torch.zeros_like(numbers),
        node_mask=torch.ones_like(numbers, dtype=torch.bool),
        positions=numbers,
        segment_ids=(numbers >= n_words // 2).long(),
        visibility=Visibility.everyone(1, n_words),
    )


@st.composite
def texts(draw: st.DrawFn) -> tuple[int, list[Insertion]]:
    """A number of words, and insertions in order that do not overlap."""
    n_words = draw(st.integers(1, 12))
    borders = draw(st.lists(st.integers(0, n_words - 1), unique=True, max_size=6).map(sorted))
    insertions = []
    for number, (start, end) in enumerate(itertools.pairwise([*borders, n_words])):
        stop = draw(st.sampled_from([start, min(start + 1, end), end]))
        n_nodes = draw(st.integers(1, 3))
        kinds = (int(NodeKind.ENTITY), *[PIECE] * (n_nodes - 1))
        mention = draw(st.integers(0, n_words - 1))
        ids = tuple(range(10 * number + 3, 10 * number + 3 + n_nodes))
        insertions.append(Insertion(start, stop, mention, ids, kinds, weight=1 / (number + 2)))
    return n_words, insertions


@pytest.mark.parametrize("words_first", [True, False])
@pytest.mark.parametrize("soft_positions", [True, False])
@given(texts())
def test_it_is_what_a_loop_writes(
    words_first: bool, soft_positions: bool, text: tuple[int, list[Insertion]]
) -> None:
    n_words, insertions = text
    given_words = words(n_words)
    segments = given_words.segment_ids[0].tolist()
    read: list[tuple[Any, ...]] = []  # id, kind, segment, weight, owner, soft position
    for word in range(n_words):
        for number, each in enumerate(insertions):
            if each.start == word:
                read += [
                    (id_, kind, segments[each.mention], each.weight, number, word + i)
                    for i, (id_, kind) in enumerate(zip(each.ids, each.kinds, strict=True))
                ]
        if not any(each.start <= word < each.stop for each in insertions):
            read.append((100 + word, 0, segments[word], 1.0, -1, word))
    nodes = [(*node, position) for position, node in enumerate(read)]
    if words_first:
        nodes.sort(key=lambda node: node[4] >= 0)

    inserted = insert(
        given_words, insertions, words_first=words_first, soft_positions=soft_positions
    )
    batch, columns = inserted.batch, list(zip(*nodes, strict=True))
    assert batch.node_weights is not None
    assert batch.node_ids[0].tolist() == list(columns[0])
    assert batch.node_kinds[0].tolist() == list(columns[1])
    assert batch.segment_ids[0].tolist() == list(columns[2])
    assert batch.node_weights[0].tolist() == pytest.approx(columns[3])
    assert inserted.owners.tolist() == list(columns[4])
    assert batch.positions[0].tolist() == list(columns[5 if soft_positions else 6])
    assert bool(batch.visibility.mask.all())
    firsts = [columns[0].index(each.ids[0]) for each in insertions]
    assert inserted.of_insertions.tolist() == firsts
    for word in range(n_words):
        gone = [n for n, e in zip(firsts, insertions, strict=True) if e.start <= word < e.stop]
        expected = gone[0] if gone else columns[0].index(100 + word)
        assert inserted.of_words[word] == expected
