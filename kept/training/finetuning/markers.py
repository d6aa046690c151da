"""Marks around the targets of a text, put in at text level so that every method sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from entity_linking.mentions import LinkedText, Mention
from kept.errors import ConfigError

MARKERS: dict[str, tuple[str, ...]] = {
    "none": (),
    "ernie": ("#", "$"),
    "ernie-typing": ("\u3002",),
    "kadapter": ("@", "#"),
}
"""Mark of the first target, of the second, …: ERNIE (Zhang et al. 2019) and K-Adapter (Wang et al.
2020) as released. All are ordinary words of their hosts' vocabularies."""


def mark_targets(
    linked: LinkedText, targets: Sequence[Mention], markers: Sequence[str]
) -> tuple[LinkedText, tuple[Mention, ...]]:
    """The text with `m target m` for the i-th target and the i-th marker; all spans are moved.

    The targets returned include their marks, so the first word piece of each is its opening mark.
    Links move with their words: one that starts or ends with a target stays within its marks.
    Targets may nest, touch or be the same. No markers: everything as it was. Raises `ConfigError`
    for fewer markers than targets.

    >>> linked, targets = mark_targets(LinkedText("In Paris.", ()), [Mention(3, 8)], ["#"])
    >>> linked.text, targets
    ('In # Paris #.', (Mention(start=3, end=12),))
    """
    if not markers:
        return linked, tuple(targets)
    if len(markers) < len(targets):
        raise ConfigError(f"{len(targets)} targets need as many markers, not {list(markers)}")
    marks = _marks(linked.text, targets, markers)
    pieces, last, length = [], 0, 0
    starts, ends = [0] * len(targets), [0] * len(targets)
    for position, _, target, opens, mark in marks:
        pieces += [linked.text[last:position], mark]
        length += position - last
        last = position
        if opens:
            starts[target] = length
        length += len(mark)
        if not opens:
            ends[target] = length
    text = "".join([*pieces, linked.text[last:]])
    links = tuple(
        dataclasses.replace(link, mention=_moved(link.mention, marks)) for link in linked.links
    )
    moved = tuple(Mention(start, end) for start, end in zip(starts, ends, strict=True))
    second = linked.pair_start
    if second is not None:
        before = [mark for position, (opens, *_), *_, mark in marks if position + opens <= second]
        second += len("".join(before))
    return dataclasses.replace(linked, text=text, links=links, pair_start=second), moved


_Mark = tuple[int, tuple[int, int, int], int, bool, str]
"""Place in the old text, order within it, index of the target, whether it opens, what is put in."""


def _marks(text: str, targets: Sequence[Mention], markers: Sequence[str]) -> list[_Mark]:
    """In text order; at one place closing ones (inner first), then opening ones (outer first)."""
    marks: list[_Mark] = []
    for i, (target, marker) in enumerate(zip(targets, markers, strict=False)):
        marks.append((target.start, (1, -target.end, i), i, True, f"{marker} "))
        marks.append((target.end, (0, -target.start, -i), i, False, f" {marker}"))
    return sorted(marks)


def _moved(mention: Mention, marks: Sequence[_Mark]) -> Mention:
    start = sum(len(mark) for position, *_, mark in marks if position <= mention.start)
    end = sum(len(mark) for position, *_, mark in marks if position < mention.end)
    return Mention(mention.start + start, mention.end + end)
