"""How often surfaces were linked to entities in annotated text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText


class SurfaceCount(NamedTuple):
    """`surface` was linked to `entity` `n_links` times."""

    surface: str
    entity: str
    n_links: int


def count_links(texts: Iterable[LinkedText]) -> list[SurfaceCount]:
    """Surfaces of linked mentions with their entities, sorted; NIL is not counted.

    >>> from entity_linking import gold_link
    >>> count_links([LinkedText("Paris", (gold_link(0, 5, "Q90"),))])
    [SurfaceCount(surface='Paris', entity='Q90', n_links=1)]
    """
    seen: Counter[tuple[str, str]] = Counter()
    for text in texts:
        for link in text.links:
            if link.entity is not None:
                surface = " ".join(text.text[link.mention.start : link.mention.end].split())
                seen[surface, link.entity] += 1
    return [SurfaceCount(*pair, n) for pair, n in sorted(seen.items())]


def checked(counts: Iterable[tuple[str, str, int]]) -> list[SurfaceCount]:
    """Counts with equal pairs added up, sorted; `LinkingError` for one below 1."""
    total: Counter[tuple[str, str]] = Counter()
    for number, (surface, entity, count) in enumerate(counts):
        if count < 1 or not surface.strip():
            raise LinkingError(
                f"count {number}, ({surface!r}, {entity!r}, {count}), needs a surface and "
                "a count of 1 or more; leave it out"
            )
        total[surface, entity] += count
    return [SurfaceCount(*pair, n) for pair, n in sorted(total.items())]
