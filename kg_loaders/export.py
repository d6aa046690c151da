"""Write a graph to one file: triples as TSV, texts as JSON lines, both as N-Triples.

`triples.tsv` and `texts.jsonl` together give back the same graph. N-Triples give back every name
that is an absolute IRI or, under `prefixes={base: ""}`, can stand in one; counts of aliases have no
place there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pyoxigraph as ox

from kg_loaders import jsonl, tsv
from kg_loaders.errors import SourceError
from kg_loaders.records import TextKind
from kg_loaders.store import KnowledgeGraph
from kg_loaders.texts import Texts
from kg_loaders.writing import write_lines

BASE = "urn:kept:"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
PREDICATES = {
    TextKind.LABEL: "http://www.w3.org/2000/01/rdf-schema#label",
    TextKind.ALIAS: "http://www.w3.org/2004/02/skos/core#altLabel",
    TextKind.DESCRIPTION: "http://schema.org/description",
}
_FORBIDDEN = re.compile(r"[\x00-\x20<>\"{}|^`\\%#\[\]\x7f-\x9f]")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def export(
    graph: KnowledgeGraph, path: str | Path, *, base: str = BASE, force: bool = False
) -> int:
    """Write `graph` in the format of the file's suffix; returns the number of lines or texts.

    Whole or not at all; `force` replaces a file that is there.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise SourceError(f"{path}: the suffix must be one of {', '.join(_WRITERS)}")
    return writer(graph, path, base, force)


def _write_ntriples(graph: KnowledgeGraph, path: Path, base: str, force: bool) -> int:
    lines = (line.encode() for line in _statements(graph, base))
    return write_lines(path, lines, force=force)


def _statements(graph: KnowledgeGraph, base: str) -> Iterator[str]:
    entities, relations = (
        [_iri(name, base) for name in names] for names in (graph.entities, graph.relations)
    )
    for head, relation, tail in graph.triples.tolist():
        yield f"{entities[head]} {relations[relation]} {entities[tail]} .\n"
    for texts, nodes in ((graph.entity_texts, entities), (graph.relation_texts, relations)):
        for node, row in zip(texts.nodes().tolist(), range(len(texts)), strict=True):
            yield f"{nodes[node]} {_predicate_and_value(texts, row, base)} .\n"


def _predicate_and_value(texts: Texts, row: int, base: str) -> str:
    value = str(texts.values[row].as_py())
    kind = TextKind(int(texts.kinds[row]))
    if kind is TextKind.TYPE:
        return f"<{RDF_TYPE}> {_iri(value, base)}"
    language = texts.language_names[texts.languages[row]]
    return f"<{PREDICATES[kind]}> {ox.Literal(value, language=language or None)}"


def _iri(name: str, base: str) -> str:
    """An absolute IRI stays; any other name comes after `base`, what may not stand there as %XX."""
    if _ABSOLUTE.match(name):
        try:
            return str(ox.NamedNode(name))
        except ValueError:
            pass  # looks like one, is none
    return str(ox.NamedNode(base + _FORBIDDEN.sub(lambda found: quote(found[0], safe=""), name)))


_WRITERS: dict[str, Callable[[KnowledgeGraph, Path, str, bool], int]] = {
    ".tsv": lambda graph, path, base, force: tsv.write(graph, path, force=force),
    ".jsonl": lambda graph, path, base, force: jsonl.write(graph, path, force=force),
    ".nt": _write_ntriples,
}
