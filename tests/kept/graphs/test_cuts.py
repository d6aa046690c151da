"""What a cut to word pieces loses is counted, and what remains is what coverage speaks of."""

from __future__ import annotations

import numpy as np
import pytest

from entity_linking.mentions import Link, LinkedText, Mention
from kept import hosts
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import cut_of, longer_texts
from kept.inputs.flat_texts import encode_texts


@pytest.fixture(scope="module")
def tokenizer() -> object:
    return hosts.load_tokenizer("minilm")


def text(n_before: int, n_after: int, pair: bool = False) -> LinkedText:
    """Words of one piece around a mention of Paris."""
    before = "word " * n_before
    whole = f"{before}Paris{' word' * n_after}"
    link = Link(Mention(len(before), len(before) + 5), (), "Paris", 1.0)
    return LinkedText(whole, (link,), "id", pair_start=len(before) if pair else None)


def lost_by_hand(linked: LinkedText, tokenizer: object, most: int) -> tuple[int, int]:
    """Pieces beyond the first ones that fit beside [CLS] and [SEP], and mentions among them."""
    whole = tokenizer(linked.text, return_offsets_mapping=True, verbose=False)  # type: ignore[operator]
    offsets = whole["offset_mapping"][1:-1]
    n_lost = max(len(offsets) - (most - 2), 0)
    end = offsets[most - 3][1] if n_lost else len(linked.text)
    return n_lost, sum(link.mention.start >= end for link in linked.links)


@pytest.mark.parametrize("most", [3, 8, 16, 64])
def test_lost_pieces_and_links_are_those_counted_by_hand(tokenizer: object, most: int) -> None:
    texts = [text(n, m) for n in (0, 1, 5, 13, 14, 15, 70) for m in (0, 1, 40)]
    words, offsets = encode_texts(texts, tokenizer, most)
    cut, lost = cut_of(texts, words, offsets, tokenizer, most)
    expected = [lost_by_hand(each, tokenizer, most) for each in texts]
    assert cut.n_cut == sum(n > 0 for n, _ in expected)
    assert cut.n_pieces_lost == sum(n for n, _ in expected)
    assert cut.n_links_lost == sum(n for _, n in expected) == lost.sum()
    assert lost.tolist() == [bool(n) for _, n in expected]
    assert (cut.n_texts, cut.n_links) == (len(texts), len(texts))


def test_texts_that_fit_lose_nothing_and_pairs_lose_of_the_longer_one(tokenizer: object) -> None:
    fitting = [text(3, 3), text(3, 3, pair=True), LinkedText("", (), "empty")]
    words, offsets = encode_texts(fitting, tokenizer, 16)
    cut, lost = cut_of(fitting, words, offsets, tokenizer, 16)
    assert (cut.n_cut, cut.n_pieces_lost, lost.any()) == (0, 0, np.False_)
    pair = [text(2, 40, pair=True), text(40, 0, pair=True)]
    words, offsets = encode_texts(pair, tokenizer, 16)
    cut, lost = cut_of(pair, words, offsets, tokenizer, 16)
    assert (cut.n_cut, cut.n_pieces_lost) == (2, 43 - 13 + 41 - 13)
    assert lost.tolist() == [False, False]


def test_the_line_says_how_much_and_the_remedy_is_a_setting_that_is_taken(
    tokenizer: object,
) -> None:
    texts = [text(200, 0)] * 12
    words, offsets = encode_texts(texts, tokenizer, 128)
    cut, _ = cut_of(texts, words, offsets, tokenizer, 128)
    assert str(cut) == (
        "12 of 12 texts cut at 128 word pieces (37% of the pieces, 12 of 12 links lost)"
    )
    for builder in (BuilderConfig(), BuilderConfig(replace_mentions=False, max_nodes=600)):
        settings = longer_texts(builder, 512).split()[1::2]
        values = {each.removeprefix("graph.").split("=")[0]: each for each in settings}
        stated_settings = {name: int(each.rpartition("=")[2]) for name, each in values.items()}
        fields = {"replace_mentions": builder.replace_mentions, "max_nodes": builder.max_nodes}
        assert BuilderConfig(**{**fields, **stated_settings}).max_words == 512  # type: ignore[arg-type]
    assert longer_texts(BuilderConfig(), 128) == longer_texts(BuilderConfig(), 64) == ""
