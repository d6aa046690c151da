"""Values that became entities: numbers and dates in the tails of a table's rows.

A graph holds triples of entities. A table whose third column is a year or a height makes an entity
of each, with a vector of its own and a place among the answers of every question. That can be
meant; it is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numpy_of
from kg_loaders.records import TextKind
from kg_loaders.store import KnowledgeGraph

N_EXAMPLES, N_SHOWN = 3, 5
LEAST_SHARE = 0.5
"""Of the triples of a relation: with fewer values in their tails, names that look like them are
names."""
VALUE = (
    r"^(?:[+-]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?%?"
    r"|[+-]?[0-9]{1,6}-[0-9]{2}(?:-[0-9]{2})?(?:[T ][0-9:.]+(?:[+-][0-9:]+)?)?Z?"
    r"|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4})$"
)
"""Numbers, and dates by year, month and day, or with dots and slashes."""


@dataclass(frozen=True)
class ValueTails:
    """Of `n_triples` of a relation, `n` have a number or a date as tail; some of these."""

    relation: str
    n: int
    n_triples: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.n} of {self.n_triples} tails of {self.relation} are numbers or dates "
            f"({', '.join(self.examples)})"
        )


def values_as_entities(graph: KnowledgeGraph) -> list[ValueTails]:
    """Return the relations whose tails are mostly values, in the order of their ids.

    A value is an entity with the name of a number or a date, without a label, that is not a head;
    and whose heads have no such names, as all have in a graph whose identifiers are numbers.

    >>> from kg_loaders import Triple, graph_from_records
    >>> graph = graph_from_records([Triple("Ada", "born", "1815"), Triple("Ada", "knows", "Bo")])
    >>> [str(each) for each in values_as_entities(graph)]
    ['1 of 1 tails of born are numbers or dates (1815)']
    """
    looks = _looks_like_values(graph)
    if not looks.any():
        return []
    heads, relations, tails = graph.triples.T
    is_value = looks.copy()
    is_value[heads] = False
    texts = graph.entity_texts
    is_value[texts.nodes()[texts.kinds == TextKind.LABEL]] = False
    hits = is_value[tails] & ~looks[heads]
    n_triples = np.bincount(relations, minlength=graph.n_relations)
    n_values = np.bincount(relations[hits], minlength=graph.n_relations)
    value_columns = np.flatnonzero((n_values > 0) & (n_values >= LEAST_SHARE * n_triples))
    return [
        ValueTails(
            graph.relations.name(relation),
            int(n_values[relation]),
            int(n_triples[relation]),
            _examples(graph, tails[hits & (relations == relation)]),
        )
        for relation in value_columns.tolist()
    ]


def literal_notes(graph: KnowledgeGraph) -> list[str]:
    """Return what to say about `values_as_entities`: a line for some, and what to do; or nothing.

    >>> from kg_loaders import Triple, graph_from_records
    >>> literal_notes(graph_from_records([Triple("Ada", "knows", "Bo")]))
    []
    """
    columns = values_as_entities(graph)
    if not columns:
        return []
    more = f"; {len(columns) - N_SHOWN} more relations" if len(columns) > N_SHOWN else ""
    listed = "; ".join(map(str, columns[:N_SHOWN]))
    note = (
        f"values became entities: {listed}{more}. To read them as text, leave out these "
        f"rows and put them into the graph's folder as literals.tsv (kept kgc train --literals)"
    )
    return [note]


def _looks_like_values(graph: KnowledgeGraph) -> NDArray[np.bool_]:
    return numpy_of(pc.match_substring_regex(graph.entities.array, pattern=VALUE))


def _examples(graph: KnowledgeGraph, tails: NDArray[np.integer]) -> tuple[str, ...]:
    return tuple(graph.entities.name(tail) for tail in np.unique(tails)[:N_EXAMPLES].tolist())
