"""Numbers and dates of entities, as the beginning of their descriptions: text scorers read them.

A file of identifier, attribute and value beside the triples: `literals.tsv`, or LiteralE's
`numerical_literals.txt` (Kristiadi et al. 2019, "Incorporating Literals into Knowledge Graph
Embeddings", ISWC), packed (`.gz`) or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kept.errors import ConfigError
from kept.kgc.completers.new_entity import records_of
from kept.kge.splits import Splits
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.formats import tsv

FILES = ("literals.tsv", "literals.txt", "numerical_literals.txt")
N_LITERALS = 4
"""Of an entity, in the order of its file: a text is cut after some thirty word pieces."""
_DATE = re.compile(r"([+-]?\d{4,}-\d\d-\d\d)T[\d:.]+Z?")
_QUOTED = re.compile(r'"(.*)"(?:\^\^.*|@[\w-]+)?', re.DOTALL)
_BORDER = re.compile(r"[/#.:]")


def with_literals(splits: Splits, source: Path) -> Splits:
    """The same splits, with literals before the descriptions of their entities.

    ConfigError: no file of them lies in `source`, or none is of an entity of the graph.
    """
    path = _literals_file(source)
    graph = splits.graph
    literals: dict[str, list[str]] = {}
    for entity, attribute, value in _triples_of(path):
        values = literals.setdefault(entity, [])
        if entity in graph.entities and len(values) < N_LITERALS:
            values.append(f"{attribute_label(graph, attribute)}: {value_in_words(value)}")
    literals = {name: values for name, values in literals.items() if values}
    if not literals:
        raise ConfigError(
            f"{path} has no literal of an entity of {source}; give that of this graph"
        )
    grown = graph_from_records(
        _records_with_literals(graph, literals), sources=graph.manifest.sources
    )
    note = f"{path.name}: literals of {len(literals)} of {graph.n_entities} entities are read"
    return replace(splits, graph=grown, notes=(*splits.notes, note))


def value_in_words(value: str) -> str:
    """A value as a reader would write it: numbers short, dates without the time of day.

    >>> [value_in_words(each) for each in ("1.7500000e+01", "1953-03-12T00:00:00Z", '"Po"@it')]
    ['17.5', '1953-03-12', 'Po']
    """
    quoted = _QUOTED.fullmatch(value)
    text = quoted[1] if quoted else value
    date = _DATE.fullmatch(text)
    if date is not None:
        return date[1].lstrip("+")
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else f"{number:.6g}"


def attribute_label(graph: KnowledgeGraph, attribute: str) -> str:
    """An attribute's label where the graph has the relation, else the last part of its name."""
    relation = graph.relations.find(attribute)
    if relation is not None:
        return graph.relation_label(relation)
    last = _BORDER.split(attribute.strip("<>").rstrip("/"))[-1]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", last).replace("_", " ").lower()


def _literals_file(source: Path) -> Path:
    for name in FILES:
        for path in (source / name, source / f"{name}.gz"):
            if path.is_file():
                return path
    raise ConfigError(
        f"{source} has no literals: lay {FILES[0]} (identifier, attribute, value) there, or leave "
        "out --literals"
    )


def _triples_of(path: Path) -> Iterator[Triple]:
    for record in tsv.read(path, DamageReport()):
        if isinstance(record, Triple):
            yield record


def _records_with_literals(
    graph: KnowledgeGraph, literals: dict[str, list[str]]
) -> Iterator[Record]:
    """The records of a graph, with literals at the beginning of descriptions."""
    remaining = dict(literals)
    for record in records_of(graph):
        if isinstance(record, Text) and record.kind == TextKind.DESCRIPTION:
            texts = remaining.pop(
                record.node, []
            )  # relations' descriptions are not among the records
            if texts:
                record = record._replace(value=f"{'; '.join(texts)}. {record.value}")
        yield record
    for node, texts in remaining.items():
        yield Text(node, TextKind.DESCRIPTION, "; ".join(texts), "en")
