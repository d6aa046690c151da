"""A graph from whatever a person has at hand: a folder, a file, a data frame, a networkx graph."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kg_loaders.errors import SourceError
from kg_loaders.fact_types import typed_by_facts
from kg_loaders.formats.field_names import RELATIONS, TEXTS, first_of, plain_name
from kg_loaders.formats.tables.layout import places_of
from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import KnowledgeGraph

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from kg_loaders.build import Source

HEADER = ("head", "relation", "tail")
Files = str | Path | Sequence[str | Path]
EDGE_NAMES = (*RELATIONS, "key")
"""Attributes of networkx edges that name the relation; the first one that an edge has counts."""
TEXT_COLUMNS = {
    "labels": (("label", "description"), False),
    "aliases": (("alias", "count"), False),
    "descriptions": (("description",), False),
    "types": (("type",), False),
    "relation_labels": (("label", "description"), True),
}
"""The columns of files of texts behind the identifier, and whether they are of relations."""


def open_graph(
    path: str | Path | KnowledgeGraph | Sequence[tuple[str, str, str]] | Any,
    *,
    format: str | None = None,
    labels: Files = (),
    aliases: Files = (),
    descriptions: Files = (),
    types: Files = (),
    relation_labels: Files = (),
    language: str = "en",
    types_of_facts: bool = True,
    **options: Any,
) -> KnowledgeGraph:
    """Return the graph in a folder of `kept kg build`, or read from any file that it reads.

    Rows of three names, a data frame, and a graph of networkx or rdflib are taken as well.

    `labels` and the other files of texts are TSV: an identifier, then the text. With
    `types_of_facts` entities of files that give no types have those that facts say, as in `kept kg
    build`; a folder stays as it was built. `format` and
    `options` are those of the reader (`kg_loaders.build.FORMATS`). A graph is returned as it is.
    Raises `StoreError`, `SourceError` or `DamageError`; for reports of damage use
    `kg_loaders.load`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name) / "triples.tsv"
    >>> _ = file.write_text("Ada\\tborn in\\tLondon\\n")
    >>> open_graph(file).facts("Ada")
    [('Ada', 'born in', 'London')]
    >>> folder.cleanup()
    """
    from kg_loaders.build import Source, load

    if isinstance(path, KnowledgeGraph):
        return path
    if _is_rdflib(path):
        return _from_rdflib(path, types_of_facts=types_of_facts, language=language, **options)
    if not isinstance(path, str | Path):
        return _from_memory(path, types_of_facts=types_of_facts)
    texts = {
        "labels": labels, "aliases": aliases, "descriptions": descriptions, "types": types,
        "relation_labels": relation_labels,
    }  # fmt: skip
    further = [
        source for kind, files in texts.items() for source in text_sources(kind, files, language)
    ]
    location = Path(path).expanduser()
    is_folder = (location / "manifest.json").is_file() or (location.is_dir() and format is None)
    if is_folder and not further and not options and not _is_wordnet(location):
        return KnowledgeGraph.open(location)
    graph, _ = load([Source(location, format, options), *further], types_of_facts=types_of_facts)
    return graph


def _from_memory(source: Any, *, types_of_facts: bool) -> KnowledgeGraph:
    """The graph of rows, of a data frame or of a networkx graph."""
    from kg_loaders.store import KnowledgeGraph

    if hasattr(source, "itertuples"):
        return from_pandas(source, types_of_facts=types_of_facts)
    if hasattr(source, "nodes") and hasattr(source, "edges"):
        return from_networkx(source, types_of_facts=types_of_facts)
    if isinstance(source, np.ndarray):
        source = source.tolist()
    if isinstance(source, list | tuple | set | Iterator):
        return KnowledgeGraph.from_triples(source, types_of_facts=types_of_facts)
    raise SourceError(
        f"no graph can be read from a {type(source).__name__}; give a path, a graph, rows of "
        "(head, relation, tail), a data frame, or a graph of networkx or rdflib"
    )


def _is_rdflib(source: Any) -> bool:
    return hasattr(source, "serialize") and hasattr(source, "namespaces")


def _from_rdflib(source: Any, **options: Any) -> KnowledgeGraph:
    """The graph of an rdflib graph, by way of N-Triples."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nt"
        source.serialize(str(path), format="nt", encoding="utf-8")
        return open_graph(path, **options)


def as_frame(graph: KnowledgeGraph) -> pd.DataFrame:
    """Return a data frame of a graph, a row per triple: identifiers, then labels."""
    from kg_loaders.export import triple_table

    try:
        frame: pd.DataFrame = triple_table(graph).to_pandas()
    except ImportError as error:
        raise SourceError("to_pandas needs pandas: pip install pandas") from error
    return frame


def _is_wordnet(folder: Path) -> bool:
    return (folder / "data.noun").is_file()


def text_sources(kind: str, files: Files, language: str = "en") -> list[Source]:
    """Return the sources of files of texts; `kind` is a key of `TEXT_COLUMNS`."""
    from kg_loaders.build import Source

    columns, is_relation = TEXT_COLUMNS[kind]
    options = {"columns": columns, "language": language, "is_relation": is_relation}
    paths = [files] if isinstance(files, str | Path) else files
    return [Source(Path(path), "texts", options) for path in paths]


