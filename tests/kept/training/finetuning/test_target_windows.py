"""Texts longer than what is read: a window around the targets, in training and evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from entity_linking.mentions import Mention
from kept.graphs.cuts import UNCUT
from kept.graphs.windows import around_targets
from kept.graphs.words import encode_words
from kg_loaders import KnowledgeGraph
from tests.kept.training.finetuning.test_finetuning_data import SMALL, data_of, sentence

N_FAR = 60


@pytest.mark.parametrize("n_before", [0, 3, 30, N_FAR])
@pytest.mark.parametrize("most", [9, 12, 40])
def test_the_window_has_the_targets_in_its_middle(tokenizer: Any, n_before: int, most: int) -> None:
    text = "old " * n_before + "Paris and Berlin" + " old" * (N_FAR - n_before)
    start = 4 * n_before
    targets = [Mention(start, start + 5), Mention(start + 10, start + 16)]
    (whole,) = encode_words([text], tokenizer, max_words=UNCUT)
    window = around_targets(whole, targets, max_words=most)
    assert window is not None
    assert len(window.ids) == most
    special = whole.spans[:, 0] < 0
    assert window.ids[window.spans[:, 0] < 0].tolist() == whole.ids[special].tolist()
    places = window.spans[window.spans[:, 0] >= 0].tolist()
    inner = whole.spans[~special].tolist()
    first = inner.index(places[0])
    assert inner[first : first + len(places)] == places
    before = sum(stop <= start for _, stop in places)
    after = sum(begin >= start + 16 for begin, _ in places)
    is_at_an_end = places[0] == inner[0] or places[-1] == inner[-1]
    assert abs(before - after) <= 1 or is_at_an_end
    assert {start, start + 10} <= {begin for begin, _ in places}


def test_targets_too_far_apart_have_none(tokenizer: Any) -> None:
    text = f"Paris {'old ' * N_FAR}Berlin"
    targets = [Mention(0, 5), Mention(len(text) - 6, len(text))]
    (whole,) = encode_words([text], tokenizer, max_words=UNCUT)
    assert around_targets(whole, targets, max_words=40) is None
    assert around_targets(whole, [], max_words=40) is None
    assert around_targets(whole, [Mention(5, 6)], max_words=40) is None  # white space


def test_an_example_far_into_its_text_is_trained_on(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """It was left out; its links are read, and what is behind the window is counted as lost."""
    short, long = sentence("Q90", "Q142"), sentence("Q90", "Q142", n_words=N_FAR)
    data = data_of([long, short], small_graph, tokenizer)
    assert (data.indices.tolist(), data.skipped, data.cut_off) == ([0, 1], {}, [])
    batch = data.sample(0, epoch=0, seed=0)
    assert (batch.target_spans[0, :, 0] > 0).all()
    assert batch.node_ids.shape[1] <= SMALL.max_nodes
    n_read = SMALL.max_words - 2
    (whole,) = encode_words([long.linked.text], tokenizer, max_words=UNCUT)
    assert (data.cut.n_cut, data.cut.n_pieces_lost) == (1, len(whole.ids) - 2 - n_read)
    assert data.cut.n_links_lost == 0
    assert data.coverage.cut == data.cut
