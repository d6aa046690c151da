"""Homonyms made in the private graph: two names become one, in the graph and in the texts.

Of 15,864 names that the ontology and DrugBank know five mean two things, ten times in all their
texts and never where the document says which. So pairs of names that the texts often use are
conflated, as pseudo-words are in word sense disambiguation (Gale, Church and Yarowsky 1992,
"Work on statistical methods for word sense disambiguation", AAAI Fall Symposium); which of the
two was meant is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from entity_linking import gold_link
from entity_linking.mentions import Link, LinkedText, Mention
from experiments.entity_linking.inputs.texts import uniform_value

OFTEN = 4
"""Mentions of a label from which on it is conflated."""
HOMONYM = "homonym"


def conflated(
    gold: Sequence[LinkedText], kinds: Mapping[tuple[str, Mention], str], *, seed: int
) -> tuple[dict[str, str], list[LinkedText], dict[tuple[str, Mention], str]]:
    """The new name of every second of the conflated entities; the texts with it, and their kinds.

    Mentions of conflated entities that are written as their label are of the kind `HOMONYM`.
    """
    names: dict[str, str] = {}
    n_mentions: Counter[str] = Counter()
    for text in gold:
        for link in text.links:
            if kinds[text.id, link.mention] == "label" and link.entity is not None:
                names[link.entity] = text.text[link.mention.start : link.mention.end]
                n_mentions[link.entity] += 1
    often = sorted(
        (entity for entity, n in n_mentions.items() if n >= OFTEN),
        key=lambda entity: uniform_value(seed, f"homonym {entity}"),
    )
    renamed: dict[str, str] = {}
    both: set[str] = set()
    for kept, other in zip(often[::2], often[1::2], strict=False):
        renamed[other] = names[kept]
        both |= {kept, other}
    texts: list[LinkedText] = []
    of_kind: dict[tuple[str, Mention], str] = {}
    for text in gold:
        words, links, moved = "", list[Link](), 0
        for link in text.links:
            start, end = link.mention.start, link.mention.end
            is_one = kinds[text.id, link.mention] == "label" and link.entity in both
            surface = text.text[start:end]
            if is_one and link.entity in renamed:
                surface = renamed[str(link.entity)]
            words += text.text[moved:start]
            placed = gold_link(len(words), len(words) + len(surface), link.entity)
            words, moved = words + surface, end
            links.append(placed)
            of_kind[text.id, placed.mention] = HOMONYM if is_one else kinds[text.id, link.mention]
        texts.append(replace(text, text=words + text.text[moved:], links=tuple(links)))
    return renamed, texts, of_kind
