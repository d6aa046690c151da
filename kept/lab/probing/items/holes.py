"""Filling the hole of an item, with masks for a model, with an answer for people."""

from __future__ import annotations

import dataclasses

from entity_linking.mentions import Link, LinkedText, Mention
from kept.errors import EvaluationError
from kept.lab.probing.items.item import ClozeItem


def filled(item: ClozeItem, words: str) -> LinkedText:
    """The item's text with `words` in the place of its hole; links behind it move along.

    Raises `EvaluationError` where a link reaches into the hole: the answer must not be linked.
    """
    start, end, linked = item.hole.start, item.hole.end, item.linked
    shift = len(words) - (end - start)
    links = tuple(_moved(link, item, shift) for link in linked.links)
    pair = linked.pair_start
    return dataclasses.replace(
        linked,
        text=linked.text[:start] + words + linked.text[end:],
        links=links,
        pair_start=pair + shift if pair is not None and pair >= end else pair,
    )


def _moved(link: Link, item: ClozeItem, shift: int) -> Link:
    mention, hole = link.mention, item.hole
    if mention.start < hole.end and hole.start < mention.end:
        raise EvaluationError(
            f"item {item.id!r}: {mention} is linked to {link.entity}, but reaches into the hole "
            f"at {hole.start}-{hole.end}; leave that link out"
        )
    if mention.start < hole.start:
        return link
    return dataclasses.replace(link, mention=Mention(mention.start + shift, mention.end + shift))
