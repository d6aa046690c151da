"""Knowledge graphs: read any format, store memory-mapped, hand out neighbours."""

from kg_loaders.errors import (
    DamageError,
    GraphMismatchError,
    KgError,
    SourceError,
    StoreError,
    UnknownNodeError,
)
from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import (
    KnowledgeGraph,
    Manifest,
    Texts,
    Vocabulary,
    assemble,
    graph_from_records,
)

__all__ = [
    "DamageError",
    "GraphMismatchError",
    "KgError",
    "KnowledgeGraph",
    "Manifest",
    "Record",
    "SourceError",
    "StoreError",
    "Text",
    "TextKind",
    "Texts",
    "Triple",
    "UnknownNodeError",
    "Vocabulary",
    "assemble",
    "graph_from_records",
]
