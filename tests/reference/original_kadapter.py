"""How the released code of K-Adapter makes its inputs: marked mentions, cuts, and a share of data.

kept's own tasks mark mentions in their own way; this keeps the released behaviour for comparison.

Axis legend: target.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from kept.batches import KnowledgeBatch, Visibility
from kept.errors import BatchError

SUBJECT, OBJECT = "@", "#"


def marked_pieces(
    parts: Sequence[str], markers: Sequence[str], tokenizer: Any
) -> tuple[list[int], dict[str, int]]:
    """Pieces of `parts` with a marker between any two, and where each marker comes first.

    Every part is cut into pieces by itself. Places count from the special piece in front.
    """
    ids: list[int] = []
    places: dict[str, int] = {}
    for i, part in enumerate(parts):
        if i:
            marker = markers[i - 1]
            places.setdefault(marker, 1 + len(ids))
            ids.append(tokenizer.convert_tokens_to_ids(marker))
        ids.extend(tokenizer(part, add_special_tokens=False)["input_ids"])
    return ids, places


def pair_sample(
    words: Sequence[str],
    subject: tuple[int, int],
    object_: tuple[int, int],
    label: int,
    tokenizer: Any,
    *,
    max_words: int,
    beyond: Literal["drop", "move"],
) -> KnowledgeBatch | None:
    """A sentence with `@ subject @` and `# object #`, padded to `max_words`; targets in that order.

    Spans are words, end exclusive. A marker at or beyond `max_words`: "drop" (pre-training) gives
    None; "move" (fine-tuning) sets its place to `max_words` - 10 where it is beyond, and raises
    `BatchError` where it is equal, as the released code fails there.
    """
    spans = sorted([(*subject, SUBJECT), (*object_, OBJECT)])
    cuts = [0, spans[0][0], spans[0][1], spans[1][0], spans[1][1], len(words)]
    parts = [" ".join(words[a:b]) for a, b in itertools.pairwise(cuts)]
    markers = [marker for span in spans for marker in (span[2], span[2])]
    ids, places = marked_pieces(parts, markers, tokenizer)
    targets = [places[SUBJECT], places[OBJECT]]
    if beyond == "drop" and max(targets) >= max_words:
        return None
    targets = [max_words - 10 if position > max_words else position for position in targets]
    return _sample(ids[: max_words - 2], targets, torch.tensor([label]), tokenizer, max_words)


def typed_sample(
    text: str, start: int, end: int, classes: Tensor, tokenizer: Any, *, max_words: int
) -> KnowledgeBatch:
    """A text with `@ mention @`, padded to `max_words`; `classes [class]` are 0 or 1.

    Nothing is cut: raises `BatchError` for a longer text.
    """
    parts = [text[:start], text[start:end], text[end:]]
    ids, places = marked_pieces(parts, [SUBJECT, SUBJECT], tokenizer)
    return _sample(ids, [places[SUBJECT]], classes[None], tokenizer, max_words)


def sub_sample(labels: Sequence[str], *, negative_sample: int, no_relation: str) -> list[int]:
    """Indices of training examples that stay: all relations, and the first n - 1 without any.

    One fewer than `negative_sample` asks for; 0 and 1 keep none.
    """
    kept, n_seen = [], 0
    for i, label in enumerate(labels):
        if label == no_relation:
            n_seen += 1
            if n_seen >= negative_sample:
                continue
        kept.append(i)
    return kept


def _sample(
    ids: list[int], targets: list[int], labels: Tensor, tokenizer: Any, max_words: int
) -> KnowledgeBatch:
    pieces = [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
    if len(pieces) > max_words or max(targets) >= max_words:
        raise BatchError(
            f"{len(pieces)} word pieces, targets at {targets}: more than max_words {max_words} has "
            "room for; raise it"
        )
    n = len(pieces)
    starts = torch.tensor([targets])
    sample = KnowledgeBatch(
        node_ids=torch.tensor([pieces]),
        node_kinds=torch.zeros(1, n, dtype=torch.int64),
        node_mask=torch.ones(1, n, dtype=torch.bool),
        positions=torch.arange(n)[None],
        segment_ids=torch.zeros(1, n, dtype=torch.int64),
        visibility=Visibility.everyone(1, n),
        labels=labels,
    ).pad_to(max_words, word_pad_id=tokenizer.pad_token_id)
    # a target is one piece long: its marker, or what stands where the marker was cut off
    return dataclasses.replace(sample, target_spans=torch.stack([starts, starts + 1], dim=2))
