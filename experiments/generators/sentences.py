"""Sentences of T-REx with the facts of what they are about, and what a control makes of these.

A sentence's topic is the head of the fact that it states; its facts are all facts of that head.
Topics of the evaluation split are in no training sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from entity_linking.annotations.relations import read_trex
from kept.randomness import generator
from kg_loaders.damage import DamageReport

TRUE, SHUFFLED, NONE = "true", "shuffled", "none"
CONDITIONS = (TRUE, SHUFFLED, NONE)
WORD = re.compile(r"\w+|[^\w\s]")
MAX_WORDS, MAX_FACTS = 40, 8

Words = tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """A fact as a topic has it: its relation, its tail, and the words of the tail's name."""

    relation: str
    tail: str
    words: Words


@dataclass(frozen=True)
class Sentence:
    """Words, the topic and the words of its name, and the topic's facts."""

    words: Words
    topic: str
    name: Words
    facts: tuple[Statement, ...]

    def places(self, name: Words) -> Iterator[tuple[int, int]]:
        """Where the words of a name stand, each from its start to behind its end."""
        n = len(name)
        for start in range(len(self.words) - n + 1):
            if self.words[start : start + n] == name:
                yield start, start + n


def split_words(text: str) -> Words:
    """Words and signs.

    >>> split_words("Rome, a city.")
    ('Rome', ',', 'a', 'city', '.')
    """
    return tuple(WORD.findall(text))


def read_sentences(folder: Path, relations: Sequence[str], per_relation: int) -> list[Sentence]:
    """The first `per_relation` short sentences of each relation, with the facts of their topics."""
    facts: dict[str, dict[tuple[str, str], Statement]] = {}
    sentences: list[Sentence] = []
    for relation in relations:
        n_taken = 0
        for each in read_trex(folder / f"{relation}.jsonl.gz", DamageReport(), distinct=True):
            text, words = each.linked.text, split_words(each.linked.text)
            if len(words) > MAX_WORDS:
                continue
            names = [
                split_words(text[m.start : m.end]) for m in (each.head_mention, each.tail_mention)
            ]
            of_head = facts.setdefault(each.head, {})
            of_head.setdefault((relation, each.tail), Statement(relation, each.tail, names[1]))
            sentences.append(Sentence(words, each.head, names[0], ()))
            n_taken += 1
            if n_taken == per_relation:
                break
    return [replace(s, facts=tuple(facts[s.topic].values())[:MAX_FACTS]) for s in sentences]


@dataclass(frozen=True)
class Split:
    """Sentences to learn from and to be tested on, without a topic in common."""

    train: list[Sentence]
    test: list[Sentence]


def split(sentences: Sequence[Sentence], share: float, seed: int) -> Split:
    """A share of the topics, drawn, is tested."""
    topics = sorted({s.topic for s in sentences})
    order = generator(seed, "generators split").permutation(len(topics))
    tested = {topics[i] for i in order[: round(share * len(topics))].tolist()}
    return Split(
        [s for s in sentences if s.topic not in tested], [s for s in sentences if s.topic in tested]
    )


def under(sentences: Sequence[Sentence], condition: str, seed: int) -> list[Sentence]:
    """The sentences with their facts, with tails of other topics' facts, or with no fact.

    Shuffled tails are those of the same relation, dealt anew among the topics.
    """
    if condition == TRUE:
        return list(sentences)
    if condition == NONE:
        return [replace(s, facts=()) for s in sentences]
    of_topic = {s.topic: s.facts for s in sentences}
    dealt = {topic: list(facts) for topic, facts in of_topic.items()}
    for relation in sorted({f.relation for facts in of_topic.values() for f in facts}):
        places = [(t, i) for t, facts in of_topic.items() for i, f in enumerate(facts)
                  if f.relation == relation]  # fmt: skip
        order = generator(seed, "generators shuffle", relation).permutation(len(places))
        for (topic, i), j in zip(places, order.tolist(), strict=True):
            other, k = places[j]
            dealt[topic][i] = of_topic[other][k]
    return [replace(s, facts=tuple(dealt[s.topic])) for s in sentences]
