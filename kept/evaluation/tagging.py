"""Scores of taggers: spans in BIO or IO tags, right only with both borders and the type.

Axis legend: word, text.
"""

from __future__ import annotations

from collections.abc import Sequence

TaggedSpan = tuple[int, int, str]


def tagged_spans(tags: Sequence[str]) -> list[TaggedSpan]:
    """`(first word, word after the last, type)` of every span.

    A span begins at `B-`, and at `I-` after another type or outside (as CoNLL's own scorer counts);
    every tag without a prefix is outside.

    >>> tagged_spans(["B-x", "I-x", "O", "I-y", "B-y"])
    [(0, 2, 'x'), (3, 4, 'y'), (4, 5, 'y')]
    """
    spans: list[TaggedSpan] = []
    start, kind = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        inside = prefix in ("B", "I") and name != ""
        if kind and not (inside and prefix == "I" and name == kind):
            spans.append((start, i, kind))
            kind = ""
        if inside and not kind:
            start, kind = i, name
    return spans


def span_counts(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> list[tuple[int, int, int]]:
    """`(correct, predicted, gold)` spans of every text."""
    counts = []
    for ours, theirs in zip(predicted, gold, strict=True):
        our_spans, their_spans = tagged_spans(ours), tagged_spans(theirs)
        counts.append((len(set(our_spans) & set(their_spans)), len(our_spans), len(their_spans)))
    return counts
