"""Write a graph to one file: triples as TSV or Parquet, texts as JSON lines, both as RDF; for other
libraries as GraphML or as tensors; for LightRAG and GraphRAG as their own graphs.

`triples.tsv` and `texts.jsonl` together give back the same graph. N-Triples and Turtle give back
every name that is an absolute IRI or, under `prefixes={base: ""}`, can stand in one; counts of
aliases have no place there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox
from safetensors.numpy import save_file

from kg_loaders.disk.writing import whole_file
from kg_loaders.errors import SourceError
from kg_loaders.formats import graphrag, jsonl, lightrag, tsv
from kg_loaders.records import TextKind
from kg_loaders.store import KnowledgeGraph
from kg_loaders.texts import Texts

BASE = "urn:kept:"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
PREDICATES = {
    TextKind.LABEL: "http://www.w3.org/2000/01/rdf-schema#label",
    TextKind.ALIAS: "http://www.w3.org/2004/02/skos/core#altLabel",
    TextKind.DESCRIPTION: "http://schema.org/description",
}
PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "http://schema.org/",
}
_FORBIDDEN = re.compile(r"[\x00-\x20<>\"{}|^`\\%#\[\]\x7f-\x9f]")
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def export(
    graph: KnowledgeGraph,
    path: str | Path,
    *,
    to: str | None = None,
    base: str = BASE,
    force: bool = False,
) -> int:
    """Write `graph` in the format of the file's suffix, or as `to` (a key of `LIBRARIES` or
    `PROGRAMS`, or a suffix without its dot); returns the number of lines, texts or triples.

    Whole or not at all; `force` replaces a file that is there. GraphRAG's graph is a folder.
    """
    path = Path(path)
    if to in PROGRAMS:
        return PROGRAMS[to](graph, path, force=force)
    suffix = path.suffix.lower() if to is None else LIBRARIES.get(to, f".{to}")
    writer = _WRITERS.get(suffix)
    if writer is None:
        what = f"{path}: the suffix" if to is None else f"to {to!r}: it"
        others = "" if to is None else f", {', '.join((*LIBRARIES, *PROGRAMS))}"
        raise SourceError(f"{what} must be one of {', '.join(_WRITERS)}{others}")
    return writer(graph, path, base, force)


def _write_rdf(graph: KnowledgeGraph, path: Path, base: str, force: bool) -> int:
    """N-Triples, or Turtle whose prefixes are those of the texts' predicates and `base`."""
    is_turtle = path.suffix.lower() == ".ttl"
    format = ox.RdfFormat.TURTLE if is_turtle else ox.RdfFormat.N_TRIPLES
    written = count(1)
    statements = (statement for statement in _statements(graph, base) if next(written))
    with whole_file(path, force=force) as part:
        ox.serialize(statements, part, format, prefixes={**PREFIXES, "kept": base})
    return next(written) - 1


def triple_table(graph: KnowledgeGraph) -> pa.Table:
    """Return a row per triple: identifiers, then labels of its three parts."""
    head, relation, tail = graph.triples.T
    labels = pa.array([graph.label(i) for i in range(graph.n_entities)], pa.string())
    relation_labels = pa.array(
        [graph.relation_label(i) for i in range(graph.n_relations)], pa.string()
    )
    return pa.table(
        {
            "head": graph.entities.array.take(head),
            "relation": graph.relations.array.take(relation),
            "tail": graph.entities.array.take(tail),
            "head_label": labels.take(head),
            "relation_label": relation_labels.take(relation),
            "tail_label": labels.take(tail),
        }
    )


def _write_parquet(graph: KnowledgeGraph, path: Path, base: str, force: bool) -> int:
    with whole_file(path, force=force) as part:
        pq.write_table(triple_table(graph), part)
    return graph.n_triples


def _write_tensors(graph: KnowledgeGraph, path: Path, base: str, force: bool) -> int:
    """What PyG and DGL make a graph of: `edge_index [2 triple]`, `edge_type [triple]`, int64."""
    head, relation, tail = graph.triples.T.astype(np.int64)
    tensors = {
        "edge_index": np.stack([head, tail]),
        "edge_type": np.ascontiguousarray(relation),
        "num_nodes": np.array([graph.n_entities], np.int64),
    }
    with whole_file(path, force=force) as part:
        save_file(tensors, part, metadata={"content_hash": graph.content_hash})
    return graph.n_triples


