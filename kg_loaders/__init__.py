"""Knowledge graphs: read any format, store memory-mapped, hand out neighbours."""

from kg_loaders.build import FORMATS, Source, graph_from_records, load
from kg_loaders.damage import DamagePolicy, DamageReport, Rejection
from kg_loaders.errors import (
    DamageError,
    GraphMismatchError,
    KgError,
    SourceError,
    StoreError,
    UnknownNodeError,
)
from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import KnowledgeGraph, Manifest, Texts, Vocabulary, assemble

__all__ = [
    "FORMATS",
    "DamageError",
    "DamagePolicy",
    "DamageReport",
    "GraphMismatchError",
    "KgError",
    "KnowledgeGraph",
    "Manifest",
    "Record",
    "Rejection",
    "Source",
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
    "load",
]
