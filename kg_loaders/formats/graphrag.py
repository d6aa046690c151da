"""GraphRAG's graph: a folder with `entities.parquet` and `relationships.parquet`.

    entities        id, human_readable_id, title, type, description, text_unit_ids, frequency,
                    degree
    relationships   id, human_readable_id, source, target, description, weight, combined_degree,
                    text_unit_ids (Microsoft's GraphRAG from 1.0 on; 0.x called them
                    `create_final_entities.parquet`, `create_final_relationships.parquet`)

`source` and `target` are titles; an entity goes by its title, and a relationship, which names no
relation, is `related`, which is noted, as is its description, which is left out. What kept writes
has one more column (`kg_loaders.formats.round_trip`), with which the same graph is read again.
Text units, communities, reports and vectors are not read or written. A row is the unit.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import whole_folder
from kg_loaders.errors import KgError, SourceError
from kg_loaders.formats.round_trip import (
    NOTE,
    RELATION_NOTE,
    UNTYPED,
    EdgeNote,
    NodeNote,
    descriptions,
    edge_note,
    entity_type,
    node_names,
    node_note,
    relation_note,
    relation_texts,
)
from kg_loaders.formats.tables.parquet import require_affordable
from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import KnowledgeGraph

ENTITIES = ("entities.parquet", "create_final_entities.parquet")
RELATIONSHIPS = ("relationships.parquet", "create_final_relationships.parquet")
"""The names of the two files, those of now first."""
UNKNOWN_RELATION = "related"
ROWS_AT_ONCE = 1 << 14
_SPACE = uuid.UUID("8f4f9f1e-0a77-5a0e-9c3f-6f2d0c9a3b11")
"""Of the ids that kept writes: the same graph has the same."""
_LIST = pa.list_(pa.string())
_ENTITY = pa.schema([
    ("id", pa.string()), ("human_readable_id", pa.int64()), ("title", pa.string()),
    ("type", pa.string()), ("description", pa.string()), ("text_unit_ids", _LIST),
    ("frequency", pa.int64()), ("degree", pa.int64()), (NOTE, pa.string()),
])  # fmt: skip
_RELATIONSHIP = pa.schema([
    ("id", pa.string()), ("human_readable_id", pa.int64()), ("source", pa.string()),
    ("target", pa.string()), ("description", pa.string()), ("weight", pa.float64()),
    ("combined_degree", pa.int64()), ("text_unit_ids", _LIST), (NOTE, pa.string()),
])  # fmt: skip


# ---- reading -------------------------------------------------------------------------------------
def is_folder(path: Path) -> bool:
    """Whether GraphRAG's two files are in a folder."""
    return all(_file(path, names) is not None for names in (ENTITIES, RELATIONSHIPS))


def read(path: str | Path, report: DamageReport) -> Iterator[Record]:
    """The entities and triples of a folder.

    Raises `SourceError` for a folder without the two files or a file without the columns,
    `BudgetError` for one that unfolds beyond the budget.
    """
    folder = Path(path)
    files = [_file(folder, names) for names in (ENTITIES, RELATIONSHIPS)]
    for file, known in zip(files, (ENTITIES, RELATIONSHIPS), strict=True):
        if file is None:
            raise SourceError(
                f"{folder} has no {known[0]}: give the folder that GraphRAG wrote, mostly `output`"
            )
    report.units = "rows"
    entities, relationships = files
    assert entities is not None
    assert relationships is not None
    names: dict[str, str] = {}
    for number, row in _rows(entities, ("title",), report):
        yield from _entity(entities, number, row, names, report)
    yield from _relations(relationships, report)
    n_unnamed = 0
    for number, row in _rows(relationships, ("source", "target"), report):
        for record in _relationship(relationships, number, row, names, report):
            n_unnamed += isinstance(record, Triple) and record.relation == UNKNOWN_RELATION
            yield record
    if n_unnamed:
        report.notes.append(
            f"{relationships}: {n_unnamed} relationships name no relation, which is "
            f"{UNKNOWN_RELATION!r}"
        )


