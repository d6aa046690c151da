"""Texts that mention entities of a graph by their labels, made by hand."""

from __future__ import annotations

from entity_linking.mentions import Link, LinkedText, Mention
from kg_loaders import KnowledgeGraph


def mentioning(names: list[str], graph: KnowledgeGraph) -> LinkedText:
    """`names` in order: an entity's identifier becomes its label, linked; others are words."""
    text, links = "", []
    for name in names:
        entity = graph.entities.find(name)
        surface = name if entity is None else graph.label(entity)
        if entity is not None:
            links.append(Link(Mention(len(text), len(text) + len(surface)), (), name, 1.0))
        text += f"{surface} "
    return LinkedText(text.rstrip(), tuple(links))
