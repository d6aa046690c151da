"""The answer to a question, chosen among the values of the graph, or "not in the graph".

The question is linked; for each linked entity the relations that it may ask about get
probabilities (`kept.decoders.answering.relations`). The answer is the values of the most likely
relation that the entity has. `confidence` is the probability that this is right: it falls where
another relation of the graph fits as well, and where something that no relation of the graph is
about (`kept.decoders.answering.common`) is more like the question. Below `LEAST_CONFIDENCE` the
answer is that the graph does not hold it.

Counts, lists, questions for yes or no and those of two steps (`kept.decoders.answering.forms`) are
answered from the same readings. What needs more, such as a comparison, is refused.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from entity_linking.mentions import LinkedText, Linker
from entity_linking.parts import SentenceEncoder
from kept.decoders.answering.forms import (
    CLASS,
    OF,
    TwoSteps,
    as_list,
    as_question,
    form_of,
    listed,
    not_answerable,
    ranks,
    two_steps,
)
from kept.decoders.answering.relations import Match, RelationChoice, RelationMatcher
from kg_loaders import KnowledgeGraph
from kg_loaders.entity import distinct_name, facts_of

if TYPE_CHECKING:
    from kept.decoders.answering.near_names import NearNames

LEAST_CONFIDENCE = 0.4
BIAS = 0.47
WEIGHTS = {
    "share": 0.74, "lead": 7.18, "margin": 0.49, "phrases": -1.17, "names": 0.4,
    "questions": -4.44, "common": 2.47, "form": 1.16, "kind": 0.36, "words": 0.66,
}  # fmt: skip
"""Log-odds that an answer is right: a bias, and the weights of `Reading.evidence`. Fitted, and the
least confidence chosen, on the dev questions (`python -m experiments.asking.calibrate`)."""
OF_MISFIT = 0.3
"""What is left of the confidence where values are not of the kind that is wanted."""
LEAST_SHARE, SMALL, MOST_MARGIN = 1e-4, 1e-3, 5.0
MOST_COMPARED = 512
"""Facts that are compared with a question."""
LEAST_FALLBACK = 0.6
"""Confidence at which a question that could have two steps is answered in one."""
PREPOSITIONS_OF_VERBS = ("at", "by", "for", "from", "in", "on", "to", "under", "with")
MOST_BETWEEN = 20
"""Entities that the first of two steps may lead to."""
USE_SPARQL = "kept ask answers with facts; use kept kg query, which takes SPARQL"
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
    def evidence(self) -> dict[str, float]:
        """What speaks for it: the log of the probability of relations that the entity has, the
        lead over what the graph has no relation for, the log of the ratio to the next relation, and
        similarities with the question."""
        match, shares = self.match, self.match.shares
        ranked = sorted((shares[choice] for choice in self.of_entity), reverse=True)
        second = ranked[1] if len(ranked) > 1 else 0.0
        margin = math.log(ranked[0] / (second + SMALL)) if second else MOST_MARGIN
        return match.of(self.choice) | {
            "share": math.log(sum(ranked) + LEAST_SHARE),
            "lead": match.lead(self.choice),
            "margin": min(max(margin, 0.0), MOST_MARGIN),
        }

    @property
    def confidence(self) -> float:
        """The probability that its values are the answer.

        Never above that of the relations that the entity has, however far the rest is away.
        """
        evidence = self.evidence
        odds = math.exp(BIAS + sum(weight * evidence[name] for name, weight in WEIGHTS.items()))
        confidence = min(odds / (1 + odds), math.exp(evidence["share"]))
        return confidence * (OF_MISFIT if evidence["misfit"] else 1.0)


@dataclass(frozen=True)
class Named:
    """An entity that a question names, and where."""

    entity: int
    start: int
    end: int


def _with_name(text: str, named: Named, name: str) -> str:
    return text[: named.start] + name + text[named.end :]


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
        text = question.strip()
        return dataclasses.replace(self._answered(as_question(text), least), question=text)

    def _answered(self, question: str, least: float) -> Answer:
        named = self._named(question)
        if not named:
            return Answer(question, refusal=self._no_entity(question))
        if least > 0 and (more := not_answerable(question)):
            return Answer(question, refusal=f"the question {more}: {USE_SPARQL}")
        if form_of(question) == "yes or no":
            return self._yes_or_no(question, named, least)
        steps = [two_steps(question, each.start, each.end) for each in named]
        for each in filter(None, reversed(steps)):
            answer = self._in_two_steps(each, least)
            if answer or each.is_clause:
                one_step = None if each.is_clause else self._in_one_step(question, named, least)
                is_better = one_step is not None and one_step.confidence > answer.confidence
                return one_step if one_step and is_better else answer
        return self._in_one_step(question, named, LEAST_FALLBACK if any(steps) and least else least)

    def _in_one_step(self, question: str, named: Sequence[Named], least: float) -> Answer:
        readings = [self._best(question, named)]
        if form_of(question) == "count":  # of things, next to a number that the graph has
            which = as_list(question)
            shift = len(which) - len(question)
            moved = [Named(n.entity, n.start + shift, n.end + shift) for n in named]
            readings.append(self._best(which, moved))
        readable = [each for each in readings if each is not None]
        if not readable:
            return Answer(question, refusal="the graph has no fact of what the question names")
        best = max(readable, key=lambda each: each.confidence)
        return self._answer(question, best, named, least)

    def _in_two_steps(self, steps: TwoSteps, least: float) -> Answer:
        """The answer about what the inner question leads to."""
        inner = max(
            (self._answered(each, least) for each in steps.inners),
            key=lambda each: (bool(each), each.confidence),
        )
        if not inner:
            return inner
        answers = []
        for name in inner.values[:MOST_BETWEEN]:
            answer = self._answered(steps.outer(name), least)
            if not answer:
                return dataclasses.replace(answer, facts=inner.facts)
            answers.append(answer)
        values = dict.fromkeys(value for answer in answers for value in answer.values)
        facts = dict.fromkeys([*inner.facts, *(f for answer in answers for f in answer.facts)])
        confidence = min(inner.confidence, *(answer.confidence for answer in answers))
        return dataclasses.replace(
            answers[0], values=tuple(values), facts=tuple(facts), confidence=confidence
        )

    def _yes_or_no(self, question: str, named: Sequence[Named], least: float) -> Answer:
        """Yes where a fact between two named entities fits the question; else a refusal.

        A graph does not say what is not so.
        """
        if len(named) < 2:
            return self._is_a(question, named[0])
        readings = []
        for one, other in ((a, b) for a in named for b in named if a is not b):
            kind = self.matcher.type_of(other.entity)
            masked = _with_name(question, other, f"the {kind}" if kind else "something")
            shift = len(masked) - len(question) if other.start < one.start else 0
            moved = Named(one.entity, one.start + shift, one.end + shift)
            reading = self.reading(masked, moved, towards=other.entity)
            if reading is not None and self._has_direction(question, reading, one, other):
                readings.append((reading, other))
        if not readings:
            names = " and ".join(self.graph.label(each.entity) for each in named[:2])
            reason = f"it has no fact that says so of {names}; that does not mean no"
            return Answer(question, refusal=f"not in the graph: {reason}")
        reading, other = max(readings, key=lambda pair: pair[0].confidence)
        answer = self._answer(question, reading, [other], least)
        return dataclasses.replace(answer, values=("yes",)) if answer else answer

    def _is_a(self, question: str, named: Named) -> Answer:
        """Whether the one entity of a question has the type that it names."""
        about = self.graph.label(named.entity)
        match = CLASS.match(question[named.end :])
        types = self.graph.type_labels(named.entity)
        same = [each for each in types if match and _singular(match[1]) == _singular(each)]
        if same:
            facts = ((distinct_name(self.graph, named.entity), "instance of", same[0]),)
            return Answer(question, ("yes",), entity=about, facts=facts, confidence=1.0)
        reason = f"a question for yes or no needs two names of the graph; it has one, {about}"
        if match:
            kinds = ", ".join(types) or "without a type"
            reason = f"not in the graph: in it {about} is {kinds}; that does not mean no"
        return Answer(question, refusal=reason, entity=about)

    def _has_direction(self, question: str, reading: Reading, one: Named, other: Named) -> bool:
        """Whether the fact runs as a question for yes or no says, or can run in one way only.

        "Is Ada the mother of Bo?" wants a fact of Bo. Between two entities of one type any other
        question is clear only where the relation holds in both directions, or its verb is used.
        """
        choice = reading.choice
        if reading.match.is_symmetric(choice):
            return True
        head = other if choice.is_inverse else one
        label = self.graph.relation_label(choice.relation).lower()
        first, second = sorted((one, other), key=lambda each: each.start)
        if OF.match(question[first.end : second.start]):
            return (head is first) == label.endswith(" of")
        if self.matcher.type_of(one.entity) != self.matcher.type_of(other.entity):
            return True
        last = label.split()[-1]
        is_active = last == "by" and not re.search(r"\bby\b", question)  # "painted by", "paint"
        has_verb = last in PREPOSITIONS_OF_VERBS and self.matcher.shares_words(question, choice)
        return has_verb and (head is first) != is_active

    def best_reading(self, question: str) -> Reading | None:
        """Return what `question` most likely asks for; None where nothing of the graph is named."""
        text = as_question(question.strip())
        return self._best(text, self._named(text))

    def facts_about(self, question: str, most: int) -> list[str]:
        """Return facts of the linked entities in words, at most `most`, most like the question."""
        entities = [each.entity for each in self._named(question.strip())]
        all_facts = [fact for e in entities for fact in facts_of(self.graph, [e])]
        facts = [f"{h}, {r}: {t}." for h, r, t in dict.fromkeys(all_facts)][:MOST_COMPARED]
        if not facts:
            return []
        vectors = self.matcher.encoder.encode([question, *facts])
        order = np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")
        return [facts[i] for i in order[:most].tolist()]

    # ---- which entities ----------------------------------------------------
    def _named(self, question: str) -> list[Named]:
        """The linked entities, each once, without common words such as "language" or "play".

        These name an entity only where nothing else in the question does.
        """
        (linked,) = self.linker.link([question])
        named = self._linked(linked)
        proper = [each for each in named if not self._is_common(question[each.start : each.end])]
        return proper or named

    def _linked(self, linked: LinkedText) -> list[Named]:
        named: dict[int, Named] = {}
        for link in linked.links:
            index = None if link.entity is None else self.graph.entities.find(link.entity)
            if index is not None:
                named.setdefault(index, Named(index, link.start, link.end))
        return list(named.values())

    def _is_common(self, surface: str) -> bool:
        """Whether all words are in lower case and are those of common questions or of types."""
        words = re.findall(r"\w+", surface)
        return surface == surface.lower() and all(word in self._common_words for word in words)

    def _no_entity(self, question: str) -> str:
        """Why nothing is answered, with the names that may have been meant."""
        reason = "no entity of the graph is named in the question"
        if names := self._near_names.of(question, self._common_words):
            reason += f"; did you mean {' or '.join(names)}?"
        if question != question.lower():
            return reason
        remedy = "write its name as the graph does, or use --case insensitive"
        return f"{reason} {remedy.capitalize()}" if names else f"{reason}; {remedy}"

    @cached_property
    def _near_names(self) -> NearNames:
        from kept.decoders.answering.near_names import NearNames  # here: most questions need none

        return NearNames(self.graph)

    @cached_property
    def _common_words(self) -> frozenset[str]:
        return self.matcher.common.words | self.matcher.words_of_types

    # ---- readings ----------------------------------------------------------
    def _best(self, question: str, named: Sequence[Named]) -> Reading | None:
        readings = [self.reading(question, each) for each in named]
        readable = [each for each in readings if each is not None]
        return max(
            readable,
            key=lambda each: each.confidence * each.match.shares[each.choice],
            default=None,
        )

    def reading(self, question: str, named: Named, *, towards: int | None = None) -> Reading | None:
        """Return the likeliest relation that an entity has; with `towards` one with that value."""
        entity = named.entity
        match = self.matcher.match(question, question[named.start : named.end], entity)
        if match is None:
            return None
        choices_of = tuple(
            choice for choice in match.shares
            if (ends := [end for _, end in self._facts(entity, choice, match)])
            and (towards is None or towards in ends)
        )  # fmt: skip
        if not choices_of:
            return None
        return Reading(
            entity, max(choices_of, key=lambda each: match.shares[each]), choices_of, match
        )

    def _facts(
        self, entity: int, choice: RelationChoice, match: Match
    ) -> list[tuple[list[int], int]]:
        """The rows of a relation of an entity, each with its other end."""
        facts = list[tuple[list[int], int]]()
        both = match.is_symmetric(choice)
        for rows, column in ((self.graph.outgoing(entity), 2), (self.graph.incoming(entity), 0)):
            if both or choice.is_inverse == (column == 0):
                facts += [(row, row[column]) for row in rows.tolist() if row[1] == choice.relation]
        return facts

    def _answer(
        self, question: str, reading: Reading, named: Sequence[Named], least: float
    ) -> Answer:
        graph, choice = self.graph, reading.choice
        label = graph.relation_label(choice.relation)
        ranked = sorted(reading.match.shares.items(), key=lambda pair: -pair[1])
        others = tuple(
            (graph.relation_label(each.relation), round(share, 4))
            for each, share in ranked[:4]
            if each != choice
        )
        about = Answer(
            question, entity=graph.label(reading.entity), relation=label,
            confidence=reading.confidence, others=others,
        )  # fmt: skip
        if reading.confidence < least:
            refusal = (
                f"not in the graph: it has no {self._missing(reading)} of "
                f"{graph.label(reading.entity)} "
                f"(confidence that the graph contains the answer: {reading.confidence:.2f})"
            )
            return dataclasses.replace(about, refusal=refusal)
        chosen, reason = self._chosen_facts(question, reading, named)
        if reason:
            return dataclasses.replace(about, refusal=reason)
        rows, ends = self._of_wanted_type(question, chosen)
        values = tuple(graph.label(end) for end in dict.fromkeys(ends))
        if form_of(question) == "count" and not self.matcher.has_numbers(choice):
            values = (str(len(values)),)
        facts = tuple(
            (distinct_name(graph, h), graph.relation_label(r), distinct_name(graph, t))
            for h, r, t in rows
        )
        return dataclasses.replace(about, values=values, facts=facts)

    def _missing(self, reading: Reading) -> str:
        """What the graph lacks for a question that is refused."""
        match = reading.match
        common, score = match.common.most_likely_missing()
        if score > max(map(match.score, match.shares)):
            return common
        return self.graph.relation_label(max(match.shares, key=match.shares.__getitem__).relation)

    def _chosen_facts(
        self, question: str, reading: Reading, named: Sequence[Named]
    ) -> tuple[list[tuple[list[int], int]], str]:
        """The facts of the answer, or why there is none.

        Of several values those of the type that the question names, and those that have a fact with
        the other entities of the question.
        """
        facts = self._facts(reading.entity, reading.choice, reading.match)
        nouns = {_singular(noun) for noun in listed(question)}
        of_type = [fact for fact in facts if nouns & self._types(fact[1])]
        facts = of_type or facts
        for other in named:
            if other.entity == reading.entity:
                continue
            near = self._neighbours(other.entity)
            joined = [fact for fact in facts if fact[1] in near or fact[1] == other.entity]
            if not joined and reading.entity not in near:
                names = f"{self.graph.label(reading.entity)} and {self.graph.label(other.entity)}"
                return [], f"not in the graph: no fact of {names} answers it together"
            facts = joined or facts
        if ranks(question) and len(facts) > 1:
            return [], f"the question asks for one of {len(facts)} by rank: {USE_SPARQL}"
        return facts, ""

    def _of_wanted_type(
        self, question: str, facts: Sequence[tuple[list[int], int]]
    ) -> tuple[list[list[int]], list[int]]:
        """The rows and values of facts; of a value of another type what it has of the wanted one.

        "In which country was Ada born?" wants the country of the town where she was born.
        """
        rows, ends = [row for row, _ in facts], [end for _, end in facts]
        nouns = {_singular(noun) for noun in listed(question)}
        further = list[list[int]]()
        for end in ends:
            if nouns & self._types(end):
                return rows, ends
            for row in self.graph.outgoing(end).tolist():
                is_named = nouns & {_singular(self.graph.relation_label(row[1]))}
                if is_named and nouns & self._types(row[2]):
                    further.append(row)
        return (rows + further, [row[2] for row in further]) if further else (rows, ends)

    def _types(self, entity: int) -> set[str]:
        """The last words of its types, in the singular: of "art museum" "museum"."""
        types = self.graph.type_labels(entity)
        return {_singular(word) for each in types for word in (each, *each.split()[-1:])}

    def _neighbours(self, entity: int) -> set[int]:
        graph = self.graph
        return {*graph.outgoing(entity)[:, 2].tolist(), *graph.incoming(entity)[:, 0].tolist()}


def _singular(noun: str) -> str:
    """A noun without the ending of its plural, to compare two of them."""
    noun = noun.lower()
    return re.sub(r"(?:ies|y)$", "i", noun) if noun.endswith(("ies", "y")) else noun.rstrip("s")
