"""What `kept kg` tells of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kg_loaders import KnowledgeGraph

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def summary_of(graph: KnowledgeGraph) -> dict[str, object]:
    """Return counts, sources and hashes by name."""
    from kg_loaders import TextKind

    manifest = graph.manifest
    n_texts = {
        f"n_{kind.name.lower()}": int((graph.entity_texts.kinds == kind).sum()) for kind in TextKind
    }
    return {
        "n_entities": graph.n_entities,
        "n_relations": graph.n_relations,
        "n_triples": graph.n_triples,
        **n_texts,
        "n_relation_texts": len(graph.relation_texts),
        "languages": manifest.languages,
        "sources": manifest.sources,
        "licence": manifest.licence or "not stated",
        "content_hash": graph.content_hash,
        "id_space_hash": graph.id_space_hash,
        "format_version": manifest.format_version,
    }


def json_text(value: object) -> str:
    """Return JSON for people."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
