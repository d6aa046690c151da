"""Characters to word pieces, in one place and through the tokenizer's own offsets only.

A mention covers every piece that shares a character with it, so a piece that straddles its border
belongs to it, all the pieces of one multi-byte character do, and the blank that byte-level BPE puts
in front of a word changes nothing. Only fast tokenizers know offsets: `tokenizers.Tokenizer` and
every `transformers` tokenizer with `is_fast`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import AlignmentError, LinkingError
from entity_linking.mentions import Link, LinkedText, Mention

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LostLink:
    """A link that has no word pieces, and why."""

    link: Link
    reason: str


@dataclass(frozen=True, slots=True)
class AlignedText:
    """A text in word pieces (special ones included) with the links that have pieces.

    `spans[i]` are the pieces of `links[i]`, end exclusive; `offsets` are characters of the text,
    (0, 0) for special pieces. Together `links` and `lost` are the links of `linked`.
    """

    linked: LinkedText
    piece_ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    links: tuple[Link, ...]
    spans: tuple[Span, ...]
    lost: tuple[LostLink, ...]


def pieces_of(offsets: Sequence[Span], mention: Mention) -> Span:
    """First piece and the one after the last of those that share a character with `mention`.

    `AlignmentError` when there is none.

    >>> pieces_of([(0, 0), (0, 2), (2, 5), (5, 11), (0, 0)], Mention(2, 7))
    (2, 4)
    """
    span = _find(offsets, mention)
    if span is None:
        raise AlignmentError(
            f"no word piece covers characters {mention.start} to {mention.end}; the tokenizer "
            "drops them, or the text was cut before them"
        )
    return span


def pieces_of_all(offsets: NDArray[np.integer], mentions: NDArray[np.integer]) -> NDArray[np.int64]:
    """`pieces_of` for many mentions at once: `[mention 2]` (first, last + 1).

    `offsets [piece 2]` rise; special pieces are -1, before, after and between two texts. A mention
    that no piece touches (cut off with the text) has (0, 0).
    """
    real = np.flatnonzero(offsets[:, 0] >= 0)
    first = np.searchsorted(offsets[real, 1], mentions[:, 0], side="right")
    last = np.searchsorted(offsets[real, 0], mentions[:, 1], side="left")
    pieces = np.zeros((len(mentions), 2), np.int64)
    touched = first < last
    pieces[touched, 0] = real[first[touched]]
    pieces[touched, 1] = real[last[touched] - 1] + 1
    return pieces


def align(text: str, mentions: Iterable[Mention], tokenizer: Any) -> list[Span]:
    """The pieces of each mention in the whole of `text`, special pieces counted.

    `AlignmentError` at the first mention without a piece.
    """
    encoding = _encode([text], tokenizer, None)[0]
    return [pieces_of(encoding.offsets, mention) for mention in mentions]


def align_batch(
    texts: Sequence[LinkedText], tokenizer: Any, *, max_length: int | None = None
) -> list[AlignedText]:
    """Tokenise many texts, cut to `max_length` pieces; what has no pieces is in `lost`.

    A link is lost when the tokenizer drops its characters or when the cut takes any of its pieces.
    """
    encodings = _encode([text.text for text in texts], tokenizer, max_length)
    return [_aligned(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]


def _aligned(linked: LinkedText, encoding: Any) -> AlignedText:
    offsets = tuple(encoding.offsets)
    beyond = [span for part in encoding.overflowing for span in part.offsets]
    links: list[Link] = []
    spans: list[Span] = []
    lost: list[LostLink] = []
    for link in linked.links:
        span = _find(offsets, link.mention)
        if _find(beyond, link.mention) is not None:
            lost.append(LostLink(link, "cut off by the maximum length"))
        elif span is None:
            lost.append(LostLink(link, "no word piece covers it"))
        else:
            links.append(link)
            spans.append(span)
    return AlignedText(
        linked, tuple(encoding.ids), offsets, tuple(links), tuple(spans), tuple(lost)
    )


def _find(offsets: Sequence[Span], mention: Mention) -> Span | None:
    start, end = mention.start, mention.end
    covering = [i for i, (a, b) in enumerate(offsets) if a < end and b > start and a < b]
    return (covering[0], covering[-1] + 1) if covering else None


def _encode(texts: Sequence[str], tokenizer: Any, max_length: int | None) -> list[Any]:
    """`tokenizers.Encoding` of each text, without padding."""
    if hasattr(tokenizer, "encode_batch"):
        return _encode_raw(texts, tokenizer, max_length)
    if not getattr(tokenizer, "is_fast", False):
        raise LinkingError(
            f"{type(tokenizer).__name__} knows no character offsets; give a fast tokenizer "
            "(AutoTokenizer.from_pretrained loads one) or a tokenizers.Tokenizer"
        )
    if not texts:
        return []
    batch = tokenizer(
        list(texts),
        padding=False,
        truncation=max_length is not None,
        max_length=max_length,
        return_overflowing_tokens=False,
        verbose=False,
    )
    encodings: list[Any] = batch.encodings
    return encodings


def _encode_raw(texts: Sequence[str], tokenizer: Any, max_length: int | None) -> list[Any]:
    """As the tokenizer stands, save truncation and padding, which are put back afterwards."""
    truncation, padding = tokenizer.truncation, tokenizer.padding
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
    try:
        encodings: list[Any] = tokenizer.encode_batch(list(texts))
    finally:
        tokenizer.no_truncation()
        if truncation is not None:
            tokenizer.enable_truncation(**truncation)
        if padding is not None:
            tokenizer.enable_padding(**padding)
    return encodings
