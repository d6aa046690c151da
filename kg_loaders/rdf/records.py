"""RDF statements to records.

    IRI - predicate - IRI       a triple (rdf:type: see `types`)
    IRI - text predicate - "…"  a text; the predicates are in `TEXT_PREDICATES`
    IRI - predicate - "…"       skipped and counted by predicate: a graph holds no other literals
    anything with a blank node, a quoted triple or a formula    skipped and counted

What several statements say together (labels of SKOS-XL, restrictions of OWL, marks of deprecated
terms, properties of Wikidata) is rewritten to one statement first: `kg_loaders.rdf.structures`. The
name of the graph in a quad is dropped, so one triple in two named graphs is a duplicate.

An IRI that is a predicate anywhere is a relation, and texts about it are texts of the relation;
they are texts of an entity too if it is also the head or tail of a triple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from kg_loaders.damage import DamageReport
from kg_loaders.rdf.names import RDFS, SKOS, TEXT_PREDICATES
from kg_loaders.rdf.structures import (
    MARKS,
    OF_PROPERTIES,
    RDF_TYPE,
    LiteralTerm,
    Statement,
    Structures,
    is_wikibase_property,
)
from kg_loaders.reading.languages import MALFORMED, language_tag
from kg_loaders.records import Record, Text, TextKind, Triple

__all__ = (
    "RDFS", "RDF_TYPE", "SKOS", "TEXT_PREDICATES", "LiteralTerm", "Shortener", "Statement", "Types",
    "language_fits", "to_records",
)  # fmt: skip

Types = Literal["triple", "text", "both"]


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
    shortener, structures = (
        Shortener(prefixes or {}),
        Structures(report, keeps_types=types == "both"),
    )
    starts, kinds = tuple(relation_prefixes or ()), {**texts, **MARKS}
    known = dict.fromkeys(predicates)
    relations = {shortener(predicate) for predicate in known}
    has_claims = not known.keys().isdisjoint(OF_PROPERTIES)
    waiting: list[tuple[str, Text]] = []
    also_entities: set[str] = set()
    for subject, predicate, value in structures.rewritten(statements):
        assert subject is not None
        head = shortener(subject)
        if isinstance(value, LiteralTerm):
            kind = kinds.get(predicate)
            reason = _no_text(kind, predicate, value, languages)
            if kind is None or reason:
                report.skip(reason)
                continue
            text = Text(head, kind, value.value, language_tag(value.language) or "")
            is_about = head in relations or (starts and subject.startswith(starts))
            if is_about or has_claims or is_wikibase_property(subject):
                waiting.append((subject, text))
            else:
                yield text
            continue
        assert value is not None
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
    for subject, text in waiting:
        if related := structures.relations_of(subject, known):
            report.n_further += len(related) - 1
            for relation in related:
                yield text._replace(node=shortener(relation), is_relation=True)
            continue
        if text.node not in relations and not (starts and subject.startswith(starts)):
            yield text
            continue
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
    """Why a literal is not text of the graph, or ""."""
    if kind is None:
        return f"literal of {predicate}"
    if not value.value:
        return "empty text"
    if language_tag(value.language) is None:
        return MALFORMED
    return "" if language_fits(value.language, languages) else "text in another language"


def language_fits(language: str, languages: Sequence[str] | None) -> bool:
    """Whether a tag is one of `languages`, or of a region of one; no tag fits always.

    >>> language_fits("en-gb", ["EN"]), language_fits("eng", ["en"]), language_fits("", ["en"])
    (True, False, True)
    """
    if languages is None or not language:
        return True
    tag = language_tag(language) or language.lower()
    wanted = [language_tag(name) or name.lower() for name in languages]
    return any(tag == name or tag.startswith(f"{name}-") for name in wanted)