def _file(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _rows(
    path: Path, needed: tuple[str, ...], report: DamageReport
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file with their numbers, from 1, each a text or None by column."""
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            missing = [name for name in needed if name not in schema.names]
            if missing:
                raise SourceError(
                    f"{path} has the columns {schema.names}, and no {missing[0]}: it is not "
                    "GraphRAG's"
                )
            require_affordable(path, file, report)
            wanted = [name for name in (*needed, "type", "description", NOTE)
                      if name in schema.names and _is_text(schema.field(name).type)]  # fmt: skip
            unfit = [name for name in needed if name not in wanted]
            if unfit:
                raise SourceError(
                    f"{path}: column {unfit[0]!r} holds {schema.field(unfit[0]).type}, no names"
                )
            number = 0
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted):
                columns = {name: batch.column(name).cast(pa.string()).to_pylist()
                           for name in wanted}  # fmt: skip
                for row in range(batch.num_rows):
                    number += 1
                    report.n_lines += 1
                    yield number, {name: values[row] for name, values in columns.items()}
    except KgError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{path} cannot be read as Parquet: {reason}; write it again") from error


def _is_text(kind: Any) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return plain in (pa.string(), pa.large_string())


def _entity(
    path: Path, number: int, row: dict[str, Any], names: dict[str, str], report: DamageReport
) -> Iterator[Record]:
    """The texts of one entity; its title is what relationships call it."""
    title = row["title"]
    if not title:
        report.reject(str(path), number, 0, "an entity without a title", repr(row).encode()[:200])
        return
    fields = {name: row.get(name) or "" for name in ("type", "description")}
    note = NodeNote.of(row.get(NOTE) or "")
    if note is not None:
        names[title] = note.id
        records = note.records(fields, lambda value: [value])
    else:
        records = [Text(title, TextKind.LABEL, title)]
        if fields["type"] and fields["type"] != UNTYPED:
            records.append(Text(title, TextKind.TYPE, fields["type"]))
        if fields["description"].strip():
            records.append(Text(title, TextKind.DESCRIPTION, fields["description"]))
    if not records:
        report.skip("entity that its relationships name")
        return
    report.n_further += len(records) - 1
    yield from records


def _relations(path: Path, report: DamageReport) -> Iterator[Record]:
    """The texts of relations, which a file of kept has in its schema."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError, ValueError):
        return  # its rows say what is wrong with it
    note = metadata.get(RELATION_NOTE.encode())
    texts = [] if note is None else relation_texts(note.decode(errors="replace")) or []
    report.n_further += len(texts)
    yield from texts


def _relationship(
    path: Path, number: int, row: dict[str, Any], names: dict[str, str], report: DamageReport
) -> Iterator[Record]:
    """The triples of one relationship."""
    source, target = row["source"], row["target"]
    if not source or not target:
        raw = repr(row).encode()[:200]
        report.reject(str(path), number, 0, "a relationship without source or target", raw)
        return
    note = EdgeNote.of(row.get(NOTE) or "")
    if note is not None and note.triples:
        report.n_further += len(note.triples) - 1
        yield from note.triples
        return
    if (row.get("description") or "").strip():
        report.n_further += 1
        report.skip("description of a relationship")
    yield Triple(names.get(source, source), UNKNOWN_RELATION, names.get(target, target))


# ---- writing -------------------------------------------------------------------------------------
def write(graph: KnowledgeGraph, folder: str | Path, *, force: bool = False) -> int:
    """Write the folder whole or not at all; returns the number of triples.

    `force` replaces a folder of GraphRAG's two files and nothing else.
    """
    names = node_names(graph)
    with whole_folder(
        folder, kind="a graph of GraphRAG", is_kind=_is_only_that, force=force
    ) as part:
        pq.write_table(_entity_table(graph, names), part / ENTITIES[0])
        pq.write_table(_relationship_table(graph, names), part / RELATIONSHIPS[0])
    return graph.n_triples


def _is_only_that(path: Path) -> bool:
    return {each.name for each in path.iterdir()} == {ENTITIES[0], RELATIONSHIPS[0]}


def _degrees(graph: KnowledgeGraph) -> Counter[int]:
    """How many others each entity has a triple with, as GraphRAG counts."""
    ends = {tuple(sorted((row[0], row[2]))) for row in graph.triples.tolist()}
    return Counter(end for pair in ends for end in set(pair))


def _entity_table(graph: KnowledgeGraph, names: list[str]) -> pa.Table:
    degrees, rows = _degrees(graph), []
    for number, name in enumerate(names):
        text = "\n".join(descriptions(graph, number)) or name
        fields = {"type": entity_type(graph, number), "description": text}
        rows.append({
            "id": str(uuid.uuid5(_SPACE, graph.entities.name(number))),
            "human_readable_id": number, "title": name, **fields, "text_unit_ids": [],
            "frequency": 1, "degree": degrees[number],
            NOTE: node_note(graph, number, fields),
        })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_ENTITY)


def _relationship_table(graph: KnowledgeGraph, names: list[str]) -> pa.Table:
    by_ends: dict[tuple[int, int], list[list[int]]] = {}
    for row in graph.triples.tolist():
        by_ends.setdefault((row[0], row[2]), []).append(row)
    degrees, rows = _degrees(graph), []
    for number, ((head, tail), triples) in enumerate(by_ends.items()):
        sentences = [
            f"{names[head]} {graph.relation_label(row[1])} {names[tail]}" for row in triples
        ]
        key = f"{graph.entities.name(head)}\0{graph.entities.name(tail)}"
        rows.append({
            "id": str(uuid.uuid5(_SPACE, key)), "human_readable_id": number,
            "source": names[head], "target": names[tail], "description": "\n".join(sentences),
            "weight": float(len(triples)), "combined_degree": degrees[head] + degrees[tail],
            "text_unit_ids": [], NOTE: edge_note(graph, triples, {}),
        })  # fmt: skip
    metadata = {RELATION_NOTE: relation_note(graph)}
    return pa.Table.from_pylist(rows, schema=_RELATIONSHIP.with_metadata(metadata))
