"""Sentences with two linked mentions and the relation between them: T-REx, FewRel, Wiki80.

The readers are lazy and count through a `DamageReport`, as in `entity_linking.annotations`: every
unit ends as a text, a duplicate, a blank, skipped or rejected. With `distinct`, an example whose
text, head, relation and tail were yielded before is a duplicate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from entity_linking.annotations import (
    decode_row,
    decode_whole,
    gold_link,
    read_rows,
    whole_file,
)
from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText, Mention
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.lines import JSON_FAULTS, read_lines

MASK = "[MASK]"


@dataclass(frozen=True, slots=True)
class RelationExample:
    """A fact and a sentence that states it; `linked` holds the links of head and tail.

    Identifiers are "" where the source has none; the link is then NIL.
    """

    linked: LinkedText
    head: str
    relation: str
    tail: str
    head_mention: Mention
    tail_mention: Mention


class _Evidence(msgspec.Struct):
    sub_surface: str
    obj_surface: str
    masked_sentence: str


class _Fact(msgspec.Struct):
    uuid: str
    sub_uri: str
    obj_uri: str
    predicate_id: str
    evidences: list[_Evidence]


class _FewRelRow(msgspec.Struct):
    tokens: list[str]
    h: tuple[str, str, list[list[int]]]
    t: tuple[str, str, list[list[int]]]


class _Argument(msgspec.Struct):
    pos: tuple[int, int]
    id: str = ""


class _Wiki80Row(msgspec.Struct):
    token: list[str]
    h: _Argument
    t: _Argument
    relation: str


def read_trex(
    path: str | Path, report: DamageReport, *, distinct: bool = False
) -> Iterator[RelationExample]:
    """Evidence sentences of LAMA's T-REx part (Petroni et al. 2019), of a file or a folder of them.

    The tail stands where `[MASK]` was, written as `obj_surface`. The head is the first occurrence
    of `sub_surface` that stands on word boundaries and clear of the tail; failing that, the first
    one clear of the tail. An evidence without one is counted in `report.skipped` with its reason.
    Units are evidences; a line that is not a fact counts as one.
    """
    report.units = "evidences"
    seen: set[tuple[str, str, str, str]] | None = set() if distinct else None
    for file in _files(Path(path)):
        yield from _read_trex_file(file, report, seen)


def read_fewrel(
    path: str | Path, report: DamageReport, *, distinct: bool = False
) -> Iterator[RelationExample]:
    """FewRel (Han et al. 2018; 2.0, Gao et al. 2019): relation to rows of tokens, h and t.

    The text is the tokens with one blank between them; of several places of an argument the first
    counts. Units are rows, relation by relation.
    """
    report.units = "rows"
    data, end, number = whole_file(path, report.budget), 0, 0
    decoder = msgspec.json.Decoder(_FewRelRow)
    seen: set[tuple[str, str, str, str]] | None = set() if distinct else None
    by_relation = decode_whole(path, data, dict[str, list[msgspec.Raw]], report.budget)
    _require_once(path, json.loads(data, object_pairs_hook=_names, parse_int=str))
    for relation, rows in by_relation.items():
        for row in rows:
            raw, number = bytes(row), number + 1
            offset = data.index(raw, end)
            end = offset + len(raw)
            report.n_lines += 1
            try:
                example = _from_fewrel(decode_row(raw, decoder), relation)
            except (*JSON_FAULTS, LinkingError) as error:
                report.reject(str(path), number, offset, str(error), raw)
                continue
            if not _is_repeat(example, seen, report):
                report.n_texts += 1
                yield example


def _names(pairs: list[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in pairs]


def _require_once(path: str | Path, relations: Sequence[str]) -> None:
    """Raise `SourceError` for a relation of which all rows but the last ones would be lost."""
    seen: set[str] = set()
    for name in relations:
        if name in seen:
            raise SourceError(f"{path}: the key {name!r} occurs twice; put its rows under one")
        seen.add(name)


def read_wiki80(
    path: str | Path, report: DamageReport, *, distinct: bool = False
) -> Iterator[RelationExample]:
    """Wiki80 rows (and SemEval-2010 Task 8 in the same form), one object per line.

    The text is the tokens with one blank between them. `relation` is the name in the file.
    """
    seen: set[tuple[str, str, str, str]] | None = set() if distinct else None
    for example in read_rows(path, report, _Wiki80Row, _from_wiki80):
        if _is_repeat(example, seen, report):
            report.n_texts -= 1
        else:
            yield example


def with_all_links(examples: Iterable[RelationExample]) -> list[LinkedText]:
    """Return each sentence once, in order, with the links of all its examples.

    Of links that overlap the first by place stays, of two at one place the one that came first.
    """
    by_text: dict[str, dict[Mention, Link]] = {}
    for example in examples:
        by_mention = by_text.setdefault(example.linked.text, {})
        for link in example.linked.links:
            by_mention.setdefault(link.mention, link)
    texts = []
    for text, by_mention in by_text.items():
        links: list[Link] = []
        for mention in sorted(by_mention):
            if not links or mention.start >= links[-1].mention.end:
                links.append(by_mention[mention])
        texts.append(LinkedText(text, tuple(links)))
    return texts


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if ".jsonl" in file.suffixes)
    if not files:
        raise SourceError(f"{path} holds no .jsonl file")
    return files


def _is_repeat(
    example: RelationExample, seen: set[tuple[str, str, str, str]] | None, report: DamageReport
) -> bool:
    if seen is None:
        return False
    key = (example.linked.text, example.head, example.relation, example.tail)
    if key in seen:
        report.n_duplicates += 1
        return True
    seen.add(key)
    return False


# ---- T-REx -----------------------------------------------------------------
class _NoPlaceError(LinkingError):
    """The head of an evidence has no place in its sentence."""


def _read_trex_file(
    file: Path, report: DamageReport, seen: set[tuple[str, str, str, str]] | None
) -> Iterator[RelationExample]:
    decoder = msgspec.json.Decoder(_Fact)
    for line, offset, raw in read_lines(file, report):
        if not raw.strip():
            report.n_blank += 1
            continue
        try:
            fact = decode_row(raw, decoder)
        except (*JSON_FAULTS, LinkingError) as error:
            report.reject(str(file), line, offset, str(error), raw)
            continue
        report.n_lines += len(fact.evidences) - 1
        for number, evidence in enumerate(fact.evidences):
            try:
                example = _from_evidence(fact, evidence, number)
            except _NoPlaceError as error:
                report.skip(str(error))
                continue
            except LinkingError as error:
                part = json.loads(raw) | {"evidences": [msgspec.to_builtins(evidence)]}
                report.reject(str(file), line, offset, str(error), msgspec.json.encode(part))
                continue
            if not _is_repeat(example, seen, report):
                report.n_texts += 1
                yield example


def _from_evidence(fact: _Fact, evidence: _Evidence, number: int) -> RelationExample:
    before, mask, after = evidence.masked_sentence.partition(MASK)
    if not mask or MASK in after:
        raise LinkingError("not exactly one [MASK]")
    if not evidence.obj_surface or not evidence.sub_surface:
        raise LinkingError("an empty surface")
    tail = Mention(len(before), len(before) + len(evidence.obj_surface))
    text = before + evidence.obj_surface + after
    head = _locate(text, evidence.sub_surface, tail)
    return _example(
        text, (fact.sub_uri, head), fact.predicate_id, (fact.obj_uri, tail), f"{fact.uuid}#{number}"
    )


def _locate(text: str, surface: str, tail: Mention) -> Mention:
    within_word: Mention | None = None
    start = text.find(surface)
    if start < 0:
        raise _NoPlaceError("the subject surface is not in the sentence")
    while start >= 0:
        end = start + len(surface)
        if end <= tail.start or start >= tail.end:
            if _is_bounded(text, start, end):
                return Mention(start, end)
            within_word = within_word or Mention(start, end)
        start = text.find(surface, start + 1)
    if within_word is None:
        raise _NoPlaceError("the subject surface overlaps the object")
    return within_word


def _is_bounded(text: str, start: int, end: int) -> bool:
    opens = start == 0 or not (text[start - 1].isalnum() and text[start].isalnum())
    return opens and (end == len(text) or not (text[end - 1].isalnum() and text[end].isalnum()))


# ---- token rows ------------------------------------------------------------
def _from_fewrel(row: _FewRelRow, relation: str) -> RelationExample:
    (_, head, head_places), (_, tail, tail_places) = row.h, row.t
    if not (head_places and head_places[0] and tail_places and tail_places[0]):
        raise LinkingError("an argument without a place")
    spans = [(places[0][0], places[0][-1] + 1) for places in (head_places, tail_places)]
    return _from_tokens(row.tokens, (head, spans[0]), relation, (tail, spans[1]))


def _from_wiki80(row: _Wiki80Row) -> RelationExample:
    return _from_tokens(row.token, (row.h.id, row.h.pos), row.relation, (row.t.id, row.t.pos))


def _from_tokens(
    tokens: list[str],
    head: tuple[str, tuple[int, int]],
    relation: str,
    tail: tuple[str, tuple[int, int]],
) -> RelationExample:
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token) + 1)
    mentions = []
    for _, (first, last) in (head, tail):
        if not 0 <= first < last <= len(tokens):
            raise LinkingError(f"tokens {first} to {last} are not among the {len(tokens)}")
        mentions.append(Mention(starts[first], starts[last] - 1))
    return _example(" ".join(tokens), (head[0], mentions[0]), relation, (tail[0], mentions[1]))


def _example(
    text: str, head: tuple[str, Mention], relation: str, tail: tuple[str, Mention], id: str = ""
) -> RelationExample:
    links = [_link(*head), _link(*tail)]
    if head[1] > tail[1]:
        links.reverse()
    return RelationExample(
        LinkedText(text, tuple(links), id), head[0], relation, tail[0], head[1], tail[1]
    )


def _link(entity: str, mention: Mention) -> Link:
    return gold_link(mention.start, mention.end, entity or None)
