"""Which relation a question asks about: a distribution over those that the entity's kind can have.

A relation is described in a few short phrases ("What is the capital?", "Which city is the
capital?"), by some of its values and by their type (`kept.decoders.answering.descriptions`). A
question without its entity is compared with them by sentence vectors, directly and by way of common
relations (`kept.decoders.answering.common`); the sum of the similarities goes through a softmax.
Relations that entities of the same type have are the choices, so that a question about a fact that
is *missing* goes to its own relation and not to the nearest of those that are there.

Axis legend: relation, phrase, width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from entity_linking.parts import SentenceEncoder
from kept.decoders.answering.common import CommonMatch, CommonRelations, phrases_of, similarity
from kept.decoders.answering.descriptions import (
    N_EXAMPLES,
    OF_DETOUR,
    OF_STATEMENTS,
    OF_TYPE,
    OF_VALUES,
    Description,
    RelationVectors,
    answer_type,
    encode,
)
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.disk.arrow import numbers_array

N_TYPICAL = 2_000
"""Entities of a type, and triples of a relation, that are looked at."""
TYPE_LABELS = frozenset({"instance of", "type", "is a", "isa", "kind"})
TYPE_IDS = frozenset({"P31", "rdf:type", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"})
TEMPERATURE = 0.12
INVERSE_MARGIN, TYPE_MARGIN = 0.04, 0.07
"""Similarity that a relation read backwards, or one that says what kind of thing an entity is, must
have more than others, as few questions ask for it."""


@dataclass(frozen=True, slots=True)
class RelationChoice:
    """A relation that may be asked about; with `is_inverse` its heads are the answers."""

    relation: int
    is_inverse: bool


@dataclass(frozen=True)
class Match:
    """What a question may ask about an entity.

    `shares` are the probabilities of the relations that the graph has for entities of the kind,
    summing to 1, `direct` their similarities with the question, `detours` those by way of common
    relations, in the same order; `common` are the common relations themselves.
    """

    shares: dict[RelationChoice, float]
    direct: dict[RelationChoice, float]
    detours: dict[RelationChoice, float]
    common: CommonMatch

    def score(self, choice: RelationChoice) -> float:
        """Return the higher of the two similarities of a relation."""
        return max(self.direct[choice], self.detours[choice])

    def lead(self, choice: RelationChoice) -> float:
        """Return what a relation is ahead of all common ones that the graph does not have."""
        return self.common.lead(list(self.direct).index(choice), self.score(choice))


@dataclass(eq=False)
class RelationMatcher:
    """Compares questions with the relations of a graph; these are encoded once."""

    graph: KnowledgeGraph
    encoder: SentenceEncoder
    vectors: dict[RelationChoice, RelationVectors] = field(default_factory=dict)
    _choices: dict[str, tuple[RelationChoice, ...]] = field(default_factory=dict)

    def match(self, question: str, surface: str, entity: int) -> Match | None:
        """Return what `question` may ask about `entity`, which it names `surface`.

        None where the graph has no relation that entities of its type take part in.
        """
        choices = self.choices(entity)
        if not choices:
            return None
        kind = self.type_of(entity) or "thing"
        plain = question.replace(surface, "it", 1)
        typed = question.replace(surface, f"the {kind}", 1)
        wanted = answer_type(question)
        vectors = self.encoder.encode([plain, typed, *filter(None, [wanted])])
        self._encode_relations(choices)
        known = [self.vectors[each] for each in choices]
        phrases = np.stack([each.phrases for each in known])
        common = self._common.compare(vectors[:2], phrases, np.stack([k.name for k in known]))
        direct = similarity(phrases, vectors[:2]) - np.array([self._handicap(c) for c in choices])
        detours = np.maximum(common.through(), 0)
        detours[[each.is_inverse for each in choices]] = 0  # common relations are read forwards
        evidence = direct + OF_DETOUR * detours + _by_values(known, vectors)
        shares = np.exp((evidence - evidence.max()) / TEMPERATURE)
        shares /= shares.sum()
        by_share, by_words, by_detour = (
            dict(zip(choices, column.tolist(), strict=True)) for column in (shares, direct, detours)
        )
        return Match(by_share, by_words, by_detour, common)

    def share_phrases(self, other: RelationMatcher) -> None:
        """Use what another matcher encoded; the relations must be the same."""
        self.vectors, self._common = other.vectors, other._common

    def choices(self, entity: int) -> tuple[RelationChoice, ...]:
        """Return the relations of entities of the same type, and of the entity itself, sorted.

        An entity without a type is taken to be of the kind of those with the same relations.
        """
        kind = self.type_of(entity)
        if kind is None:
            peers = self._with_the_same_relations(entity)
            both = {*self._relations_of(peers), *self._relations_of([entity])}
        else:
            if kind not in self._choices:
                self._choices[kind] = self._relations_of(self._of_type(kind))
            both = {*self._choices[kind], *self._relations_of([entity])}
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
    def _common(self) -> CommonRelations:
        return CommonRelations(self.encoder)

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

    def _with_the_same_relations(self, entity: int) -> list[int]:
        """Heads of the relations that an entity is the head of."""
        triples = self.graph.triples
        mine = np.unique(self.graph.outgoing(entity)[:, 1])
        peers: list[int] = np.unique(triples[np.isin(triples[:, 1], mine), 0])[:N_TYPICAL].tolist()
        return peers

    def _relations_of(self, entities: list[int]) -> tuple[RelationChoice, ...]:
        graph = self.graph
        outgoing = {int(r) for i in entities for r in graph.outgoing(i)[:N_TYPICAL, 1]}
        incoming = {int(r) for i in entities for r in graph.incoming(i)[:N_TYPICAL, 1]}
        incoming -= set(self._type_relations)
        choices = [RelationChoice(r, False) for r in outgoing] + [
            RelationChoice(r, True) for r in incoming
        ]
        return tuple(sorted(choices, key=lambda each: (each.is_inverse, each.relation)))

    def _encode_relations(self, choices: tuple[RelationChoice, ...]) -> None:
        missing = [each for each in choices if each not in self.vectors]
        if missing:
            descriptions = [self._description(each) for each in missing]
            vectors = encode(descriptions, self.encoder)
            self.vectors.update(zip(missing, vectors, strict=True))

    def _description(self, choice: RelationChoice) -> Description:
        ends = self._ends(choice)
        values = tuple(self.graph.label(end) for end in sorted(set(ends))[:N_EXAMPLES])
        name = self.graph.relation_label(choice.relation)
        kind = self._type_of_values(ends)
        return Description(self._phrases(choice, kind), name, kind, values, choice.is_inverse)

    def _ends(self, choice: RelationChoice) -> list[int]:
        """The values of the first triples of a relation."""
        rows = self.graph.triples[self.graph.triples[:, 1] == choice.relation][:200]
        ends: list[int] = rows[:, 0 if choice.is_inverse else 2].tolist()
        return ends

    def _phrases(self, choice: RelationChoice, kind: str) -> tuple[str, str, str, str]:
        """Four ways to speak of a relation, in the order of `phrases_of`."""
        label = self.graph.relation_label(choice.relation)
        if not choice.is_inverse:
            return phrases_of(label, kind)
        return (
            f"What has it as its {label}?",
            f"Which {kind} has the {label}?",
            f"the {kind} whose {label} it is",
            f"{kind}, by {label}",
        )

    def _type_of_values(self, ends: Sequence[int]) -> str:
        """The most frequent type of the answers."""
        types = Counter(kind for end in ends if (kind := self.type_of(end)))
        return min(types, key=lambda kind: (-types[kind], kind)) if types else "thing"

    def _handicap(self, choice: RelationChoice) -> float:
        """The similarity that a relation must have more than others: few questions ask for it."""
        is_rare = self.is_about_types(choice.relation)
        return TYPE_MARGIN * is_rare + INVERSE_MARGIN * choice.is_inverse


def _by_values(
    relations: Sequence[RelationVectors], vectors: NDArray[np.float32]
) -> NDArray[np.float64]:
    """The part of the evidence that is of statements, values and the type of the answer.

    `vectors` are of the question about "it", of that about its type, and of the type of the answer,
    if the question has one.
    """
    statements = np.stack([each.statement for each in relations])
    values = np.stack([each.values for each in relations])
    types = np.stack([each.type for each in relations])
    evidence = (
        OF_STATEMENTS * (statements @ vectors[:2].T).mean(1) + OF_VALUES * values @ vectors[0]
    )
    for wanted in vectors[2:]:
        evidence += OF_TYPE * np.maximum(types @ wanted, values @ wanted)
    return np.asarray(evidence, np.float64)
