"""Texts and pairs of texts to word pieces, through a fast tokenizer's own templates.

Axis legend: word (word pieces).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import Link, LinkedText, Mention
from kept.errors import HostError

Ids = NDArray[np.int32]
Segments = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Words:
    """Word pieces of one text: `ids [word]`, `spans [word 2]`, -1 for special tokens.

    `segments [word]` are 0, and 1 from the first piece of a second text on (absent: all 0). Spans
    are characters of the whole text, both parts of a pair.
    """

    ids: Ids
    spans: Ids
    segments: Segments | None = None

    def __getitem__(self, index: NDArray[Any] | slice) -> Words:
        segments = None if self.segments is None else self.segments[index]
        return Words(self.ids[index], self.spans[index], segments)

    @property
    def segment_ids(self) -> Segments:
        """`segments`, zeros where they are absent."""
        return np.zeros(len(self.ids), np.uint8) if self.segments is None else self.segments


def encode_words(
    texts: Sequence[str],
    tokenizer: Any,
    *,
    max_words: int,
    pair_starts: Sequence[int | None] | None = None,
) -> list[Words]:
    """Word pieces of every text by a fast tokenizer, cut to `max_words`.

    A text with a `pair_starts` entry is two texts, the second from that character on: it gets the
    tokenizer's own template for pairs, and the longer one is cut first. White space between the two
    belongs to neither. Raises `HostError` for a slow tokenizer, or one without such a template.
    """
    _require_fast(tokenizer)
    starts = [None] * len(texts) if pair_starts is None else list(pair_starts)
    single = [i for i, start in enumerate(starts) if start is None]
    paired = [(i, start) for i, start in enumerate(starts) if start is not None]
    encoded_words: dict[int, Words] = {}
    if single:
        encoded = _encode(tokenizer, max_words, [texts[i] for i in single])
        encoded_words.update(zip(single, _words(encoded), strict=True))
    if paired:
        PairTemplate.of(tokenizer)
        firsts = [texts[i][:start].rstrip() for i, start in paired]
        seconds = [texts[i][start:] for i, start in paired]
        encoded = _encode(tokenizer, max_words, firsts, seconds)
        of_pairs = zip(paired, _words(encoded), encoded, strict=True)
        for (i, start), words, encoding in of_pairs:
            encoded_words[i] = _pair(words, encoding.sequence_ids, start)
    return [encoded_words[i] for i in range(len(texts))]


@dataclass(frozen=True, eq=False)
class PairTemplate:
    """The special tokens that a tokenizer puts before, between and after two texts.

    Joins texts whose pieces are known already, as the tokenizer itself would.
    """

    before: Ids
    between: Ids
    after: Ids

    @classmethod
    def of(cls, tokenizer: Any) -> Self:
        """Raises `HostError` for a tokenizer that puts nothing between two texts."""
        _require_fast(tokenizer)
        (probe,) = tokenizer(["a"], ["a"]).encodings
        ids = np.array(probe.ids, np.int32)
        sequence = np.array([-1 if s is None else s for s in probe.sequence_ids])
        first, second = np.flatnonzero(sequence == 0), np.flatnonzero(sequence == 1)
        if second[0] - first[-1] < 2:
            raise HostError(
                f"{type(tokenizer).__name__} puts no special token between two texts; give a "
                "tokenizer with a template for pairs"
            )
        return cls(ids[: first[0]], ids[first[-1] + 1 : second[0]], ids[second[-1] + 1 :])

    def join(self, first: Words, second: Words, *, shift: int, max_words: int) -> Words:
        """One pair of two texts' words; `shift` is where the second text begins.

        Special tokens of the single texts are dropped, those of the pair added.
        """
        first, second = (part[part.spans[:, 0] >= 0] for part in (first, second))
        n_special = len(self.before) + len(self.between) + len(self.after)
        n_first, n_second = longest_first(
            len(first.ids), len(second.ids), max(max_words - n_special, 0)
        )
        first, second = first[:n_first], second[:n_second]
        parts = [self.before, first.ids, self.between, second.ids, self.after]
        special = [np.full((len(part), 2), -1, np.int32) for part in parts]
        spans = [special[0], first.spans, special[2], second.spans + shift, special[4]]
        n_zeros = sum(map(len, parts[:3]))
        segments = np.repeat(
            np.array([0, 1], np.uint8), [n_zeros, len(second.ids) + len(self.after)]
        )
        return Words(
            np.concatenate(parts).astype(np.int32), np.concatenate(spans).astype(np.int32), segments
        )


def longest_first(n_first: int, n_second: int, most: int) -> tuple[int, int]:
    """How much of two texts is kept, `most` together: the longer one is cut until they are equal.

    An odd place goes to the longer text, the second one at a tie.

    >>> longest_first(9, 3, 8)
    (5, 3)
    >>> longest_first(9, 6, 7)
    (4, 3)
    """
    if n_first + n_second <= most:
        return n_first, n_second
    shorter = min(n_first, n_second)
    kept = (shorter, most - shorter) if 2 * shorter <= most else (most // 2, most - most // 2)
    return kept if n_first <= n_second else (kept[1], kept[0])


def join_texts(first: LinkedText, second: LinkedText) -> LinkedText:
    """Two texts as one pair, a blank between them; links keep their candidates."""
    start = len(first.text) + 1
    shifted = tuple(
        dataclasses.replace(link, mention=Mention(m.start + start, m.end + start))
        for link in second.links
        for m in (link.mention,)
    )
    links: tuple[Link, ...] = first.links + shifted
    return LinkedText(
        f"{first.text} {second.text}", links, f"{first.id}+{second.id}", pair_start=start
    )


def _require_fast(tokenizer: Any) -> None:
    if not getattr(tokenizer, "is_fast", False):
        raise HostError(
            f"{type(tokenizer).__name__} gives no character offsets; load the fast tokenizer"
        )


def _encode(tokenizer: Any, max_words: int, *texts: list[str]) -> list[Any]:
    try:
        encoded = tokenizer(
            *texts,
            return_attention_mask=False,
            truncation=True,
            max_length=max_words,
            verbose=False,
        )
    except Exception as error:  # tokenizers has no class of its own for what cannot be encoded
        message = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise HostError(
            f"{tokenizer.name_or_path or type(tokenizer).__name__} cannot encode a text: "
            f"{message}; fetch or save its tokenizer.json again"
        ) from error
    encodings: list[Any] = encoded.encodings
    return encodings


def _words(encodings: Sequence[Any]) -> list[Words]:
    """Those of every encoding, as pieces of common arrays."""
    listed = [encoding.ids for encoding in encodings]
    ends = np.cumsum([0, *map(len, listed)])
    ids = np.fromiter(chain.from_iterable(listed), np.int32, ends[-1])
    offsets = chain.from_iterable(encoding.offsets for encoding in encodings)
    spans = np.fromiter(chain.from_iterable(offsets), np.int32, 2 * ends[-1]).reshape(-1, 2)
    special = chain.from_iterable(encoding.special_tokens_mask for encoding in encodings)
    spans[np.fromiter(special, np.bool_, ends[-1])] = -1
    bounds = pairwise(ends.tolist())
    return [Words(ids[start:stop], spans[start:stop]) for start, stop in bounds]


def _pair(words: Words, sequence: Sequence[int | None], start: int) -> Words:
    """Spans of the second text moved to where it begins; segment 1 from its first piece on."""
    second = np.array([part == 1 for part in sequence], np.bool_)
    spans = words.spans + np.where(second, np.int32(start), np.int32(0))[:, None]
    return Words(words.ids, spans, np.maximum.accumulate(second).astype(np.uint8))
