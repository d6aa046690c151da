"""The released ERNIE fine-tuning input, step by step, with its quirks.

Zhang et al., ACL 2019, section 3.5, repository thunlp/ERNIE. For comparison with the original;
training uses the marks of `kept.training.finetuning` and `ERNIEView`. The quirks: an entity is
attached only where a blank-delimited chunk starts, to the first piece of the chunk's part before
any punctuation,
and its end is ignored; of two with one start the later wins; a chunk that vanishes with its accents
shifts all later tags; starts just at the end of a marked mention are moved too little.

Axis legend: piece (of the sequence, padded).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tokenizers import models, normalizers, pre_tokenizers

from kept.errors import BatchError

NONE = "UNK"
TYPING_MARK, HEAD_MARK, TAIL_MARK = "。", "#", "$"


@dataclass(frozen=True)
class Annotation:
    """An entity at `text[start:end]`; `end` may be wrong, nothing reads it."""

    entity: str
    start: int
    end: int
    score: float = 1.0


@dataclass(frozen=True)
class Features:
    """What the network reads, all `[piece]`; entity -1 is none."""

    tokens: tuple[str, ...]
    input_ids: tuple[int, ...]
    input_mask: tuple[int, ...]
    segment_ids: tuple[int, ...]
    entity_ids: tuple[int, ...]
    entity_mask: tuple[int, ...]


class OriginalTokenizer:
    """BERT's word pieces without isolating Chinese characters or protecting special tokens."""

    def __init__(self, vocabulary: Sequence[str], *, lower_case: bool) -> None:
        self.ids = {piece: i for i, piece in enumerate(vocabulary)}
        self._model = models.WordPiece(self.ids, unk_token="[UNK]", max_input_chars_per_word=100)
        self._normalizer = normalizers.BertNormalizer(
            clean_text=False,
            handle_chinese_chars=False,
            strip_accents=lower_case,
            lowercase=lower_case,
        )
        self._splitter = pre_tokenizers.BertPreTokenizer()

    def parts(self, chunk: str) -> list[list[str]]:
        """Pieces of each punctuation-split part of a chunk without blanks."""
        normal = self._normalizer.normalize_str(chunk)
        return [
            [token.value for token in self._model.tokenize(part)]
            for part, _ in self._splitter.pre_tokenize_str(normal)
        ]


def confident(annotations: Sequence[Annotation], threshold: float) -> list[Annotation]:
    """Those whose score is strictly above `threshold` (0.3 in the released scripts)."""
    return [annotation for annotation in annotations if annotation.score > threshold]


def clean(text: str, annotations: Sequence[Annotation]) -> tuple[str, list[Annotation]]:
    """Without control and format characters, all blanks alike; offsets follow."""
    kept, dropped = [], []
    for index, character in enumerate(text):
        if character in "\t\n\r" or unicodedata.category(character) == "Zs":
            kept.append(" ")
        elif character == "\ufffd" or unicodedata.category(character).startswith("C"):
            dropped.append(index)
        else:
            kept.append(character)
    moved = [
        replace(
            annotation,
            start=annotation.start - sum(index < annotation.start for index in dropped),
            end=annotation.end - sum(index < annotation.end for index in dropped),
        )
        for annotation in annotations
    ]
    return "".join(kept), moved


def tag_pieces(
    text: str, annotations: Sequence[Annotation], tokenizer: OriginalTokenizer
) -> tuple[list[str], list[str]]:
    """Pieces of the text, and at each its entity or `NONE`."""
    text, annotations = clean(text, annotations)
    starts = {annotation.start: annotation.entity for annotation in annotations}
    return _tagged(text, starts, tokenizer, first_piece_only=True)


def tag_span(
    text: str, start: int, end: int, tokenizer: OriginalTokenizer, tag: str = "SPAN"
) -> tuple[list[str], list[str]]:
    """Pieces of the text, and `tag` at those of every chunk that starts inside the span.

    The typing script uses it only to give up on an example (`find_span`).
    """
    text, (span,) = clean(text, [Annotation(tag, start, end)])
    starts = dict.fromkeys(range(span.start, span.end), tag)
    return _tagged(text, starts, tokenizer, first_piece_only=False)


