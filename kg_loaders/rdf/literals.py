"""What a graph does not hold of RDF: its numbers, dates and other literals that are not texts.

urn:Q90 - urn:P1082 - "2165423"^^xsd:integer   ->  Q90, P1082, 2165423
urn:Q90 - rdfs:label - "Paris"@en              a text of the graph, left out here
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.rdf.names import text_predicates
from kg_loaders.rdf.reader import Contexts, Names, read_statements
from kg_loaders.rdf.records import (
    TEXT_PREDICATES,
    LiteralTerm,
    Shortener,
    language_fits,
)
from kg_loaders.rdf.structures import MARKS, is_blank
from kg_loaders.reading.lines import MAX_LINE_BYTES
from kg_loaders.records import TextKind, Triple


def read_literals(
    path: str | Path,
    report: DamageReport,
    *,
    format: str | None = None,
    prefixes: Mapping[str, str] | None = None,
    texts: Mapping[str, TextKind] = TEXT_PREDICATES,
    names: Names = (),
    languages: Sequence[str] | None = None,
    base_iri: str | None = None,
    contexts: Contexts = (),
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Triple]:
    """The literals of an RDF file that `kg_loaders.rdf.reader.read` counts and passes over.

    Each as (subject, predicate, value), in the file's order; the options are those of `read`, and
    so are the errors. Statements between resources, texts of the graph, empty values and those in
    another language are left out; subjects without a name are counted in `report.skipped`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     source = Path(folder) / "paris.nt"
    ...     _ = source.write_text('<urn:Q90> <urn:P1082> "2165423" .')
    ...     list(read_literals(source, DamageReport(), prefixes={"urn:": ""}))
    [Triple(head='Q90', relation='P1082', tail='2165423')]
    """
    shortener = Shortener(prefixes or {})
    statements = read_statements(
        path, report, format=format, base_iri=base_iri, contexts=contexts,
        max_line_bytes=max_line_bytes,
    )  # fmt: skip
    predicates = {**text_predicates(names, texts), **MARKS}
    for subject, predicate, value in statements:
        if not isinstance(value, LiteralTerm) or predicate in predicates:
            continue
        if subject is None or is_blank(subject):
            report.skip("literal of a blank node")
        elif value.value and language_fits(value.language, languages):
            yield Triple(shortener(subject), shortener(predicate), value.value)
