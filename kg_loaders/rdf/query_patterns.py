"""Which statements of a graph a SPARQL query can read, so that a small query loads a small part.

rdflib parses the query into its basic graph patterns. Every solution of a pattern consists of
statements that have the pattern's constants, so a graph with all of those has the same answers.
Where that cannot be known, or rdflib cannot read a query that pyoxigraph reads, it is everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kg_loaders.rdf.statement_lines import ANYTHING, Pattern

LONGEST_QUERY = 20_000
"""Characters; a longer one is not looked into."""
_UNKNOWN = re.compile(r"base|exists|describe", re.IGNORECASE)
"""Words of what is not looked into, either: relative IRIs and escapes (a backslash) may be other
IRIs to the two parsers, rdflib keeps the patterns of EXISTS apart, and DESCRIBE has none."""
_ALL = re.compile(r"\b(SELECT|DISTINCT|REDUCED|DESCRIBE)\s*\*", re.IGNORECASE)
_EMPTY_PATH = re.compile(r"[>)\w:%]\s*(\*|\?(?!\w))")


class Reading(NamedTuple):
    """What a query reads of a graph.

    `patterns` cover every statement of it. `path_ends` are the IRIs at an end of a path that may
    have length zero. `any_predicate`: some pattern, at least, fits statements of any predicate.
    """

    patterns: list[Pattern]
    path_ends: tuple[str, ...] = ()
    any_predicate: bool = True


WHOLE = Reading([ANYTHING])


def may_have_empty_path(query: str) -> bool:
    """Whether a query looks as if it had a path that may have length zero.

    >>> may_have_empty_path("SELECT * { <u:a> <u:p>* ?x }"), may_have_empty_path("SELECT * { }")
    (True, False)
    """
    return _EMPTY_PATH.search(_ALL.sub(" ", query)) is not None


def reading_of(query: str, prefixes: Mapping[str, str]) -> Reading:
    """Return what `query` can read of a graph.

    >>> reading_of("SELECT ?o { <u:a> <u:p> ?o }", {}).patterns
    [Pattern(subject='u:a', predicates=frozenset({'u:p'}), value=None)]
    >>> reading_of("SELECT ?o { ?s ?p ?o }", {}).patterns
    [Pattern(subject=None, predicates=None, value=None)]
    """
    if "\\" in query or len(query) > LONGEST_QUERY or _UNKNOWN.search(query):
        return WHOLE
    from rdflib.plugins.sparql import prepareQuery

    patterns: dict[Pattern, None] = {}
    ends: dict[str, None] = {}
    try:
        algebra = prepareQuery(query, initNs=dict(prefixes)).algebra
        for triples in _basic_graph_patterns(algebra):
            for triple in triples:
                patterns |= dict.fromkeys(_of_triple(triple, triples))
                ends |= dict.fromkeys(_ends_of_empty_path(triple))
    except Exception:  # noqa: BLE001 - rdflib's parser raises anything; pyoxigraph has the last word
        return WHOLE
    any_predicate = any(pattern.predicates is None for pattern in patterns)
    for end in ends:  # it matters whether it is a node of the graph
        patterns |= {Pattern(subject=end): None, Pattern(value=end): None}
    chosen = [ANYTHING] if ANYTHING in patterns else list(patterns)
    return Reading(chosen, tuple(ends), any_predicate)


def _basic_graph_patterns(algebra: Any) -> Iterator[list[Any]]:
    from rdflib.plugins.sparql.algebra import traverse
    from rdflib.plugins.sparql.parserutils import CompValue

    blocks: list[list[Any]] = []

    def note(part: Any) -> None:
        if isinstance(part, CompValue) and part.name == "BGP":
            blocks.append(list(part.triples))

    note(algebra)
    traverse(algebra, visitPre=note)
    return iter(blocks)


def _of_triple(triple: Any, block: list[Any]) -> Iterator[Pattern]:
    """The patterns that cover what one triple of a block can match."""
    from rdflib.paths import Path

    subject, path, value = triple
    ends = [_constant(subject), _constant(value)]
    if not isinstance(path, Path):
        predicate = _constant(path)
        yield Pattern(ends[0], None if predicate is None else frozenset([predicate]), ends[1])
        return
    predicates = _predicates(path)
    yield Pattern(None, predicates, None)
    if predicates is not None and _may_be_empty(path):
        variables = [end for end in (subject, value) if _constant(end) is None]
        if len(variables) == 2 and not any(_is_bound(each, triple, block) for each in variables):
            yield ANYTHING  # a path of length zero joins every node to itself


def _ends_of_empty_path(triple: Any) -> Iterator[str]:
    """The IRIs at the ends of a path that may have length zero."""
    from rdflib import URIRef
    from rdflib.paths import Path

    subject, path, value = triple
    if isinstance(path, Path) and _may_be_empty(path):
        yield from (str(end) for end in (subject, value) if isinstance(end, URIRef))


def _is_bound(variable: Any, triple: Any, block: list[Any]) -> bool:
    """Whether another triple of the block binds a variable to an end of a statement."""
    from rdflib.paths import Path

    others = (each for each in block if each is not triple)
    return any(
        variable in (other[0], other[2])
        and not (isinstance(other[1], Path) and _may_be_empty(other[1]))
        for other in others
    )


def _constant(term: Any) -> str | None:
    """The characters of an IRI or a literal, None of a variable or a blank node."""
    from rdflib import BNode, Variable

    return None if isinstance(term, Variable | BNode) else str(term)


def _predicates(path: Any) -> frozenset[str] | None:
    """Every predicate that a path can follow; None for any."""
    from rdflib.paths import AlternativePath, InvPath, MulPath, SequencePath

    if isinstance(path, InvPath):
        return _predicates(path.arg)
    if isinstance(path, MulPath):
        return _predicates(path.path)
    if isinstance(path, SequencePath | AlternativePath):
        parts = [_predicates(part) for part in path.args]
        known = [part for part in parts if part is not None]
        return frozenset().union(*known) if len(known) == len(parts) else None
    from rdflib import URIRef

    return frozenset([str(path)]) if isinstance(path, URIRef) else None


def _may_be_empty(path: Any) -> bool:
    """Whether a path can have length zero."""
    from rdflib.paths import AlternativePath, InvPath, MulPath, SequencePath

    if isinstance(path, InvPath):
        return _may_be_empty(path.arg)
    if isinstance(path, MulPath):
        return bool(path.zero) or _may_be_empty(path.path)
    if isinstance(path, SequencePath):
        return all(_may_be_empty(part) for part in path.args)
    if isinstance(path, AlternativePath):
        return any(_may_be_empty(part) for part in path.args)
    return False
