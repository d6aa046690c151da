"""What every reader yields: `Triple` and `Text` records.

A reader is a function `read(path, report) -> Iterator[Record]`. It knows one file format and
nothing about storage; `kg_loaders.build` turns records into a `KnowledgeGraph`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


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
