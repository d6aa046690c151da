"""Records to the columns of a graph through DuckDB, which spills to the disk what its memory lacks.

`SpilledColumns` stands in the place of `kg_loaders.assembly.Columns`: the same records give the
same graph, byte for byte. Names are kept as bytes, so that they sort by code point. What comes out
is written into files as it comes and mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kg_loaders.assembly import MAX_LANGUAGES, MAX_NODES, MAX_TRIPLES
from kg_loaders.disk.folder import Manifest
from kg_loaders.errors import MissingPackageError, SourceError
from kg_loaders.indexing import GraphFields, hashes_of
from kg_loaders.large.files import ArrayFile, DegreesFile, StringsFile
from kg_loaders.reading.blocks import Block, TextBlock, TripleBlock
from kg_loaders.reading.languages import normal_tag
from kg_loaders.records import Record, Text, Triple
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary, strings

ROWS_AT_ONCE = 1 << 17
PROCESS_BYTES = 160 << 20
"""What the process holds beside DuckDB's rows: Python, Arrow and DuckDB themselves, the block of
lines at hand, and what DuckDB does not count."""
LEAST_BYTES = PROCESS_BYTES + (64 << 20)
"""Below this DuckDB cannot sort at all."""
_TABLES = """
CREATE TABLE triples (head BLOB, relation BLOB, tail BLOB);
CREATE TABLE texts (
    of_relation BOOLEAN, node BLOB, kind UTINYINT, language VARCHAR, value BLOB, n INTEGER
);
"""
_NAMES = {
    "entities": "SELECT head AS name FROM triples UNION SELECT tail FROM triples "
    "UNION SELECT node FROM texts WHERE NOT of_relation",
    "relations": "SELECT relation AS name FROM triples "
    "UNION SELECT node FROM texts WHERE of_relation",
}
_NUMBERED = (
    (
        "CREATE TABLE of_heads AS SELECT h.id AS h, relation, tail FROM triples "
        "JOIN entities h ON h.name = head"
    ),
    "DROP TABLE triples",
    (
        "CREATE TABLE of_relations AS SELECT h, r.id AS r, tail FROM of_heads "
        "JOIN relations r ON r.name = relation"
    ),
    "DROP TABLE of_heads",
    (
        "CREATE TABLE of_tails AS SELECT h, r, t.id AS t FROM of_relations "
        "JOIN entities t ON t.name = tail"
    ),
    "DROP TABLE of_relations",
    "CREATE TABLE numbered AS SELECT DISTINCT h, r, t FROM of_tails",
    "DROP TABLE of_tails",
)
"""Triples of names to different triples of numbers."""


class SpilledColumns:
    """Records as they come, in a database in `folder`.

    A process that does nothing else holds at most `memory_bytes` of memory that no file backs; what
    it held before comes on top. Pages of the files that are written and mapped stay in memory while
    there is room: the system drops them when others need it.

    Raises `MissingPackageError` without DuckDB, and `SourceError` below `LEAST_BYTES`.
    """

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        if memory_bytes < LEAST_BYTES:
            raise SourceError(
                f"{memory_bytes} bytes are too little to sort in; give {LEAST_BYTES >> 20}M or more"
            )
        try:
            import duckdb
        except ImportError as error:
            raise MissingPackageError(
                "building beyond memory needs duckdb: pip install 'kept[duckdb]'"
            ) from error
        self._folder = folder
        self._db: Any = duckdb.connect(str(folder / "rows.duckdb"))
        self._db.execute(f"SET memory_limit='{memory_bytes - PROCESS_BYTES}B'; SET threads=1")
        spilled = str(folder / "spilled").replace("'", "''")
        self._db.execute(f"SET temp_directory='{spilled}'")
        self._db.execute("SET preserve_insertion_order=false; SET enable_progress_bar=false")
        self._db.execute(_TABLES)
        self.n_records = 0

    def add(self, records: Iterable[Record | Block]) -> None:
        """Take records in; `SourceError` beyond two thousand million triples."""
        triples: list[Triple] = []
        texts: list[Text] = []
        for record in records:
            if isinstance(record, Triple):
                triples.append(record)
            elif isinstance(record, Text):
                texts.append(record)
            elif isinstance(record, TripleBlock):
                self._insert("triples", _triple_table(record))
            else:
                self._insert("texts", _text_table(record))
            if len(triples) + len(texts) >= ROWS_AT_ONCE:
                self._add_records(triples, texts)
        self._add_records(triples, texts)

    def _add_records(self, triples: list[Triple], texts: list[Text]) -> None:
        if triples:
            columns = zip(*triples, strict=True)
            names = ("head", "relation", "tail")
            table = {n: _bytes(strings(c)) for n, c in zip(names, columns, strict=True)}
            self._insert("triples", pa.table(table))
        if texts:
            self._insert("texts", _records_table(texts))
        triples.clear()
        texts.clear()

    def _insert(self, name: str, rows: pa.Table) -> None:
        self._db.register("rows_now", rows)
        self._do(f"INSERT INTO {name} SELECT * FROM rows_now")
        self._db.unregister("rows_now")
        self.n_records += len(rows)

    def fields(
        self, *, languages: Sequence[str], sources: Sequence[str] = (), licence: str = ""
    ) -> GraphFields:
        """Sort names and rows, drop duplicates; what is left is mapped from files in the folder."""
        languages = [*map(normal_tag, languages)]
        rows = self._rows("SELECT DISTINCT language FROM texts")
        seen = {name for batch in rows for name in batch.column(0).to_pylist()}
        names = [*dict.fromkeys(languages), *sorted(seen.difference(languages))]
        if len(names) > MAX_LANGUAGES:
            raise SourceError(
                f"texts in {len(names)} languages, and a graph holds at most {MAX_LANGUAGES}; name "
                "those you need (--language)"
            )
        entities, relations = self._vocabulary("entities"), self._vocabulary("relations")
        triples, out_offsets, in_offsets, in_order = self._triples(len(entities))
        ranks = pa.table({"language": names, "rank": pa.array(range(len(names)), pa.int16())})
        self._db.register("languages", ranks)
        texts = (
            self._texts("entities", len(entities), names),
            self._texts("relations", len(relations), names),
        )
        hashes = hashes_of(triples, entities, relations, texts, names)
        manifest = Manifest(
            n_entities=len(entities), n_relations=len(relations), n_triples=len(triples),
            n_entity_texts=len(texts[0]), n_relation_texts=len(texts[1]), languages=tuple(names),
            preferred=tuple(languages), sources=tuple(sources), licence=licence,
            **hashes,
        )  # fmt: skip
        self._db.close()
        return {
            "triples": triples, "entities": entities, "relations": relations,
            "entity_texts": texts[0], "relation_texts": texts[1], "out_offsets": out_offsets,
            "in_offsets": in_offsets, "in_order": in_order, "manifest": manifest,
        }  # fmt: skip

    def _do(self, sql: str) -> None:
        with self._faults():
            self._db.execute(sql)

    def _rows(self, sql: str) -> Iterator[pa.RecordBatch]:
        with self._faults():
            yield from self._db.sql(sql).to_arrow_reader(ROWS_AT_ONCE)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """What DuckDB cannot do, a full disk or too little memory, as one of our errors."""
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise SourceError(
                f"{self._folder}: DuckDB gave up ({reason}); make room on the disk, or give it "
                "more memory (--beyond-memory)"
            ) from error

    def _vocabulary(self, kind: str) -> Vocabulary:
        """Number the names in the order of their bytes, in a table of the database, too."""
        self._do(
            f"CREATE TABLE {kind} AS SELECT name, (row_number() OVER (ORDER BY name) - 1)::INTEGER "
            f"AS id FROM ({_NAMES[kind]})"
        )
        column = StringsFile(self._folder / kind)
        for batch in self._rows(f"SELECT name FROM {kind} ORDER BY id"):
            column.add(batch.column(0))
        names = column.mapped()
        if len(names) > MAX_NODES:
            raise SourceError(f"a graph holds at most {MAX_NODES} entities")
        return Vocabulary(names)

    def _triples(self, n_entities: int) -> tuple[NDArray[Any], ...]:
        """Triples, offsets of heads and of tails, and rows by tail, relation and head."""
        for sql in _NUMBERED:  # one hash table at a time is in memory
            self._do(sql)
        triples = ArrayFile(self._folder / "triples", np.int32)
        heads, tails = (DegreesFile(self._folder / name, n_entities) for name in ("out", "in"))
        for batch in self._rows("SELECT h, r, t FROM numbered ORDER BY h, r, t"):
            columns = [column.to_numpy() for column in batch.columns]
            triples.add(np.stack(columns, axis=1).astype(np.int32))
            heads.count(columns[0])
            tails.count(columns[2])
        if triples.n_values // 3 > MAX_TRIPLES:
            raise SourceError(f"a graph holds at most {MAX_TRIPLES} triples")
        order = ArrayFile(self._folder / "in_order", np.int32)
        by_tail = (
            "SELECT row FROM (SELECT *, (row_number() OVER (ORDER BY h, r, t) - 1)::INTEGER AS row "
            "FROM numbered) ORDER BY t, r, row"
        )
        for batch in self._rows(by_tail):
            order.add(batch.column(0).to_numpy())
        self._do("DROP TABLE numbered")
        rows = triples.mapped().reshape(-1, 3)
        return rows, heads.offsets(), tails.offsets(), order.mapped()

    def _texts(self, kind: str, n_nodes: int, names: Sequence[str]) -> Texts:
        """Sorted by (node, kind, language, -count, value); of equal texts the highest count."""
        where = "of_relation" if kind == "relations" else "NOT of_relation"
        sql = (
            "SELECT id, kind, rank, max(n) AS n, value FROM texts JOIN languages USING (language) "
            f"JOIN {kind} ON name = node WHERE {where} GROUP BY id, kind, rank, value "
            "ORDER BY id, kind, rank, n DESC, value"
        )
        values = StringsFile(self._folder / f"{kind}-values")
        columns = [
            ArrayFile(self._folder / f"{kind}-{name}", dtype)
            for name, dtype in (("kinds", np.uint8), ("languages", np.int16), ("counts", np.int32))
        ]
        degrees = DegreesFile(self._folder / f"{kind}-texts", n_nodes)
        for batch in self._rows(sql):
            degrees.count(batch.column(0).to_numpy())
            for number, column in enumerate(columns, 1):
                column.add(batch.column(number).to_numpy())
            values.add(batch.column(4))
        kinds, languages, counts = (column.mapped() for column in columns)
        return Texts(
            offsets=degrees.offsets(),
            kinds=kinds, languages=languages, counts=counts, values=values.mapped(),
            language_names=names,
        )  # fmt: skip


def _bytes(values: pa.StringArray) -> pa.LargeBinaryArray:
    return values.cast(pa.large_string()).cast(pa.large_binary())


def _triple_table(block: TripleBlock) -> pa.Table:
    ends: NDArray[Any] = block.ends
    names = block.entities
    if isinstance(names, str):
        used, places = np.unique(ends, return_inverse=True)
        ends = places.reshape(ends.shape)
        names = pa.array([f"{names}{number}" for number in used.tolist()], pa.string())
    entities, relations = _bytes(names), _bytes(block.relations)
    return pa.table(
        {
            "head": entities.take(pa.array(ends[:, 0])),
            "relation": relations.take(pa.array(block.relation_ids)),
            "tail": entities.take(pa.array(ends[:, 1])),
        }
    )


def _languages(names: Iterable[str]) -> pa.StringArray:
    return pa.array(map(normal_tag, names), pa.string())


def _text_table(block: TextBlock) -> pa.Table:
    n = len(block.kinds)
    counts = np.zeros(n, np.int32) if block.counts is None else block.counts
    return pa.table(
        {
            "of_relation": pa.array(np.full(n, block.is_relation)),
            "node": _bytes(block.nodes).take(pa.array(block.node_ids)),
            "kind": pa.array(block.kinds),
            "language": _languages(block.languages).take(pa.array(block.language_ids)),
            "value": _bytes(block.values),
            "n": pa.array(counts, pa.int32()),
        }
    )


def _records_table(texts: Sequence[Text]) -> pa.Table:
    nodes, kinds, values, languages, counts, of_relation = zip(*texts, strict=True)
    return pa.table(
        {
            "of_relation": pa.array(of_relation, pa.bool_()),
            "node": _bytes(strings(nodes)),
            "kind": pa.array(list(map(int, kinds)), pa.uint8()),
            "language": _languages(languages),
            "value": _bytes(strings(values)),
            "n": pa.array(counts, pa.int32()),
        }
    )
