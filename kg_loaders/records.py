"""What every reader yields: `Triple` and `Text` records.

A reader is a function `read(path, report) -> Iterator[Record]`. It knows one file format and
nothing about storage; `kg_loaders.build` turns records into a `KnowledgeGraph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from kg_loaders.errors import SourceError


class TextKind(IntEnum):
    """What a text says about its node. The numbers are the storage format."""

    LABEL = 0
    ALIAS = 1
    DESCRIPTION = 2
    TYPE = 3


DEPRECATED = "http://www.w3.org/2002/07/owl#DeprecatedClass"
"""The `TYPE` text of a term that its source calls deprecated or obsolete, in every format."""
DEPRECATED_TYPES = (DEPRECATED, "http://www.w3.org/2002/07/owl#DeprecatedProperty")
"""The `TYPE` texts that mark a term so; linkers leave out its names by default."""


class Triple(NamedTuple):
    """One fact, by identifiers.

    >>> Triple("Q90", "P17", "Q142")
    Triple(head='Q90', relation='P17', tail='Q142')
    """

    head: str
    relation: str
    tail: str


def checked_triples(rows: Iterable[tuple[str, str, str]]) -> Iterator[Triple]:
    """Yield rows of Python as triples; `SourceError` names the first that is not three strings."""
    if isinstance(rows, str | bytes):
        raise SourceError(f"{rows[:40]!r} is text; give rows such as ('Ada', 'born in', 'London')")
    for number, row in enumerate(rows):
        is_row = not isinstance(row, str) and isinstance(row, Iterable)
        triple = tuple(row) if is_row else ()
        if len(triple) != 3 or not all(isinstance(part, str) for part in triple):
            raise SourceError(
                f"row {number} is {row!r}; a triple is three strings: head, relation, tail"
            )
        yield Triple(*triple)


class Text(NamedTuple):
    """One text about an entity or a relation.

    `language` is a BCP 47 tag, or "" when the source does not say. `frequency` is how often an
    alias was seen (0 = unknown). A `TYPE` text holds the identifier or name of the type.
    An entity that only texts mention is part of the graph too; it has no triples.
    """

    node: str
    kind: TextKind
    value: str
    language: str = ""
    frequency: int = 0
    is_relation: bool = False


Record = Triple | Text
