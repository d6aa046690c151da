"""The answer to a question, chosen among the values of the graph, or "not in the graph".

The question is linked; for each linked entity the relations that it may ask about get
probabilities (`kept.decoders.answering.relations`). The answer is the values of the most likely
relation that the entity has. `confidence` is the probability that this is right: it falls where
another relation
of the graph, which this entity lacks, is as likely, and where something that no relation of the
graph is about (`kept.decoders.answering.common`) is more like the question. Below
`LEAST_CONFIDENCE` the answer is that the graph does not hold it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from entity_linking.mentions import LinkedText, Linker
from entity_linking.parts import SentenceEncoder
from kept.decoders.answering.relations import Match, RelationChoice, RelationMatcher
from kg_loaders import KnowledgeGraph
from kg_loaders.entity import distinct_name, facts_of

LEAST_CONFIDENCE = 0.4
BIAS, WEIGHTS = -3.38, (2.47, 11.01, 1.94, 2.97)
"""Log-odds that an answer is right: a bias, and the weights of `Reading.evidence`. Fitted, and the
least confidence chosen, on the dev questions (`python -m experiments.asking.calibrate`)."""
LEAST_SHARE = 1e-4
MOST_COMPARED = 512
"""Facts that are compared with a question."""
Fact = tuple[str, str, str]


@dataclass(frozen=True)
class Answer:
    """The answer to one question: `values`, or a `refusal` that says why there is none.

    `entity` and `relation` are what was asked about, `facts` the triples that say so, in words,
    `confidence` the probability that the graph has what was asked. `others` are the relations that
    are likely next, with their probabilities.
    """

    question: str
    values: tuple[str, ...] = ()
    refusal: str = ""
    entity: str = ""
    relation: str = ""
    facts: tuple[Fact, ...] = ()
    confidence: float = 0.0
    others: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        if self.refusal:
            return f"no answer: {self.refusal}"
        facts = "\n".join(f"  {head} — {relation} → {tail}" for head, relation, tail in self.facts)
        return f"{', '.join(self.values)}    (confidence {self.confidence:.2f})\n{facts}"

    def __bool__(self) -> bool:
        """Whether there is an answer."""
        return not self.refusal

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def as_json(self) -> dict[str, Any]:
        """All fields."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Reading:
    """One entity of a question with the relation, of those it has, that fits best."""

    entity: int
    choice: RelationChoice
    of_entity: tuple[RelationChoice, ...]
    match: Match

    @property
    def evidence(self) -> tuple[float, float, float, float]:
        """What speaks for it: the log of the probability of relations that the entity has, the
        lead over what the graph has no relation for, and the similarity with the question,
        directly and by way of a common relation."""
        share = math.log(sum(self.match.shares[choice] for choice in self.of_entity) + LEAST_SHARE)
        match, choice = self.match, self.choice
        return share, match.lead(choice), match.direct[choice], match.detours[choice]

    @property
    def confidence(self) -> float:
        """The probability that its values are the answer.

        Never above that of the relations that the entity has, however far the rest is away.
        """
        evidence = self.evidence
        odds = math.exp(BIAS + sum(w * x for w, x in zip(WEIGHTS, evidence, strict=True)))
        return min(odds / (1 + odds), math.exp(evidence[0]))


