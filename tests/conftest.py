"""Shared fixtures: a world of ten entities, paths to real data, and shape checking of `kept`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook(
    ["kept.batches", "kept.outputs", "kept.layers", "kept.encoders"], "beartype.beartype"
)

from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records  # noqa: E402


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of public data sets; skips where it is not there."""
    root = os.environ.get("KEPT_DATA")
    if not root:
        pytest.skip("KEPT_DATA is not set: the public data sets are not on this machine")
    return Path(root)


LABELS = {
    "Q90": ("Paris", "capital of France", ["City of Light"]),
    "Q142": ("France", "country in Western Europe", ["French Republic"]),
    "Q64": ("Berlin", "capital of Germany", []),
    "Q183": ("Germany", "country in Central Europe", ["Federal Republic of Germany"]),
    "Q150": ("French", "Romance language", []),
    "Q188": ("German", "West Germanic language", []),
    "Q46": ("Europe", "continent", []),
    "Q1471": ("Seine", "river in France", []),
    "Q2": ("Bonn", "city in Germany", []),
    "Q830149": ("Paris", "city in Texas", []),
}
TRIPLES = [
    ("Q90", "P1376", "Q142"), ("Q142", "P36", "Q90"), ("Q64", "P1376", "Q183"),
    ("Q183", "P36", "Q64"), ("Q142", "P37", "Q150"), ("Q183", "P37", "Q188"),
    ("Q142", "P30", "Q46"), ("Q183", "P30", "Q46"), ("Q142", "P47", "Q183"),
    ("Q183", "P47", "Q142"), ("Q90", "P206", "Q1471"), ("Q1471", "P17", "Q142"),
    ("Q90", "P17", "Q142"), ("Q64", "P17", "Q183"), ("Q2", "P17", "Q183"),
]  # fmt: skip
RELATIONS = {
    "P1376": "capital of", "P36": "capital", "P37": "official language", "P30": "continent",
    "P47": "shares border with", "P206": "located next to body of water", "P17": "country",
}  # fmt: skip


@pytest.fixture(scope="session")
def small_graph() -> KnowledgeGraph:
    """Ten entities around Paris and Berlin; "Paris" is ambiguous; Q830149 has no triples."""
    records: list[Triple | Text] = [Triple(*row) for row in TRIPLES]
    for node, (label, description, aliases) in LABELS.items():
        records.append(Text(node, TextKind.LABEL, label, "en"))
        records.append(Text(node, TextKind.DESCRIPTION, description, "en"))
        records.extend(Text(node, TextKind.ALIAS, alias, "en", 3) for alias in aliases)
    records.extend(
        Text(node, TextKind.LABEL, label, "en", 0, True) for node, label in RELATIONS.items()
    )
    return graph_from_records(records, licence="CC0-1.0")
