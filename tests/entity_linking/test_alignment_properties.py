"""Characters to word pieces over the texts that break offsets, against slow oracles.

The oracles read the *strings* of the pieces, never the tokenizer's offsets: a piece of byte-level
BPE stands for as many bytes as it has characters, and a WordPiece tokenizer's pieces spell what is
left of the text, character by character, after normalisation. The tokenizers are trained here, on
every fragment that is drawn, so that no piece is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from entity_linking import (
    AlignmentError,
    LinkedText,
    Mention,
    align,
    align_batch,
    gold_link,
    pieces_of,
)
from entity_linking.alignment import pieces_of_all

Spans = list[tuple[int, int]]

FRAGMENTS = [
    # Latin, Turkish and what case folding does to it, ligatures, sharp s
    "Paris", "in", "New York", "O'Neill's", "Istanbul", "İSTANBUL", "ısırık", "iıIİ",
    "Straße", "ﬁn",
    # combining marks: one, several, on nothing, in an order that canonical ordering changes
    "cafe\u0301", "n\u0303\u0323", "\u0301", "a\u0315\u0300b", "Zalgo\u0336\u0337\u0338", "ắ",
    # soft hyphen, joiners, zero-width space, byte-order mark, bidi controls, word joiner
    "Wash\u00adington", "\u00ad", "\u200d", "\u200c", "\u200b", "\ufeff", "\u202e",
    "\u2066", "\u2060",
    # emoji: plain, joined families, skin tones, flags, keycaps, variation selectors, tags
    "😀", "👩\u200d💻", "👨\u200d👩\u200d👧\u200d👦", "👍🏽", "🇫🇷", "1\ufe0f\u20e3",
    "❤\ufe0f", "🏴\U000e0067\U000e007f",
    # East Asian: Han, kana with marks, Hangul whole and in letters, half width, beyond the BMP
    "東京都", "北京", "が", "か\u3099", "한국", "\u1112\u1161\u11ab", "ｶﾞ",
    "𠮷野家", "\u3000", "。", "가\u302e",
    # right to left, with vowel marks and a tatweel
    "שלום", "שָׁלוֹם", "مرحبا", "مُحَمَّد", "الـــعربية", "١٢٣",
    # other scripts with reordering or conjuncts
    "हिन्दी", "க்ஷ", "ไทย", "Ελλάς", "мир",
    # white space, control characters, oddities
    " ", "  ", "\u00a0", "\t", "\n", "\u2028", "\x07", "\u0085",
    "\ue000", "\uffff", "\U0010ffff", "𝕏", "ǆ", "#", ".", "--",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=8).map("".join)
SPECIAL = ["<s>", "</s>", "[PAD]", "[UNK]"]


# ---- byte-level BPE --------------------------------------------------------
def byte_level(*, trim: bool, prefix: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(FRAGMENTS * 2, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=trim, add_prefix_space=prefix
    )
    return tokenizer


def byte_oracle(text: str, pieces: list[str], *, trim: bool, prefix: bool) -> Spans:
    """Characters of each piece by counting bytes; `trim` takes blanks at its ends away.

    With `prefix` the tokenizer takes a blank that begins the text for the one that it puts there
    itself, and lets it belong to the first piece unless that is nothing but blanks.
    """
    owners: list[int | None] = [i for i, c in enumerate(text) for _ in c.encode()]
    values = list(text.encode())
    if prefix and text[0] != " ":
        owners, values = [None, *owners], [0x20, *values]
    spans, at = [], 0
    for piece in pieces:
        places = list(range(at, at + len(piece)))
        at += len(piece)
        spared = prefix and text[0] == " " and places[0] == 0
        while trim and places[spared:] and values[places[spared]] == 0x20:
            places.pop(spared)
        while trim and places and values[places[-1]] == 0x20:
            places.pop()
        spans.append(around([owners[position] for position in places]))
    assert at == len(values), "the pieces spell the text"
    return spans


# ---- WordPiece -------------------------------------------------------------
def word_piece(*, lower: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=10_000))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    joined = ["".join(FRAGMENTS[i:] + FRAGMENTS[:i]) for i in range(len(FRAGMENTS))]
    letters = sorted(set(tokenizer.normalizer.normalize_str("".join(FRAGMENTS))))
    vocabulary = [*SPECIAL, *letters, *(f"##{c}" for c in letters)]
    words = [
        word
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(
            tokenizer.normalizer.normalize_str(" ".join(joined[:1] + FRAGMENTS))
        )
    ]
    for word in words:  # whole words, halves and endings, so that pieces have many lengths
        vocabulary += [word[: len(word) // 2 + 1], word, f"##{word[len(word) // 2 + 1 :]}"]
    known = {piece: i for i, piece in enumerate(dict.fromkeys(vocabulary))}
    tokenizer.model = models.WordPiece(known, unk_token="[UNK]", max_input_chars_per_word=10_000)
    tokenizer.post_processor = processors.BertProcessing(("</s>", 1), ("<s>", 0))
    return tokenizer


def word_oracle(text: str, pieces: list[str], normalise: Callable[[str], str]) -> Spans:
    """Characters of each piece by spelling them along the text, normalised one at a time."""
    stream = [
        (letter, i) for i, c in enumerate(text) for letter in normalise(c) if not letter.isspace()
    ]
    spans, at = [], 0
    for piece in pieces:
        plain = piece.removeprefix("##")
        taken = stream[at : at + len(plain)]
        at += len(plain)
        assert sorted(letter for letter, _ in taken) == sorted(plain)
        spans.append(around([i for _, i in taken]))
    assert at == len(stream), "the pieces spell the text"
    return spans


def around(owners: list[int | None]) -> tuple[int, int]:
    inside = [owner for owner in owners if owner is not None]
    return (min(inside), max(inside) + 1) if inside else (0, 0)


# ---- all -------------------------------------------------------------------
@dataclass(frozen=True)
class Kind:
    tokenizer: Tokenizer
    oracle: Callable[[str, list[str]], Spans]

    def spans(self, text: str) -> Spans:
        """Of every piece, special ones at both ends included."""
        pieces = self.tokenizer.encode(text).tokens
        assert "[UNK]" not in pieces
        return [(0, 0), *self.oracle(text, pieces[1:-1]), (0, 0)]


def byte_kind(*, trim: bool, prefix: bool) -> Kind:
    return Kind(
        byte_level(trim=trim, prefix=prefix),
        lambda text, pieces: byte_oracle(text, pieces, trim=trim, prefix=prefix),
    )


def word_kind(*, lower: bool) -> Kind:
    tokenizer = word_piece(lower=lower)
    normalise = tokenizer.normalizer.normalize_str
    return Kind(tokenizer, lambda text, pieces: word_oracle(text, pieces, normalise))


KINDS = {
    "roberta": byte_kind(trim=True, prefix=False),
    "roberta-prefix": byte_kind(trim=True, prefix=True),
    "gpt2": byte_kind(trim=False, prefix=False),
    "bert-uncased": word_kind(lower=True),
    "bert-cased": word_kind(lower=False),
}
each_kind = pytest.mark.parametrize("name", sorted(KINDS))
with_few_examples = settings(deadline=None, max_examples=30)


@st.composite
def texts_with_mentions(draw: st.DrawFn) -> tuple[str, list[Mention]]:
    text = draw(TEXTS)
    starts = draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=5))
    return text, sorted(Mention(start, draw(st.integers(start + 1, len(text)))) for start in starts)


def touching(spans: Spans, mention: Mention) -> list[int]:
    """The pieces that share a character with the mention, one character at a time."""
    inside = range(mention.start, mention.end)
    return [i for i, (a, b) in enumerate(spans) if any(a <= c < b for c in inside)]


@each_kind
@with_few_examples
@given(case=texts_with_mentions())
@example(case=("가\u302e\u0301", [Mention(0, 1)]))
@example(case=("a\u0315\u0300b", [Mention(1, 2)]))
def test_pieces_are_those_that_touch(name: str, case: tuple[str, list[Mention]]) -> None:
    text, mentions = case
    kind = KINDS[name]
    spans = kind.spans(text)
    for mention in mentions:
        expected = touching(spans, mention)
        if not expected:
            with pytest.raises(AlignmentError, match="no word piece"):
                align(text, [mention], kind.tokenizer)
            continue
        ((first, last),) = align(text, [mention], kind.tokenizer)
        between = [i for i in range(first, last) if spans[i] != (0, 0)]
        assert (first, last - 1) == (expected[0], expected[-1])
        assert between == expected, "no piece of another character lies between"


@each_kind
@with_few_examples
@given(text=TEXTS)
def test_offsets_are_those_of_the_oracle(name: str, text: str) -> None:
    actual = KINDS[name].tokenizer.encode(text).offsets
    expected = KINDS[name].spans(text)
    assert len(actual) == len(expected)
    for (a, b), span in zip(actual, expected, strict=True):
        assert (a, b) == span or (a == b and span == (0, 0))


@each_kind
@with_few_examples
@given(case=texts_with_mentions())
def test_many_at_once_are_one_by_one(name: str, case: tuple[str, list[Mention]]) -> None:
    text, mentions = case
    encoding = KINDS[name].tokenizer.encode(text)
    offsets = np.array(encoding.offsets, np.int64)
    empty = offsets[:, 0] >= offsets[:, 1]
    marked = np.where(empty[:, None], -1, offsets)
    actual = pieces_of_all(marked, np.array([(m.start, m.end) for m in mentions], np.int64))
    for mention, span in zip(mentions, actual.tolist(), strict=True):
        if touching(encoding.offsets, mention):
            assert tuple(span) == pieces_of(encoding.offsets, mention)
        else:
            assert span == [0, 0]


@each_kind
@with_few_examples
@given(case=texts_with_mentions(), max_length=st.integers(3, 30))
def test_every_link_is_placed_or_told(
    name: str, case: tuple[str, list[Mention]], max_length: int
) -> None:
    text, mentions = case
    kind = KINDS[name]
    links = tuple(gold_link(m.start, m.end, f"Q{i}") for i, m in enumerate(mentions))
    linked = LinkedText(text, links)
    spans = kind.spans(text)
    n_kept = max_length - 2 if len(spans) > max_length else len(spans) - 2
    (aligned,) = align_batch([linked], kind.tokenizer, max_length=max_length)
    assert sorted([*aligned.links, *(lost.link for lost in aligned.lost)], key=str) == sorted(
        links, key=str
    )
    reasons = {lost.link: lost.reason for lost in aligned.lost}
    placed = dict(zip(aligned.links, aligned.spans, strict=True))
    for link in links:
        expected = touching(spans, link.mention)
        if not expected:
            assert reasons[link] == "no word piece covers it"
        elif expected[-1] > n_kept:
            assert reasons[link] == "cut off by the maximum length"
        else:
            assert placed[link] == (expected[0], expected[-1] + 1)
