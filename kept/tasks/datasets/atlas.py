"""Sentences with mentions and the facts they state, in the atlas's form: examples of relations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from entity_linking.annotations import gold_link, read_rows
from entity_linking.annotations.relations import RelationExample
from entity_linking.mentions import LinkedText, Mention
from kept.tasks.datasets.example import TaskExample, from_relation
from kg_loaders import atlas
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_bytes


class _Row(msgspec.Struct):
    """A line: mentions are start, end (exclusive) and entity, facts head, relation and tail."""

    text: str
    mentions: list[tuple[int, int, str]]
    facts: list[tuple[str, str, str]]
    id: str = ""


def linked_texts(sentences: Iterable[atlas.AtlasSentence]) -> list[LinkedText]:
    """Sentences with their gold links."""
    return [_linked(s.text, s.mentions, s.id) for s in sentences]


def atlas_examples(sentences: Iterable[atlas.AtlasSentence]) -> Iterator[RelationExample]:
    """One example for each fact that a sentence states and whose ends it mentions once each."""
    for sentence in sentences:
        linked = _linked(sentence.text, sentence.mentions, sentence.id)
        yield from _examples(linked, sentence.facts)


def read_atlas(path: Path, report: DamageReport) -> Iterator[TaskExample]:
    """A sentence a line; an example for each fact whose ends it mentions once each.

    `{"id": "1", "text": "Paris is in France.", "mentions": [[0, 5, "Q90"], [12, 18, "Q142"]],
    "facts": [["Q90", "P17", "Q142"]]}`
    """
    rows = read_rows(path, report, _Row, _of_row)
    return map(from_relation, chain.from_iterable(rows))


def _of_row(row: _Row) -> list[RelationExample]:
    return list(_examples(_linked(row.text, row.mentions, row.id), row.facts))


def write_atlas(path: Path, examples: Iterable[RelationExample]) -> None:
    """Examples as `read_atlas` reads them, a line each; replaces what is there."""
    lines = []
    for example in examples:
        links = example.linked.links
        mentions = [(k.mention.start, k.mention.end, k.entity) for k in links if k.entity]
        fact = (example.head, example.relation, example.tail)
        row = _Row(example.linked.text, mentions, [fact], example.linked.id)
        lines.append(msgspec.json.encode(row) + b"\n")
    write_bytes(path, b"".join(lines), force=True)


def _linked(text: str, mentions: Iterable[tuple[int, int, str]], id: str) -> LinkedText:
    return LinkedText(text, tuple(gold_link(*mention) for mention in sorted(mentions)), id)


def _examples(linked: LinkedText, facts: Iterable[Sequence[str]]) -> Iterator[RelationExample]:
    mentions: dict[str | None, list[Mention]] = {}
    for link in linked.links:
        mentions.setdefault(link.entity, []).append(link.mention)
    for head, relation, tail in facts:
        ends = (mentions.get(head, []), mentions.get(tail, []))
        if head != tail and all(len(links) == 1 for links in ends):
            yield RelationExample(linked, head, relation, tail, ends[0][0], ends[1][0])
