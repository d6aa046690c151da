"""rdflib graphs to knowledge graphs and back.

rdflib is imported when it is first needed: that takes a third of a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kg_loaders import KnowledgeGraph, Texts, Vocabulary, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.rdf.document_parser import rows_of_graph
from kg_loaders.rdf.records import (
    TEXT_PREDICATES,
    LiteralTerm,
    Statement,
    Types,
    to_records,
)
from kg_loaders.rdf.statement_lines import PREDICATES, iri_of, language_tag
from kg_loaders.rdf.structures import ON_PROPERTY, is_blank
from kg_loaders.records import TextKind

if TYPE_CHECKING:
    import rdflib


def from_rdflib(
    graph: rdflib.Graph,
    report: DamageReport | None = None,
    *,
    prefixes: Mapping[str, str] | None = None,
    texts: Mapping[str, TextKind] = TEXT_PREDICATES,
    types: Types = "triple",
    languages: Sequence[str] | None = None,
    relation_prefixes: Sequence[str] | None = None,
    licence: str = "",
) -> KnowledgeGraph:
    """Build a graph from an rdflib graph; options and rules are `kg_loaders.rdf.reader.read`'s.

    What has no place in it (blank nodes, other literals) is counted in `report.skipped`.
    """
    report = DamageReport() if report is None else report
    report.units = "statements"
    records = to_records(
        _predicates(graph),
        _counted(statements_of(graph), report),
        report,
        prefixes=prefixes,
        texts=texts,
        types=types,
        languages=languages,
        relation_prefixes=relation_prefixes,
    )
    return graph_from_records(records, licence=licence)


def to_rdflib(graph: KnowledgeGraph, *, base: str = "urn:kept:") -> rdflib.Graph:
    """All triples and texts as an rdflib graph.

    An identifier that is not an IRI ("Q90") is percent-encoded after `base`. Labels become
    rdfs:label, aliases skos:altLabel without their counts, descriptions rdfs:comment, types
    rdf:type.
    """
    import rdflib

    result = rdflib.Graph()
    entities = _nodes(graph.entities, base)
    relations = _nodes(graph.relations, base)
    for head, relation, tail in graph.triples.tolist():
        result.add((entities[head], relations[relation], entities[tail]))
    _add_texts(result, graph.entity_texts, entities, base)
    _add_texts(result, graph.relation_texts, relations, base)
    return result


def _nodes(names: Vocabulary, base: str) -> list[rdflib.URIRef]:
    return [_node(name, base) for name in names]


def _node(name: str, base: str) -> rdflib.URIRef:
    import rdflib

    return rdflib.URIRef(iri_of(name, base))


def _add_texts(result: rdflib.Graph, texts: Texts, nodes: list[rdflib.URIRef], base: str) -> None:
    import rdflib

    predicates = {kind: rdflib.URIRef(iri) for kind, iri in PREDICATES.items()}
    for index, node in enumerate(nodes):
        for row in range(int(texts.offsets[index]), int(texts.offsets[index + 1])):
            kind = TextKind(int(texts.kinds[row]))
            value = str(texts.values[row].as_py())
            language = language_tag(texts.language_names[texts.languages[row]])
            if kind is TextKind.TYPE:
                result.add((node, predicates[kind], _node(value, base)))
            else:
                result.add((node, predicates[kind], rdflib.Literal(value, lang=language)))


def statements_of(graph: rdflib.Graph) -> Iterator[Statement]:
    """The statements of an rdflib graph."""
    for head, predicate, tail in rows_of_graph(graph):
        yield Statement(head, predicate, LiteralTerm(*tail) if isinstance(tail, tuple) else tail)


def _predicates(graph: rdflib.Graph) -> Iterator[str]:
    """The predicates, and the properties of OWL restrictions, which become predicates."""
    import rdflib

    yield from map(str, graph.predicates())
    for subject, value in graph.subject_objects(rdflib.URIRef(ON_PROPERTY)):
        is_restriction = isinstance(subject, rdflib.BNode) or is_blank(str(subject))
        if is_restriction and isinstance(value, rdflib.URIRef) and not is_blank(str(value)):
            yield str(value)


def _counted(statements: Iterator[Statement], report: DamageReport) -> Iterator[Statement]:
    for statement in statements:
        report.n_lines += 1
        yield statement
