"""The graph that a linker reads: a folder, or made in memory from the files of a user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entity_linking.names.identifiers import by_identifiers
from kg_loaders import KnowledgeGraph, Source, load


def read_graph(
    kg: str,
    *,
    labels: Sequence[str] = (),
    aliases: Sequence[str] = (),
    languages: Sequence[str] | None = None,
) -> KnowledgeGraph:
    """The graph in the folder or file `kg`; one without any name is taken by its identifiers.

    `labels` and `aliases` are TSV files that go with a file.
    """
    if not Path(kg).is_file():
        return by_identifiers(KnowledgeGraph.open(kg))
    options = {"language": (languages or ("en",))[0], "is_relation": False}
    sources = [Source(Path(kg))]
    for files, columns in ((labels, ("label", "description")), (aliases, ("alias", "count"))):
        sources += [Source(Path(f), "texts", {**options, "columns": columns}) for f in files]
    graph, _ = load(sources, languages=languages)
    return by_identifiers(graph)
