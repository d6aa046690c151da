"""Texts as chunks of word pieces, each word with its place in the text and how it is written.

A chunk ends where a sentence does, if one ends in it, and is else cut at a word. Words are those
of the host's own splitting (punctuation stands alone), so tags never cut a word.

Axis legend: chunk, piece, word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from transformers import PreTrainedTokenizerBase

ENDS = frozenset(".!?")
MOST_PIECES = 96
"""Of a chunk, without the two special pieces."""


class Shape(IntEnum):
    """How a word is written, which a lower-casing host does not see. The numbers are stored."""

    OTHER = 0
    LOWER = 1
    CAPITAL = 2
    CAPITALS = 3
    LETTER = 4
    MIXED = 5
    NUMBER = 6
    CODE = 7


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring words of one text.

    `pieces` are ids `[piece]` without special ones; `firsts` `[word]` is the first piece of each
    word, `starts` and `ends` are its place in the text, `shapes` how it is written.
    """

    text: int
    pieces: list[int]
    firsts: list[int]
    starts: list[int]
    ends: list[int]
    shapes: list[int]

    @property
    def piece_shapes(self) -> list[int]:
        """The shape of the word of each piece."""
        limits = [*self.firsts, len(self.pieces)]
        return [
            shape
            for shape, (a, b) in zip(self.shapes, pairwise(limits), strict=True)
            for _ in range(b - a)
        ]


def shape_of(word: str) -> Shape:
    """How a word is written.

    >>> [shape_of(word).name for word in ("a", "Ann", "WHO", "iPod", "12", "X")]
    ['LOWER', 'CAPITAL', 'CAPITALS', 'MIXED', 'NUMBER', 'LETTER']
    """
    if not any(map(str.isalnum, word)):
        return Shape.OTHER
    if not any(map(str.isalpha, word)):
        return Shape.NUMBER
    if any(map(str.isdigit, word)):
        return Shape.CODE
    if word.islower() or not any(map(str.isupper, word)):
        return Shape.LOWER
    if len(word) == 1:
        return Shape.LETTER
    if word.isupper():
        return Shape.CAPITALS
    return Shape.CAPITAL if word[0].isupper() and word[1:].islower() else Shape.MIXED


def chunks_of(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, *, most: int = MOST_PIECES
) -> list[Chunk]:
    """The chunks of all texts, in order; a word of more than `most` pieces is shortened."""
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    chunks: list[Chunk] = []
    for i, text in enumerate(texts):
        words = _words(encoded["input_ids"][i], encoded.word_ids(i), encoded["offset_mapping"][i])
        chunks.extend(_cut(i, text, list(words), most))
    return chunks


_Word = tuple[list[int], int, int]


def _words(
    ids: Sequence[int], words: Sequence[int | None], offsets: Sequence[tuple[int, int]]
) -> Iterator[_Word]:
    """Pieces, start and end of each word."""
    first = 0
    for at in range(1, len(ids) + 1):
        if at == len(ids) or words[at] != words[first]:
            yield list(ids[first:at]), offsets[first][0], offsets[at - 1][1]
            first = at


def _cut(i: int, text: str, words: list[_Word], most: int) -> Iterator[Chunk]:
    start = 0
    while start < len(words):
        stop, n_pieces, end = start, 0, 0
        while stop < len(words) and n_pieces + min(len(words[stop][0]), most) <= most:
            n_pieces += min(len(words[stop][0]), most)
            stop += 1
            if _is_end(text, words, stop):
                end = stop
        stop = end or stop
        yield _chunk(i, text, words[start:stop], most)
        start = stop


def _is_end(text: str, words: list[_Word], stop: int) -> bool:
    """Whether a sentence may end before the word `stop`."""
    if stop == len(words):
        return True
    _, start, end = words[stop - 1]
    between = text[end : words[stop][1]]
    return "\n" in between or (text[start:end] in ENDS and between != "")


def _chunk(i: int, text: str, words: list[_Word], most: int) -> Chunk:
    pieces: list[int] = []
    firsts, starts, ends, shapes = [], [], [], []
    for ids, start, end in words:
        firsts.append(len(pieces))
        pieces.extend(ids[:most])
        starts.append(start)
        ends.append(end)
        shapes.append(int(shape_of(text[start:end])))
    return Chunk(i, pieces, firsts, starts, ends, shapes)
