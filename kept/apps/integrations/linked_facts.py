"""The facts of the entities that a text names, each as a text with a score: what retrievers return.

    score = confidence of the link x (1 + likeness to the text) / 2

Likeness is the cosine of two sentence vectors, where an encoder is given; without one it counts as
1, and the facts of an entity come in the order of the graph. A fact of two linked entities has the
better score, and comes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from entity_linking.mentions import Linker
from entity_linking.parts import SentenceEncoder
from kept.apps.texts import linker_for
from kept.decoders.asking import sentence
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph

Directions = Literal["both", "out"]
MOST_PER_ENTITY = 1000
"""Facts of one entity that are scored: a hub of a large graph has millions."""


@dataclass(frozen=True)
class LinkedFact:
    """A fact in words, its score from 0 to 1, and where it is from.

    `metadata` has `id`, head, relation and tail by identifier and by label, and the `entity` that
    the text names, with its `mention`, `start`, `end` and the `confidence` of the link.
    """

    text: str
    score: float
    metadata: dict[str, Any]

    @property
    def id(self) -> str:
        """The triple by identifiers, the same in every call."""
        return str(self.metadata["id"])


class LinkedFacts:
    """Finds facts by the entities of `graph` that a text names.

    `linker` finds these (by default that of `kept.link`). `encoder` orders the facts by their
    likeness to the text; `most` is how many are returned. `directions` "out" leaves out facts that
    lead to an entity.
    """

    def __init__(
        self,
        graph: KnowledgeGraph | str | Path,
        *,
        linker: Linker | None = None,
        encoder: SentenceEncoder | None = None,
        most: int = 10,
        directions: Directions = "both",
    ) -> None:
        if most < 1:
            raise ConfigError(f"most is {most}; give the number of facts, 1 or more")
        if directions not in ("both", "out"):
            raise ConfigError(f"directions {directions!r}: one of both, out")
        self.graph = graph if isinstance(graph, KnowledgeGraph) else KnowledgeGraph.open(graph)
        self._linker = linker or linker_for(self.graph)
        self._encoder, self._most, self._directions = encoder, most, directions

    def of(self, texts: Sequence[str]) -> list[list[LinkedFact]]:
        """Return the facts for each text, the best first; none where it names no entity."""
        linked = self._linker.link(list(texts))
        return [self._facts(text, links.links) for text, links in zip(texts, linked, strict=True)]

    def _facts(self, text: str, links: Sequence[Any]) -> list[LinkedFact]:
        rows: dict[int, Any] = {}
        for link in sorted(links, key=lambda each: -each.confidence):
            entity = None if link.entity is None else self.graph.entities.find(link.entity)
            for row in [] if entity is None else self._rows(entity):
                rows.setdefault(row, link)
        if not rows:
            return []
        sentences = [sentence(self.graph, row) for row in rows]
        likeness = np.ones(len(rows))
        if self._encoder is not None:
            vectors = self._encoder.encode([text, *sentences])
            likeness = (1 + np.clip(vectors[1:] @ vectors[0], -1, 1)) / 2
        facts = [
            LinkedFact(words, float(link.confidence * like), self._metadata(row, link, text))
            for (row, link), words, like in zip(rows.items(), sentences, likeness, strict=True)
        ]
        return sorted(facts, key=lambda fact: -fact.score)[: self._most]

    def _rows(self, entity: int) -> list[int]:
        """The rows of an entity's triples, those that start at it first."""
        graph = self.graph
        rows: list[int] = np.arange(*graph.out_offsets[entity : entity + 2])[
            :MOST_PER_ENTITY
        ].tolist()
        if self._directions == "both":
            start, stop = graph.in_offsets[entity : entity + 2]
            rows += graph.in_order[start:stop][:MOST_PER_ENTITY].tolist()
        return rows

    def _metadata(self, row: int, link: Any, text: str) -> dict[str, Any]:
        graph = self.graph
        head, relation, tail = graph.triples[row].tolist()
        names = (
            graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)
        )  # fmt: skip
        labels = graph.label(head), graph.relation_label(relation), graph.label(tail)
        slots = ("head", "relation", "tail")
        return {
            "id": "\t".join(names),
            **dict(zip(slots, names, strict=True)),
            **{f"{slot}_label": label for slot, label in zip(slots, labels, strict=True)},
            "entity": link.entity, "mention": text[link.start : link.end],
            "start": link.start, "end": link.end, "confidence": link.confidence,
        }  # fmt: skip