def _tagged(
    text: str, starts: Mapping[int, str], tokenizer: OriginalTokenizer, *, first_piece_only: bool
) -> tuple[list[str], list[str]]:
    chunk_tags, chunks, position = [], [], 0
    for chunk in text.split():
        position = text.index(chunk, position)
        chunk_tags.append(starts.get(position, NONE))
        position += len(chunk)
        parts = tokenizer.parts(chunk)
        if parts:  # else all later chunks get the tags of their predecessors
            chunks.append(parts)
    tokens: list[str] = []
    tags: list[str] = []
    for parts, tag in zip(chunks, chunk_tags, strict=False):
        for index, pieces in enumerate(parts):
            n_tagged = 0 if index else 1 if first_piece_only else len(pieces)
            tokens += pieces
            tags += [tag] * n_tagged + [NONE] * (len(pieces) - n_tagged)
    return tokens, tags


def find_span(tags: Sequence[str], max_length: int, tag: str = "SPAN") -> bool:
    """Whether an example with these span tags is kept; False when the span is cut off.

    Raises `BatchError` when the span is nowhere, where the original program exits.
    """
    if tag not in tags:
        raise BatchError("no chunk of the text starts inside the span")
    return tag in tags[: max_length - 2]


def mark_typing(
    text: str, start: int, end: int, annotations: Sequence[Annotation]
) -> tuple[str, list[Annotation]]:
    """The mention between two marks; only starts are moved, by 2 inside and 4 after it."""
    mark = TYPING_MARK
    marked = f"{text[:start]}{mark} {text[start:end]} {mark}{text[end:]}"
    moved = []
    for annotation in annotations:
        shift = 2 * (annotation.start >= start) + 2 * (annotation.start > end)
        moved.append(replace(annotation, start=annotation.start + shift))
    return marked, moved


def mark_relation(text: str, head: Annotation, tail: Annotation) -> str:
    """Head and tail each between marks of their own."""
    marks = ((head, HEAD_MARK), (tail, TAIL_MARK))
    for mention, mark in sorted(marks, key=lambda pair: -pair[0].start):
        start, end = mention.start, mention.end
        text = f"{text[:start]}{mark} {text[start:end]} {mark}{text[end:]}"
    return text


def from_first_character(mention: Annotation) -> Annotation:
    """As the relation readers: a mention that starts at character 1 is moved to 0."""
    return replace(mention, start=0) if mention.start == 1 else mention


def move_fewrel(head: Annotation, tail: Annotation) -> list[Annotation]:
    """Head and tail where their marks put them: the first moved by 2, the other by 6."""
    first = min(head.start, tail.start)
    return [_move(mention, 2 if mention.start == first else 6) for mention in (head, tail)]


def move_tacred(
    annotations: Sequence[Annotation], head: Annotation, tail: Annotation
) -> list[Annotation]:
    """Each annotation moved by 2 for every mark before it; at a mention's end it misses one."""
    return [
        _move(
            annotation,
            2 * sum(annotation.start >= mention.start for mention in (head, tail))
            + 2 * sum(annotation.start > mention.end for mention in (head, tail)),
        )
        for annotation in annotations
    ]


def _move(annotation: Annotation, shift: int) -> Annotation:
    return replace(annotation, start=annotation.start + shift, end=annotation.end + shift)


def features(
    tokens: Sequence[str],
    tags: Sequence[str],
    *,
    tokenizer: OriginalTokenizer,
    entity_ids: Mapping[str, int],
    max_length: int,
) -> Features:
    """Pieces cut, framed, padded to `max_length`; the first takes part in entity attention."""
    kept = max_length - 2
    framed = ["[CLS]", *tokens[:kept], "[SEP]"]
    ids = [-1, *(entity_ids.get(tag, -1) for tag in tags[:kept]), -1]
    n_pads = max_length - len(framed)
    padded = framed + ["[PAD]"] * n_pads
    return Features(
        tokens=tuple(padded),
        input_ids=tuple([tokenizer.ids[token] for token in framed] + [0] * n_pads),
        input_mask=tuple([1] * len(framed) + [0] * n_pads),
        segment_ids=(0,) * max_length,
        entity_ids=tuple(ids + [-1] * n_pads),
        entity_mask=tuple([1] + [int(i >= 0) for i in ids[1:]] + [0] * n_pads),
    )


def both_aligned(features: Features) -> Features:
    """`found` itself; raises `BatchError` unless two entities aligned, where FewRel's exits."""
    n_aligned = sum(i >= 0 for i in features.entity_ids)
    if n_aligned != 2:
        raise BatchError(f"{n_aligned} of head and tail start a chunk; both must")
    return features
