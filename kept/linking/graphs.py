"""The graph that a linker reads: a folder, or made in memory from the files of a user."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from entity_linking.names.identifiers import by_identifiers
from kg_loaders import KnowledgeGraph, Source, load

_FOLDERS: weakref.WeakKeyDictionary[KnowledgeGraph, Path] = weakref.WeakKeyDictionary()


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


def folder_of(graph: KnowledgeGraph) -> Path:
    """Return the folder of a graph; one in memory is written to a temporary one first.

    The temporary folder lasts as long as the process.
    """
    if graph.folder is not None:
        return graph.folder
    folder = _FOLDERS.get(graph)
    if folder is None:
        temporary = Path(tempfile.mkdtemp(prefix="kept-graph-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        folder = temporary / "kg"
        graph.save(folder)
        _FOLDERS[graph] = folder
    return folder
