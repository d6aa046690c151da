"""Which relation a question asks about: a distribution over those that the entity's kind can have.

A relation is described in a few short phrases ("What is the capital?", "Which city is the
capital?"), a question without its entity is compared with them by sentence vectors, and the mean
similarities go through a softmax. Relations that entities of the same type have are the choices, so
that a question about a fact that is *missing* goes to its own relation and not to the nearest
of those that are there.

Axis legend: relation, phrase, width.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.disk.arrow import numbers_array

N_TYPICAL = 2_000
"""Entities of a type, and triples of a relation, that are looked at."""
TYPE_LABELS = frozenset({"instance of", "type", "is a", "isa", "kind"})
TYPE_IDS = frozenset({"P31", "rdf:type", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"})
TEMPERATURE = 0.05
INVERSE_MARGIN = 0.04
"""Similarity that a relation read backwards must have more, as few questions ask so."""


@dataclass(frozen=True, slots=True)
class RelationChoice:
    """A relation that may be asked about; with `is_inverse` its heads are the answers."""

    relation: int
    is_inverse: bool


@dataclass(eq=False)
class RelationMatcher:
    """Compares questions with the relations of a graph; phrases are encoded once."""

    graph: KnowledgeGraph
    encoder: SentenceEncoder
    vectors: dict[RelationChoice, NDArray[np.float32]] = field(default_factory=dict)
    """Of each relation's phrases, `[phrase width]`; graphs with the same ids may share them."""
    _choices: dict[str, tuple[RelationChoice, ...]] = field(default_factory=dict)

    def probabilities(
        self, question: str, surface: str, entity: int
    ) -> dict[RelationChoice, float]:
        """Return how likely each choice is what `question` asks about `entity`, summing to 1.

        `surface` is how the question names the entity. Empty where the graph has no relation that
        entities of its type take part in.
        """
        choices = self.choices(entity)
        if not choices:
            return {}
        kind = self.type_of(entity) or "thing"
        plain = question.replace(surface, "it", 1)
        typed = question.replace(surface, f"the {kind}", 1)
        vectors = self.encoder.encode([plain, typed])
        self._encode_phrases(choices)
        scores = np.array([self._similarity(each, vectors) for each in choices])
        shares = np.exp((scores - scores.max()) / TEMPERATURE)
        shares /= shares.sum()
        return dict(zip(choices, shares.tolist(), strict=True))

    def choices(self, entity: int) -> tuple[RelationChoice, ...]:
        """Return the relations of entities of the same type, and of the entity itself, sorted."""
        kind = self.type_of(entity)
        if kind not in self._choices:
            peers = [entity] if kind is None else self._of_type(kind)
            self._choices[kind or ""] = self._relations_of(peers)
        own = self._relations_of([entity])
        both = {*self._choices[kind or ""], *own} if kind is not None else set(own)
        return tuple(sorted(both, key=lambda each: (each.is_inverse, each.relation)))

    def type_of(self, entity: int) -> str | None:
        """Return the label of the first type, in the graph's types or by "instance of"; or None."""
        types = self.graph[self.graph.entities.name(entity)].types
        if types:
            return types[0]
        rows = self.graph.outgoing(entity)
        values = rows[np.isin(rows[:, 1], self._type_relations), 2].tolist()
        return self.graph.label(values[0]) if values else None

    def is_about_types(self, relation: int) -> bool:
        """Whether a relation says what kind of thing an entity is."""
        return relation in self._type_relations

    # ---- parts -------------------------------------------------------------
    @cached_property
    def _type_relations(self) -> list[int]:
        graph = self.graph
        return [
            i
            for i in range(graph.n_relations)
            if graph.relations.name(i) in TYPE_IDS or graph.relation_label(i).lower() in TYPE_LABELS
        ]

    @cached_property
    def _types(self) -> tuple[NDArray[np.int32], list[str]]:
        """The entity and the type of every text that is one."""
        texts = self.graph.entity_texts
        rows = np.flatnonzero(np.asarray(texts.kinds) == TextKind.TYPE)
        return texts.nodes()[rows], texts.values.take(numbers_array(rows)).to_pylist()

    def _of_type(self, kind: str) -> list[int]:
        nodes, names = self._types
        graph = self.graph
        same = {kind, *(graph.entities.name(i) for i in graph.named(kind))}
        peers = [node for node, name in zip(nodes.tolist(), names, strict=True) if name in same]
        if not peers:
            tails = graph.named(kind)
            rows = graph.triples[np.isin(graph.triples[:, 1], self._type_relations)]
            peers = rows[np.isin(rows[:, 2], tails), 0].tolist()
        return peers[:N_TYPICAL]

    def _relations_of(self, entities: list[int]) -> tuple[RelationChoice, ...]:
        graph = self.graph
        outgoing = {int(r) for i in entities for r in graph.outgoing(i)[:N_TYPICAL, 1]}
        incoming = {int(r) for i in entities for r in graph.incoming(i)[:N_TYPICAL, 1]}
        incoming -= set(self._type_relations)
        choices = [RelationChoice(r, False) for r in outgoing] + [
            RelationChoice(r, True) for r in incoming
        ]
        return tuple(sorted(choices, key=lambda each: (each.is_inverse, each.relation)))

    def _encode_phrases(self, choices: tuple[RelationChoice, ...]) -> None:
        missing = [each for each in choices if each not in self.vectors]
        phrases = [phrase for each in missing for phrase in self._phrases(each)]
        if not phrases:
            return
        vectors = self.encoder.encode(phrases).reshape(len(missing), -1, self.encoder.width)
        self.vectors.update(zip(missing, vectors, strict=True))

    def _phrases(self, choice: RelationChoice) -> tuple[str, str, str, str]:
        """Four ways to speak of a relation; the first and third go with the plain question."""
        label = self.graph.relation_label(choice.relation)
        kind = self._type_of_values(choice)
        if choice.is_inverse:
            return (
                f"What has it as its {label}?", f"Which {kind} has the {label}?",
                f"the {kind} whose {label} it is", f"{kind}, by {label}",
            )  # fmt: skip
        return (
            f"What is the {label}?", f"Which {kind} is the {label}?",
            f"the {label} of it, a {kind}", f"{label}: {kind}",
        )  # fmt: skip

    def _type_of_values(self, choice: RelationChoice) -> str:
        """The most frequent type of the answers."""
        rows = self.graph.triples[self.graph.triples[:, 1] == choice.relation][:200]
        ends = rows[:, 0 if choice.is_inverse else 2].tolist()
        types = Counter(kind for end in ends if (kind := self.type_of(end)))
        return min(types, key=lambda kind: (-types[kind], kind)) if types else "thing"

    def _similarity(self, choice: RelationChoice, question: NDArray[np.float32]) -> float:
        """The mean over the phrases; relations about types and backwards ones need more."""
        plain, typed = question
        phrases = self.vectors[choice]
        mean = float((phrases[::2] @ plain).mean() + (phrases[1::2] @ typed).mean()) / 2
        return mean - (INVERSE_MARGIN if choice.is_inverse else 0.0)
