"""Mentions replaced by names of other entities of the same type, at text level.

Xiong et al. 2020, "Pretrained Encyclopedia" (WKLM, ICLR), section 2.1. The code that made the
released data is not published. As in the paper: another entity of the same type, sampled uniformly,
under one of its names; of two mentions in a row never both. Where we differ: replacements are
sampled anew in every epoch (there ten copies of each article), and a name that equals the true one
up to case is not a replacement.

Axis legend: link, member (entities of one type).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import Link, LinkedText, Mention
from kept.batches import IGNORE
from kept.errors import ConfigError
from kept.objectives.base import Rewritten
from kept.suggestions import no_such
from kg_loaders import KnowledgeGraph

REPLACED, TRUE = 0, 1
"""Labels of links: of WKLM's released code, too."""
RECORDS, ROLES = "records", "roles"
Ids = NDArray[np.int64]


class Types:
    """Which entities may replace one another: `of` an entity its types, `members` of a type.

    `source` "records" are the graph's type records; with "roles" heads of the same relation have
    one type, and its tails; any other name is a relation whose tails are types ("P31"). None takes
    records where the graph has any, else roles. Raises `ConfigError` for a relation that the graph
    lacks, or records where it has none.
    """

    def __init__(self, graph: KnowledgeGraph, source: str | None = None) -> None:
        named: dict[object, list[int]] = {}
        if source in (RECORDS, None):
            for entity in range(graph.n_entities):
                for name in graph.types(entity):
                    named.setdefault(name, []).append(entity)
            if not named and source == RECORDS:
                raise ConfigError(
                    f"{graph} has no record of a type; give types: {ROLES!r}, or the relation "
                    "whose tails are types"
                )
            source = RECORDS if named else ROLES
        triples = graph.triples.astype(np.int64)
        if source == ROLES:
            ends = [(r, side, e) for side in (0, 2) for r, e in triples[:, [1, side]].tolist()]
            for relation, side, entity in dict.fromkeys(ends):
                named.setdefault((relation, side), []).append(entity)
        elif source != RECORDS:
            relation_id = graph.relations.find(source)
            if relation_id is None:
                raise no_such("relation", source, sorted(graph.relations))
            for head, _, tail in triples[triples[:, 1] == relation_id].tolist():
                named.setdefault(tail, []).append(head)
        self.source = source
        self._members: list[Ids] = [np.unique(ids) for ids in named.values()]
        self._of: dict[int, list[int]] = {}
        for number, ids in enumerate(self._members):
            for entity in ids.tolist():
                if len(ids) > 1:
                    self._of.setdefault(entity, []).append(number)

    def of(self, entity: int) -> Sequence[int]:
        """Numbers of the entity's types that another entity has, too."""
        return self._of.get(entity, ())

    def draw(self, entity: int, draws: np.random.Generator) -> int:
        """Sample another entity: one of its types, then one of its other members, uniformly."""
        types = self.of(entity)
        members = self._members[types[int(draws.integers(len(types)))]]
        draw = int(draws.integers(len(members) - 1))
        position = int(np.searchsorted(members, entity))
        return int(members[draw + (draw >= position)])


def replace_mentions(
    text: LinkedText,
    graph: KnowledgeGraph,
    types: Types,
    *,
    share: float,
    draws: np.random.Generator,
) -> Rewritten:
    """Return the text with mentions replaced with probability `share`, never two in a row.

    Labels are REPLACED, TRUE, or IGNORE for a link that could not have been replaced: into no
    entity of the graph, to one without types, or across another link. A replaced link leads to the
    entity whose name is there now, without candidates.
    """
    labels = np.full(len(text.links), IGNORE, np.int64)
    names: dict[int, tuple[int, str]] = {}
    was_replaced = False
    for i in free_links(text.links):
        link = text.links[i]
        entity = None if link.entity is None else graph.entities.find(link.entity)
        if entity is None or not types.of(entity):
            continue
        labels[i] = TRUE
        if not was_replaced and draws.random() < share:
            other = types.draw(entity, draws)
            name = _name(graph, other, draws)
            surface = text.text[link.mention.start : link.mention.end]
            if name.casefold() != surface.casefold():
                names[i], labels[i], was_replaced = (other, name), REPLACED, True
                continue
        was_replaced = False
    return Rewritten(with_names(text, graph, names), labels)


def free_links(links: Sequence[Link]) -> list[int]:
    """Links that share no character with another one."""
    free, reach = [], 0
    for i, link in enumerate(links):
        following = links[i + 1].mention.start if i + 1 < len(links) else link.mention.end
        if link.mention.start >= reach and following >= link.mention.end:
            free.append(i)
        reach = max(reach, link.mention.end)
    return free


def _name(graph: KnowledgeGraph, entity: int, draws: np.random.Generator) -> str:
    """One of the entity's names: its label or an alias."""
    names = list(dict.fromkeys([graph.label(entity), *(name for name, _ in graph.aliases(entity))]))
    return names[int(draws.integers(len(names)))]


def with_names(
    text: LinkedText, graph: KnowledgeGraph, names: Mapping[int, tuple[int, str]]
) -> LinkedText:
    """Return the text with other names at some links, by number: (entity, its name there).

    What stands behind them moves.
    """
    pieces, links, last, shift = [], [], 0, 0
    second = text.pair_start
    for i, link in enumerate(text.links):
        start, end = link.mention.start, link.mention.end
        if i not in names:
            links.append(dataclasses.replace(link, mention=Mention(start + shift, end + shift)))
            continue
        entity, name = names[i]
        pieces += [text.text[last:start], name]
        mention = Mention(start + shift, start + shift + len(name))
        links.append(
            dataclasses.replace(
                link, mention=mention, candidates=(), entity=graph.entities.name(entity)
            )
        )
        last, shift = end, shift + len(name) - (end - start)
        if text.pair_start is not None and second is not None and end <= text.pair_start:
            second = text.pair_start + shift
    whole = "".join([*pieces, text.text[last:]])
    return dataclasses.replace(text, text=whole, links=tuple(links), pair_start=second)
