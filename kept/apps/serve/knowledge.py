"""What a graph and its linker alone answer: links, facts of a name, questions.

Every answer is ready for JSON. Names are identifiers, labels or aliases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import structs

from entity_linking.mentions import Link, LinkedText, Linker
from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answerer
from kept.decoders.answering.encoder import answer_encoder
from kg_loaders import KnowledgeGraph
from kg_loaders.entity import Entity, distinct_name, entity_named

MOST_CANDIDATES = 12
MOST_ALIASES = 20
N_THREADS = 2


@dataclass(eq=False)
class Asking:
    """Answers questions over a graph; the sentence encoder is opened with the first question."""

    graph: KnowledgeGraph
    linker: Linker
    n_threads: int = N_THREADS

    @cached_property
    def answerer(self) -> Answerer:
        """The answerer; raises `MissingExtraError` where no encoder is installed."""
        return Answerer(self.graph, self.linker, answer_encoder(self.n_threads))

    def answer(self, question: str, least: float | None = None) -> dict[str, Any]:
        """Return the values that the graph has, with their facts, or why there are none."""
        limit = LEAST_CONFIDENCE if least is None else least
        return self.answerer.answer(question, least=limit).as_json()


def links_of(graph: KnowledgeGraph, linked: LinkedText, candidates: int) -> list[dict[str, Any]]:
    """Return the links of a text with at most so many `candidates` each, in the text's order."""
    return [_link(graph, link, linked.text, candidates) for link in linked.links]


def _link(graph: KnowledgeGraph, link: Link, text: str, candidates: int) -> dict[str, Any]:
    row = None if link.entity is None else graph.entities.find(link.entity)
    return {
        "start": link.mention.start,
        "end": link.mention.end,
        "words": text[link.mention.start : link.mention.end],
        "entity": link.entity,
        "label": None if row is None else graph.label(row),
        "confidence": link.confidence,
        "ambiguous": link.is_ambiguous,
        "candidates": [structs.asdict(candidate) for candidate in link.candidates[:candidates]],
    }


def facts_of_name(graph: KnowledgeGraph, name: str, n: int) -> dict[str, Any]:
    """Return who `name` is and at most `n` of its facts, those that start at it first.

    Raises `UnknownNodeError`, and `AmbiguousNameError` for a name of several.
    """
    entity = entity_named(graph, name)
    outgoing, incoming = graph.outgoing(entity.index), graph.incoming(entity.index)
    rows = np.concatenate([outgoing[:n], incoming[: max(n - len(outgoing), 0)]])
    facts = [
        {
            "head": distinct_name(graph, head),
            "relation": graph.relation_label(relation),
            "tail": distinct_name(graph, tail),
        }
        for head, relation, tail in dict.fromkeys(map(tuple, rows.tolist()))
    ]
    n_loops = int((outgoing[:, 2] == entity.index).sum())
    return about(entity) | {"n_facts": len(outgoing) + len(incoming) - n_loops, "facts": facts}


def about(entity: Entity) -> dict[str, Any]:
    """Return the names, the types and the description of an entity."""
    return {
        "id": entity.id,
        "label": entity.label,
        "description": entity.description,
        "types": entity.types,
        "aliases": entity.aliases[:MOST_ALIASES],
    }
