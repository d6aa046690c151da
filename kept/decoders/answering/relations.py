"""Which relation a question asks about: a distribution over those that the entity's kind can have.

A relation is described in a few short phrases ("What is the capital?", "Which city is the
capital?"), by some of its values and by their kind (`kept.decoders.answering.descriptions`). A
question without its entity is compared with them by sentence vectors, directly and by way of common
questions (`kept.decoders.answering.common`); a weighted sum goes through a softmax. Relations that
entities of the same type have are the choices, so that a question about a fact that is *missing*
goes to its own relation and not to the nearest of those that are there.

Axis legend: relation, evidence, phrase, width.
"""

from __future__ import annotations

import re
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
    NO_TYPE,
    Description,
    RelationVectors,
    encode,
    in_words,
)
from kept.decoders.answering.wanted import ValueKinds, answer_type, fit, fit_of_kinds, literals
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.disk.arrow import numbers_array

N_TYPICAL = 2_000
"""Entities of a type, and triples of a relation, that are looked at."""
TYPE_LABELS = frozenset({"instance of", "type", "is a", "isa", "kind"})
TYPE_IDS = frozenset({"P31", "rdf:type", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"})
WEIGHTS = {
    "phrases": 2.7, "statements": 9.9, "type": 1.0, "names": 3.9, "questions": 4.0, "common": 3.0,
    "form": 1.2, "kind": 1.1, "misfit": -3.0, "words": 1.9, "backwards": 1.8, "types": -1.1,
    "backwards:phrases": -1.0, "backwards:statements": 1.8, "backwards:questions": -1.8,
    "backwards:common": 1.3,
}  # fmt: skip
"""Of the evidence that a relation is asked about; "backwards:" is added for inverse relations.
Fitted on the dev questions (`python -m experiments.asking.calibrate`)."""
LEAST_FIT = 0.05
"""Probability below which values are not of the kind that "who", "where" or "when" wants: that of
right ones is lower in 2 of 100 questions of SimpleQuestions, that of other relations in half."""
STOP_WORDS = frozenset({
    "a", "an", "are", "at", "be", "been", "by", "can", "could", "did", "do", "does", "for", "from",
    "had", "has", "have", "how", "in", "is", "it", "many", "much", "of", "on", "that", "the",
    "this", "to", "was", "were", "what", "when", "where", "which", "who", "whom", "whose", "with",
})  # fmt: skip
ENDING = re.compile(r"(?:ing|ed|ies|es|s|er|or|y|e|ion|ation)$")


@dataclass(frozen=True, slots=True)
class RelationChoice:
    """A relation that may be asked about; with `is_inverse` its heads are the answers."""

    relation: int
    is_inverse: bool


@dataclass(frozen=True)
class Match:
    """What a question may ask about an entity.

    `shares` are the probabilities of the relations that the graph has for entities of the kind,
    summing to 1; `evidence` says why, by name and in the same order, and `common` are the common
    relations themselves.
    """

    shares: dict[RelationChoice, float]
    evidence: dict[str, NDArray[np.float64]]
    common: CommonMatch

    def of(self, choice: RelationChoice) -> dict[str, float]:
        """Return the evidence of one relation."""
        index = list(self.shares).index(choice)
        return {name: float(column[index]) for name, column in self.evidence.items()}

    def is_symmetric(self, choice: RelationChoice) -> bool:
        """Whether a relation holds in both directions, as that of husband and wife."""
        return self.common.is_symmetric(list(self.shares).index(choice))

    def score(self, choice: RelationChoice) -> float:
        """Return the highest similarity of a relation, directly or by way of a common one."""
        evidence = self.of(choice)
        return max(evidence[name] for name in ("phrases", "names", "questions"))

    def lead(self, choice: RelationChoice) -> float:
        """Return what a relation is ahead of all common ones that the graph does not have."""
        return self.common.lead(list(self.shares).index(choice), self.score(choice))


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
        kind = self.type_of(entity) or NO_TYPE
        plain = question.replace(surface, "it", 1)
        typed = question.replace(surface, f"the {kind}", 1)
        wanted = answer_type(plain)
        vectors = self.encoder.encode([plain, typed, *filter(None, [wanted])])
        self._encode_relations(choices)
        known = [self.vectors[each] for each in choices]
        phrases = np.stack([each.phrases for each in known])
        common = self.common.compare(vectors[:2], phrases, np.stack([k.name for k in known]))
        evidence = _similarities(known, vectors)
        is_inverse = np.array([each.is_inverse for each in choices])
        by_kind = fit_of_kinds(plain, np.stack([each.kinds for each in known]))
        evidence |= {
            "names": np.where(is_inverse, 0, np.maximum(common.through_names(), 0)),
            "questions": common.through_questions(is_inverse),
            "common": common.probabilities(is_inverse),
            "form": fit(plain, [each.form for each in known]),
            "kind": by_kind,
            "misfit": np.asarray((by_kind < LEAST_FIT) & by_kind.any(), np.float64),
            "words": self._shared_words(plain, choices),
            "backwards": is_inverse.astype(np.float64),
            "types": np.array([float(self.is_about_types(c.relation)) for c in choices]),
        }
        return Match(dict(zip(choices, _shares(evidence).tolist(), strict=True)), evidence, common)

    def share_phrases(self, other: RelationMatcher) -> None:
        """Use what another matcher encoded; the relations must be the same."""
        self.vectors, self.common = other.vectors, other.common

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

    def shares_words(self, question: str, choice: RelationChoice) -> bool:
        """Whether the name of a relation has a word of the question, whatever their endings."""
        return bool(self._shared_words(question, [choice])[0])

    def has_numbers(self, choice: RelationChoice) -> bool:
        """Whether the values of a relation that was compared are numbers."""
        return self.vectors[choice].form == "number"

    @cached_property
    def words_of_types(self) -> frozenset[str]:
        """The words of the names of types, in lower case."""
        graph = self.graph
        names = {*self._types[1][:N_TYPICAL]}
        rows = graph.triples[np.isin(graph.triples[:, 1], self._type_relations), 2]
        names |= set(graph.labels(np.unique(rows)[:N_TYPICAL]))
        return frozenset(re.findall(r"\w+", " ".join(names).lower()))

    # ---- parts -------------------------------------------------------------
    @cached_property
    def common(self) -> CommonRelations:
        """The common relations, with vectors of this encoder."""
        return CommonRelations(self.encoder)

    @cached_property
    def _value_kinds(self) -> ValueKinds:
        return ValueKinds(self.encoder)

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
            vectors = encode(descriptions, self.encoder, self._value_kinds)
            self.vectors.update(zip(missing, vectors, strict=True))

    def _description(self, choice: RelationChoice) -> Description:
        ends = self._ends(choice)
        values = tuple(self.graph.label(end) for end in sorted(set(ends))[:N_EXAMPLES])
        name = in_words(self.graph.relation_label(choice.relation))
        kind = self._type_of_values(ends)
        phrases = _phrases(name, kind, is_inverse=choice.is_inverse)
        form = literals([self.graph.label(end) for end in sorted(set(ends))[: 2 * N_EXAMPLES]])
        return Description(phrases, name, kind, values, form, choice.is_inverse)

    def _ends(self, choice: RelationChoice) -> list[int]:
        """The values of the first triples of a relation."""
        rows = self.graph.triples[self.graph.triples[:, 1] == choice.relation][:200]
        ends: list[int] = rows[:, 0 if choice.is_inverse else 2].tolist()
        return ends

    def _type_of_values(self, ends: Sequence[int]) -> str:
        """The most frequent type of the answers."""
        types = Counter(kind for end in ends if (kind := self.type_of(end)))
        return min(types, key=lambda kind: (-types[kind], kind)) if types else NO_TYPE

    def _shared_words(
        self, question: str, choices: Sequence[RelationChoice]
    ) -> NDArray[np.float64]:
        """1 for each relation whose name has a word of the question, whatever their endings."""
        words = _stems(question)
        names = (in_words(self.graph.relation_label(each.relation)) for each in choices)
        return np.array([float(not words.isdisjoint(_stems(name))) for name in names])


def _phrases(name: str, kind: str, *, is_inverse: bool) -> tuple[str, str, str, str]:
    """Four ways to speak of a relation, in the order of `phrases_of`."""
    if not is_inverse:
        return phrases_of(name, kind)
    return (
        f"What has it as its {name}?",
        f"Which {kind} has the {name}?",
        f"the {kind} whose {name} it is",
        f"{kind}, by {name}",
    )


def _stems(text: str) -> set[str]:
    words = re.findall(r"[^\W\d_]+", text.lower())
    return {ENDING.sub("", word) for word in words if len(word) > 2 and word not in STOP_WORDS}


def _similarities(
    relations: Sequence[RelationVectors], vectors: NDArray[np.float32]
) -> dict[str, NDArray[np.float64]]:
    """The similarities of relations with a question, by what of them is compared.

    `vectors` are of the question about "it", of that about its type, and of the type of the answer,
    if the question has one.
    """
    statements = np.stack([each.statement for each in relations])
    values = np.stack([each.values for each in relations])
    types = np.stack([each.type for each in relations])
    by_type = np.zeros(len(relations))
    for wanted in vectors[2:]:
        by_type = np.maximum(types @ wanted, values @ wanted)
    return {
        "phrases": similarity(np.stack([each.phrases for each in relations]), vectors[:2]),
        "statements": np.asarray((statements @ vectors[:2].T).mean(1), np.float64),
        "type": np.asarray(by_type, np.float64),
    }


def _shares(evidence: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    total = np.zeros(len(evidence["backwards"]))
    for name, weight in WEIGHTS.items():
        column = evidence[name.removeprefix("backwards:")]
        is_counted = evidence["backwards"] if name.startswith("backwards:") else 1.0
        total += weight * column * is_counted
    shares = np.exp(total - total.max())
    return np.asarray(shares / shares.sum(), np.float64)