def from_networkx(graph: nx.Graph[Any], *, types_of_facts: bool = True) -> KnowledgeGraph:
    """Return the graph of a networkx graph's edges; an undirected edge is a triple each way.

    The relation is an edge's `relation`, `predicate`, `label`, `type` (or another of the names of
    `kg_loaders.formats.field_names`) or, of a multigraph, its key; `SourceError` names an edge
    without any. Nodes are identifiers by `str`; their `label`, `type` and `description` are texts.
    Where none has a `type`, `types_of_facts` gives those that facts say ("instance of").

    >>> import networkx as nx
    >>> edges = nx.DiGraph()
    >>> edges.add_edge("Ada", "London", relation="born in")
    >>> from_networkx(edges).facts("Ada")
    [('Ada', 'born in', 'London')]
    """
    from kg_loaders.build import graph_from_records

    read = graph_from_records(_networkx_records(graph), sources=("networkx",))
    return typed_by_facts(read) if types_of_facts else read


def _networkx_records(graph: nx.Graph[Any]) -> Iterator[Record]:
    for node, attributes in graph.nodes(data=True):
        values = {plain_name(str(name)): value for name, value in attributes.items()}
        for kind in (TextKind.LABEL, TextKind.TYPE, TextKind.DESCRIPTION):
            known = first_of(TEXTS[kind], {n: v for n, v in values.items() if v is not None})
            if known is not None and str(known[1]) not in ("", str(node)):
                yield Text(str(node), kind, str(known[1]))
    edges: Iterable[tuple[Any, Any, dict[str, Any]]] = graph.edges(data=True)
    if graph.is_multigraph():
        multigraph: Any = graph
        keyed = multigraph.edges(keys=True, data=True)
        edges = ((h, t, {"key": key, **data}) for h, t, key, data in keyed)
    for head, tail, attributes in edges:
        relation = _edge_relation(head, tail, attributes)
        yield Triple(str(head), relation, str(tail))
        if (label := attributes.get("label")) is not None and str(label) != relation:
            yield Text(relation, TextKind.LABEL, str(label), is_relation=True)
        if not graph.is_directed() and head != tail:
            yield Triple(str(tail), relation, str(head))


def _edge_relation(head: Any, tail: Any, attributes: Mapping[str, Any]) -> str:
    values = {plain_name(str(name)): value for name, value in attributes.items()}
    named = (values[name] for name in EDGE_NAMES if values.get(name) is not None)
    relation = next((each for each in named if isinstance(each, str) and each), None)
    if relation is None:
        raise SourceError(
            f"the edge {head!r} → {tail!r} names no relation: it has {dict(attributes)}; give each "
            "edge one of relation, predicate, label, type, as in add_edge(a, b, relation='knows')"
        )
    return relation


def from_pandas(
    frame: pd.DataFrame,
    *,
    head: str | None = None,
    relation: str | None = None,
    tail: str | None = None,
    labels: Mapping[str, str] | None = None,
    types_of_facts: bool = True,
) -> KnowledgeGraph:
    """Return the graph of a data frame's rows.

    The columns are `head`, `relation` and `tail`, or known by their names (such as subject,
    predicate, object). Three columns without names are taken in this order, three with other names
    only if they are given by name. `labels` are names of identifiers, `types_of_facts` is as in
    `from_triples`.
    `SourceError` for missing columns and empty cells.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"subject": ["Ada"], "predicate": ["born in"], "object": ["London"]})
    >>> from_pandas(rows).facts("Ada")
    [('Ada', 'born in', 'London')]
    """
    if not hasattr(frame, "columns"):
        kind = type(frame).__name__
        raise SourceError(f"from_pandas takes a data frame, not a {kind}; from_triples takes rows")
    names = [str(each) for each in frame.columns]
    if names == ["0", "1", "2"] and head is relation is tail is None:
        names = [*HEADER]
    columns = _named_columns(names, (head, relation, tail))
    parts = [frame[frame.columns[position]] for position in columns]
    for part in parts:
        if part.isna().any():
            row = int(part.isna().to_numpy().argmax())
            raise SourceError(
                f"row {row} of the data frame has no {part.name!r}; leave such rows out: "
                "frame.dropna()"
            )
    rows = zip(*(part.astype(str).tolist() for part in parts), strict=True)
    return KnowledgeGraph.from_triples(rows, labels, types_of_facts=types_of_facts)


def _named_columns(
    columns: Sequence[str], names: tuple[str | None, str | None, str | None]
) -> tuple[int, ...]:
    """The places of head, relation and tail."""
    unknown = [name for name in names if name is not None and name not in columns]
    if unknown:
        raise SourceError(
            f"the data frame has no column {unknown[0]!r}; it has {', '.join(columns)}"
        )
    if all(name is not None for name in names):
        return tuple(columns.index(str(name)) for name in names)
    known = places_of(columns)
    if known is None:
        raise SourceError(
            f"which columns of {', '.join(columns)} are head, relation and tail? Say so: "
            "from_pandas(frame, head='…', relation='…', tail='…')"
        )
    chosen = [known[i] if name is None else columns.index(name) for i, name in enumerate(names)]
    return tuple(chosen)


__all__ = ["from_networkx", "from_pandas", "open_graph", "text_sources", "typed_by_facts"]
