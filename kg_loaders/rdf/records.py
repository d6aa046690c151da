"""RDF statements to records.

    IRI - predicate - IRI       a triple (rdf:type: see `types`)
    IRI - text predicate - "…"  a text; the predicates are in `TEXT_PREDICATES`
    IRI - predicate - "…"       skipped and counted by predicate: a graph holds no other literals
    anything with a blank node, a quoted triple or a formula    skipped and counted

The name of the graph in a quad is dropped, so one triple in two named graphs is a duplicate.

An IRI that is a predicate anywhere is a relation, and texts about it are texts of the relation;
they are texts of an entity too if it is also the head or tail of a triple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from kg_loaders.damage import DamageReport
from kg_loaders.records import Record, Text, TextKind, Triple

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"

TEXT_PREDICATES: Mapping[str, TextKind] = {
    f"{RDFS}label": TextKind.LABEL,
    f"{SKOS}prefLabel": TextKind.LABEL,
    "http://schema.org/name": TextKind.LABEL,
    "https://schema.org/name": TextKind.LABEL,
    f"{SKOS}altLabel": TextKind.ALIAS,
    f"{RDFS}comment": TextKind.DESCRIPTION,
    "http://schema.org/description": TextKind.DESCRIPTION,
    "https://schema.org/description": TextKind.DESCRIPTION,
}

Types = Literal["triple", "text", "both"]


class LiteralTerm(NamedTuple):
    """A literal's text and language tag; its datatype plays no part."""

    value: str
    language: str


class Statement(NamedTuple):
    """An RDF statement: an IRI is a string, None is what no graph here can hold."""

    subject: str | None
    predicate: str
    object: str | LiteralTerm | None


def to_records(
    predicates: Iterable[str],
    statements: Iterable[Statement],
    report: DamageReport,
    *,
    prefixes: Mapping[str, str] | None = None,
    texts: Mapping[str, TextKind] = TEXT_PREDICATES,
    types: Types = "triple",
    languages: Sequence[str] | None = None,
    relation_prefixes: Sequence[str] | None = None,
) -> Iterator[Record]:
    """Turn statements, each counted already, into records; `predicates` are all of the file's."""
    shortener = Shortener(prefixes or {})
    starts = tuple(relation_prefixes or ())
    relations = {shortener(predicate) for predicate in dict.fromkeys(predicates)}
    about_relations: list[Text] = []
    also_entities: set[str] = set()
    for subject, predicate, value in statements:
        if subject is None or value is None:
            report.skip("blank node, quoted triple or formula")
            continue
        head = shortener(subject)
        if isinstance(value, LiteralTerm):
            kind = texts.get(predicate)
            reason = _no_text(kind, predicate, value, languages)
            if kind is None or reason:
                report.skip(reason)
                continue
            text = Text(head, kind, value.value, value.language)
            if head in relations or (starts and subject.startswith(starts)):
                about_relations.append(text)
            else:
                yield text
            continue
        tail = shortener(value)
        if predicate == RDF_TYPE and types != "triple":
            yield Text(head, TextKind.TYPE, tail)
            if types == "text":
                continue
            report.n_further += 1
        yield Triple(head, shortener(predicate), tail)
        if head in relations:
            also_entities.add(head)
        if tail in relations:
            also_entities.add(tail)
    for text in about_relations:
        yield text._replace(is_relation=True)
        if text.node in also_entities:
            report.n_further += 1
            yield text


class Shortener:
    """Puts `prefixes` in the place of the starts of IRIs, the longest first."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._prefixes = sorted(prefixes.items(), key=lambda item: (-len(item[0]), item[0]))

    def __call__(self, iri: str) -> str:
        for start, short in self._prefixes:
            if iri.startswith(start):
                return short + iri[len(start) :] or iri
        return iri


def _no_text(
    kind: TextKind | None, predicate: str, value: LiteralTerm, languages: Sequence[str] | None
) -> str:
    """Why a literal is no text of the graph, or ""."""
    if kind is None:
        return f"literal of {predicate}"
    if not value.value:
        return "empty text"
    return "" if language_fits(value.language, languages) else "text in another language"


def language_fits(language: str, languages: Sequence[str] | None) -> bool:
    """Whether a tag is one of `languages`, or of a region of one; no tag fits always.

    >>> language_fits("en-gb", ["EN"]), language_fits("eng", ["en"]), language_fits("", ["en"])
    (True, False, True)
    """
    if languages is None or not language:
        return True
    tag = language.lower()
    return any(tag == name.lower() or tag.startswith(f"{name.lower()}-") for name in languages)
