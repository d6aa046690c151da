"""Links of a linker for texts that have none, or have mentions without an entity.

Data sets often mark head and tail of a relation without identifiers. Such a mention says where a
name stands, not what it means, so it does not keep the linker away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entity_linking.mentions import Link, LinkedText, Linker, Mention


def with_links(texts: Sequence[LinkedText], linker: Linker) -> list[LinkedText]:
    """The texts, in order, with links of `linker` where theirs have no entity.

    A text without any entity gets all links of the linker, and keeps mentions that none of them
    touches. Where a text has entities already, only its mentions without one are completed: each
    takes the entity of the first link that touches it, and keeps its place. Links that would reach
    across the border of a pair of texts are left out.

    >>> from entity_linking import DictionaryLinker, gold_link
    >>> from kg_loaders import Text, TextKind, graph_from_records
    >>> linker = DictionaryLinker(graph_from_records([Text("Q90", TextKind.LABEL, "Paris")]))
    >>> (text,) = with_links([LinkedText("In Paris.", (gold_link(3, 8, None),))], linker)
    >>> text.links[0].entity
    'Q90'
    """
    open_places = [i for i, text in enumerate(texts) if needs_links(text)]
    answers = linker.link([texts[i].text for i in open_places])
    complete = list(texts)
    for i, answer in zip(open_places, answers, strict=True):
        text = texts[i]
        proposed = [link for link in answer.links if not _crosses(link, text.pair_start)]
        complete[i] = replace(text, links=_merged(text.links, proposed))
    return complete


def needs_links(text: LinkedText) -> bool:
    """Whether a linker can add to the text: it has no link, or a mention without an entity."""
    return not text.links or any(link.entity is None for link in text.links)


def has_entity(text: LinkedText) -> bool:
    """Whether some link of the text has an entity."""
    return any(link.entity is not None for link in text.links)


def touch(one: Mention, other: Mention) -> bool:
    """Whether two mentions share a character."""
    return one.start < other.end and other.start < one.end


def _merged(links: Sequence[Link], proposed: Sequence[Link]) -> tuple[Link, ...]:
    if any(link.entity is not None for link in links):
        return tuple(link if link.entity else _completed(link, proposed) for link in links)
    linked = [link for link in proposed if link.entity]
    rest = [
        link
        for link in (*links, *proposed)
        if not any(touch(link.mention, each.mention) for each in linked)
    ]
    by_place = {link.mention: link for link in (*rest, *linked)}
    return tuple(by_place[mention] for mention in sorted(by_place))


def _completed(link: Link, proposed: Sequence[Link]) -> Link:
    for each in proposed:
        if each.entity and touch(each.mention, link.mention):
            return replace(each, mention=link.mention, text=link.text)
    return link


def _crosses(link: Link, pair_start: int | None) -> bool:
    start, end = link.mention.start, link.mention.end
    return pair_start is not None and start < pair_start < end
