"""DocRED (Yao et al. 2019, ACL) and Re-DocRED (Tan et al. 2022): relations across a document.

A question is an ordered pair of a document's entities, any number of relations its answer. Of
a pair only the two mentions with the fewest sentences between them are shown (the first such), with
the sentences from the one to the other; pairs more than `WINDOW` sentences apart are not asked. The
facts of a document go with every question of it (`Document.facts`), so that a score counts those of
the pairs that were not asked as missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from entity_linking.annotations import read_array
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText, Mention
from kept.randomness import generator
from kept.tasks.datasets.example import Document, DocumentPair, TaskExample, word_places
from kg_loaders.damage import DamageReport

WINDOW = 1
"""The most sentences between the sentences of two mentions that are asked about, counted as steps:
0 is one sentence, 1 two that follow one another."""
MOST_MENTIONS = 10_000
"""Of a document; its questions grow as their square."""
UNRELATED = 3
"""Pairs without a relation for one that has some, in training."""


class _Mention(msgspec.Struct):
    name: str
    sent_id: int
    pos: tuple[int, int]


class _Fact(msgspec.Struct):
    r: str
    h: int
    t: int


class _Row(msgspec.Struct):
    title: str
    sents: list[list[str]]
    vertexSet: list[list[_Mention]]
    labels: list[_Fact] = []


def read_docred(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """Documents of sentences, entities as lists of mentions, and relations; a JSON array.

    Units are documents; every asked pair but the first is a further record.
    """
    for row, document in read_array(path, report, _Row, _document):
        report.n_texts -= 1
        relations: dict[tuple[int, int], list[str]] = {}
        for head, relation, tail in document.facts:
            relations.setdefault((head, tail), []).append(relation)
        n_pairs = 0
        for head, tail in _pairs(len(row.vertexSet)):
            mention_pair = _nearest(row.vertexSet[head], row.vertexSet[tail])
            if mention_pair is None:
                continue
            text, targets = _excerpt(row.sents, mention_pair)
            n_pairs += 1
            yield TaskExample(
                LinkedText(text, (), f"{row.title}#{head}#{tail}"),
                tuple(relations.get((head, tail), ())),
                targets,
                document_pair=DocumentPair(document, head, tail),
            )
        report.n_texts += n_pairs
        report.n_further += max(n_pairs - 1, 0)
        if not n_pairs:
            report.skip("a document in which no two entities are near each other")


def thinned(examples: Sequence[TaskExample], seed: int) -> list[TaskExample]:
    """Every pair with a relation, and `UNRELATED` times as many without one, in their order."""
    negative = [i for i, example in enumerate(examples) if not example.labels]
    n_bare = UNRELATED * (len(examples) - len(negative))
    order = generator(seed, "pairs without a relation").permutation(len(negative))[:n_bare]
    removed = {negative[i] for i in range(len(negative))} - {negative[i] for i in order.tolist()}
    return [example for i, example in enumerate(examples) if i not in removed]


def _document(row: _Row) -> tuple[_Row, Document]:
    if (n_mentions := sum(map(len, row.vertexSet))) > MOST_MENTIONS:
        raise LinkingError(f"{n_mentions} mentions, whose pairs are too many; cut the document")
    for number, mentions in enumerate(row.vertexSet):
        if not mentions:
            raise LinkingError(f"entity {number} has no mention")
        for mention in mentions:
            _check(row, number, mention)
    facts = dict.fromkeys((fact.h, fact.r, fact.t) for fact in row.labels)
    for head, relation, tail in facts:
        if not (0 <= head < len(row.vertexSet) and 0 <= tail < len(row.vertexSet)):
            raise LinkingError(f"{relation} joins entities {head} and {tail}, which are not both")
    names = tuple(tuple(dict.fromkeys(m.name for m in mentions)) for mentions in row.vertexSet)
    return row, Document(row.title, names, tuple(facts))


def _check(row: _Row, number: int, mention: _Mention) -> None:
    if not 0 <= mention.sent_id < len(row.sents):
        raise LinkingError(f"entity {number} is in sentence {mention.sent_id} of {len(row.sents)}")
    sentence, (first, end) = row.sents[mention.sent_id], mention.pos
    if not (0 <= first < end <= len(sentence) and any(sentence[first:end])):
        raise LinkingError(
            f"entity {number} is at words {first} to {end} of a sentence of {len(sentence)}"
        )


def _pairs(n: int) -> Iterator[tuple[int, int]]:
    return ((head, tail) for head in range(n) for tail in range(n) if head != tail)


def _nearest(
    heads: Sequence[_Mention], tails: Sequence[_Mention]
) -> tuple[_Mention, _Mention] | None:
    """The two mentions with the fewest sentences between, the earliest of such; None: too far."""
    distance, *_, mention_pair = min(
        (
            (
                abs(head.sent_id - tail.sent_id),
                head.sent_id,
                head.pos,
                tail.sent_id,
                tail.pos,
                (head, tail),
            )
            for head in heads
            for tail in tails
        ),
        key=lambda candidate: candidate[:-1],
    )
    return mention_pair if distance <= WINDOW else None


def _excerpt(
    sentences: Sequence[list[str]], mention_pair: tuple[_Mention, _Mention]
) -> tuple[str, tuple[Mention, ...]]:
    numbers = [mention.sent_id for mention in mention_pair]
    words: list[str] = []
    first_words = {}
    for number in range(min(numbers), max(numbers) + 1):
        first_words[number] = len(words)
        words += sentences[number]
    spans = word_places(words)
    targets = []
    for mention in mention_pair:
        first, end = (first_words[mention.sent_id] + offset for offset in mention.pos)
        targets.append(Mention(spans[first][0], spans[end - 1][1]))
    return " ".join(words), tuple(targets)
