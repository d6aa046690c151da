"""Knowledge graphs: read any format, store memory-mapped, hand out neighbours.

What needs pyarrow and parsers is imported when it is first used, so that damage policies and
errors cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kg_loaders.damage import DamagePolicy, DamageReport, Rejection
from kg_loaders.errors import (
    AmbiguousNameError,
    DamageError,
    GraphMismatchError,
    KgError,
    SourceError,
    StoreError,
    UnknownNodeError,
)
from kg_loaders.makers import register
from kg_loaders.records import Record, Text, TextKind, Triple

if TYPE_CHECKING:
    from kg_loaders.build import FORMATS, Source, graph_from_records, load
    from kg_loaders.entity import Entity
    from kg_loaders.opening import open_graph
    from kg_loaders.store import KnowledgeGraph, Manifest, Texts, Vocabulary, assemble

__all__ = [
    "FORMATS",
    "AmbiguousNameError",
    "DamageError",
    "DamagePolicy",
    "DamageReport",
    "Entity",
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
    "open_graph",
]

_PLACES = {
    "kg_loaders.build": ("FORMATS", "Source", "graph_from_records", "load"),
    "kg_loaders.entity": ("Entity",),
    "kg_loaders.opening": ("open_graph",),
    "kg_loaders.store": ("KnowledgeGraph", "Manifest", "Texts", "Vocabulary", "assemble"),
}

register(lambda: import_module("kg_loaders.opening"))


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'kg_loaders' has no attribute {name!r}")