def _write_graphml(graph: KnowledgeGraph, path: Path, base: str, force: bool) -> int:
    """Nodes with `label`, edges with `relation` and `label`, as networkx and Gephi read them."""
    with whole_file(path, force=force) as part, part.open("w", encoding="utf-8") as file:
        file.writelines(_graphml(graph, path))
    return graph.n_triples


def _graphml(graph: KnowledgeGraph, path: Path) -> Iterator[str]:
    def text(value: str) -> str:
        if _NO_XML.search(value):
            raise SourceError(f"{path}: {value!r} holds a character that XML cannot; try .parquet")
        return escape(value, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})

    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for key, owner in (("label", "node"), ("relation", "edge"), ("name", "edge")):
        attribute = "label" if key == "name" else key
        yield f'<key id="{key}" for="{owner}" attr.name="{attribute}" attr.type="string"/>\n'
    yield '<graph edgedefault="directed">\n'
    names = [text(name) for name in graph.entities]
    for i, name in enumerate(names):
        yield f'<node id="{name}"><data key="label">{text(graph.label(i))}</data></node>\n'
    relations = [
        f'<data key="relation">{text(name)}</data>'
        f'<data key="name">{text(graph.relation_label(i))}</data>'
        for i, name in enumerate(graph.relations)
    ]
    for number, (head, relation, tail) in enumerate(graph.triples.tolist()):
        yield (
            f'<edge id="{number}" source="{names[head]}" target="{names[tail]}">'
            f"{relations[relation]}</edge>\n"
        )
    yield "</graph>\n</graphml>\n"


def _statements(graph: KnowledgeGraph, base: str) -> Iterator[ox.Triple]:
    """One a triple, then one a text; those of one subject stand together."""
    entities, relations = (
        [_iri(name, base) for name in names] for names in (graph.entities, graph.relations)
    )
    for head, relation, tail in graph.triples.tolist():
        yield ox.Triple(entities[head], relations[relation], entities[tail])
    for texts, nodes in ((graph.entity_texts, entities), (graph.relation_texts, relations)):
        for node, row in zip(texts.nodes().tolist(), range(len(texts)), strict=True):
            yield ox.Triple(nodes[node], *_predicate_and_value(texts, row, base))


def _predicate_and_value(
    texts: Texts, row: int, base: str
) -> tuple[ox.NamedNode, ox.NamedNode | ox.Literal]:
    value = str(texts.values[row].as_py())
    kind = TextKind(int(texts.kinds[row]))
    if kind is TextKind.TYPE:
        return ox.NamedNode(RDF_TYPE), _iri(value, base)
    language = texts.language_names[texts.languages[row]]
    try:
        return ox.NamedNode(PREDICATES[kind]), ox.Literal(value, language=language or None)
    except ValueError as error:
        raise SourceError(
            f"a text is in the language {language!r}, which RDF cannot hold ({error}); triples "
            "(.tsv) and texts (.jsonl) can be written"
        ) from error


def _iri(name: str, base: str) -> ox.NamedNode:
    """An absolute IRI stays; any other name comes after `base`, what may not stand there as %XX."""
    if _ABSOLUTE.match(name):
        try:
            return ox.NamedNode(name)
        except ValueError:
            pass  # looks like one, is none
    return ox.NamedNode(base + _FORBIDDEN.sub(lambda match: quote(match[0], safe=""), name))


_WRITERS: dict[str, Callable[[KnowledgeGraph, Path, str, bool], int]] = {
    ".tsv": lambda graph, path, base, force: tsv.write(graph, path, force=force),
    ".jsonl": lambda graph, path, base, force: jsonl.write(graph, path, force=force),
    ".parquet": _write_parquet,
    ".nt": _write_rdf,
    ".ttl": _write_rdf,
    ".graphml": _write_graphml,
    ".safetensors": _write_tensors,
}
LIBRARIES = {"networkx": ".graphml", "pyg": ".safetensors", "dgl": ".safetensors"}
"""Names that people know, and what is written for them."""
PROGRAMS: dict[str, Callable[..., int]] = {"lightrag": lightrag.write, "graphrag": graphrag.write}
"""Programs whose own graph is written; `kept kg build` reads it as the same graph again."""