class Answerer:
    """Answers questions from one graph; phrases of its relations are encoded once.

    >>> from kept import atlas, DictionaryLinker               # doctest: +SKIP
    >>> world = atlas.graph()                                  # doctest: +SKIP
    >>> answerer = Answerer(world, DictionaryLinker(world), FastSentenceEncoder())  # doctest: +SKIP
    >>> answerer.answer("What is the capital of France?").values                  # doctest: +SKIP
    ('Paris',)
    """

    def __init__(self, graph: KnowledgeGraph, linker: Linker, encoder: SentenceEncoder) -> None:
        self.graph, self.linker = graph, linker
        self.matcher = RelationMatcher(graph, encoder)

    def answer(self, question: str, *, least: float = LEAST_CONFIDENCE) -> Answer:
        """Return the answer to `question`; below the confidence `least` a refusal."""
        question = question.strip()
        (linked,) = self.linker.link([question])
        entities = self._entities(linked)
        if not entities:
            return Answer(question, refusal="no entity of the graph is named in the question")
        best = self._best(question, entities)
        if best is None:
            return Answer(question, refusal="the graph has no fact of what the question names")
        return self._answer(question, best, least)

    def best_reading(self, question: str) -> Reading | None:
        """Return what `question` most likely asks for; None where nothing of the graph is named."""
        (linked,) = self.linker.link([question.strip()])
        return self._best(question.strip(), self._entities(linked))

    def facts_about(self, question: str, most: int) -> list[str]:
        """Return facts of the linked entities in words, at most `most`, most like the question."""
        (linked,) = self.linker.link([question.strip()])
        all_facts = [fact for _, e in self._entities(linked) for fact in facts_of(self.graph, [e])]
        facts = [f"{h}, {r}: {t}." for h, r, t in dict.fromkeys(all_facts)][:MOST_COMPARED]
        if not facts:
            return []
        vectors = self.matcher.encoder.encode([question, *facts])
        order = np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")
        return [facts[i] for i in order[:most].tolist()]

    def _entities(self, linked: LinkedText) -> list[tuple[str, int]]:
        """The linked entities with their surfaces, each once."""
        pairs: dict[int, str] = {}
        for link in linked.links:
            index = None if link.entity is None else self.graph.entities.find(link.entity)
            if index is not None:
                pairs.setdefault(index, linked.text[link.start : link.end])
        return [(surface, index) for index, surface in pairs.items()]

    def _best(self, question: str, entities: Sequence[tuple[str, int]]) -> Reading | None:
        readings = [self._reading(question, surface, entity) for surface, entity in entities]
        readable = [each for each in readings if each is not None]
        return max(
            readable,
            key=lambda each: each.confidence * each.match.shares[each.choice],
            default=None,
        )

    def _reading(self, question: str, surface: str, entity: int) -> Reading | None:
        match = self.matcher.match(question, surface, entity)
        if match is None:
            return None
        choices_of = tuple(choice for choice in match.shares if len(self._rows(entity, choice)))
        if not choices_of:
            return None
        return Reading(
            entity, max(choices_of, key=lambda each: match.shares[each]), choices_of, match
        )

    def _rows(self, entity: int, choice: RelationChoice) -> Any:
        rows = self.graph.incoming(entity) if choice.is_inverse else self.graph.outgoing(entity)
        return rows[rows[:, 1] == choice.relation]

    def _answer(self, question: str, reading: Reading, least: float) -> Answer:
        graph, choice = self.graph, reading.choice
        label = graph.relation_label(choice.relation)
        match = reading.match
        ranked = sorted(match.shares.items(), key=lambda pair: -pair[1])
        others = tuple(
            (graph.relation_label(each.relation), round(share, 4))
            for each, share in ranked[:4]
            if each != choice
        )
        about = {
            "entity": graph.label(reading.entity), "relation": label,
            "confidence": reading.confidence, "others": others,
        }  # fmt: skip
        if reading.confidence < least:
            missing = graph.relation_label(ranked[0][0].relation)
            common, score = match.common.most_likely_missing()
            missing = common if score > max(map(match.score, match.shares)) else missing
            refusal = (
                f"not in the graph: it has no {missing} of {graph.label(reading.entity)} "
                f"(confidence that the graph contains the answer: {reading.confidence:.2f})"
            )
            return Answer(question, refusal=refusal, **about)  # type: ignore[arg-type]
        rows = self._rows(reading.entity, choice).tolist()
        values = tuple(graph.label(row[0 if choice.is_inverse else 2]) for row in rows)
        facts = tuple((distinct_name(graph, h), label, distinct_name(graph, t)) for h, _, t in rows)
        return Answer(question, values, facts=facts, **about)  # type: ignore[arg-type]
