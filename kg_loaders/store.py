"""`KnowledgeGraph`: a memory-mapped folder of triples, vocabularies and texts.

Folder layout (format version 1):

    manifest.json       format version, counts, hashes, sources, licence, languages, file checksums
    triples.npy         int32 [triple 3], head/relation/tail, sorted, distinct
    out_offsets.npy     int64 [entity+1]: triples of head e are rows out_offsets[e]:out_offsets[e+1]
    in_offsets.npy      int64 [entity+1] into in_order
    in_order.npy        int32 [triple]: triple rows sorted by (tail, relation, head)
    entities.arrow      identifiers, sorted by code point      relations.arrow   likewise
    entity_texts/       offsets.npy kinds.npy languages.npy counts.npy values.arrow (CSR by entity)
    relation_texts/     likewise

Axis legend: triple, entity, relation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kg_loaders.errors import StoreError, UnknownNodeError
from kg_loaders.records import Record, Text, TextKind, Triple

FORMAT_VERSION = 1


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a graph says of itself; `manifest.json` in its folder."""

    format_version: int = FORMAT_VERSION
    n_entities: int
    n_relations: int
    n_triples: int
    content_hash: str
    id_space_hash: str
    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    licence: str = ""
    checksums: dict[str, str] = {}


class Vocabulary:
    """Sorted, frozen strings; the id of a string is its rank.

    >>> v = Vocabulary.of(["Q2", "Q1", "Q2"])
    >>> v.id("Q2"), v.name(0), len(v)
    (1, 'Q1', 2)
    """

    def __init__(self, names: pa.LargeStringArray) -> None:
        self._names = names

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        return cls(pa.array(sorted(dict.fromkeys(names)), pa.large_string()))

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return (name.as_py() for name in self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} names)"

    @property
    def array(self) -> pa.LargeStringArray:
        """All names in id order."""
        return self._names

    def name(self, index: int) -> str:
        """The identifier with this id; IndexError outside `[0, len)`."""
        if not 0 <= index < len(self):
            raise IndexError(f"id {index} is outside this vocabulary of {len(self)} names")
        return str(self._names[index].as_py())

    def find(self, name: str) -> int | None:
        """The id of `name`, or None."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._names[middle].as_py() < name:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._names[low].as_py() == name else None

    def id(self, name: str) -> int:
        """The id of `name`; `UnknownNodeError` when it is not here."""
        index = self.find(name)
        if index is None:
            raise UnknownNodeError(f"{name!r} is not among the {len(self)} names of this graph")
        return index


class Texts:
    """Texts of every node, CSR by node id; order: kind, language preference, -count, value."""

    def __init__(
        self,
        *,
        offsets: NDArray[np.int64],
        kinds: NDArray[np.uint8],
        languages: NDArray[np.int16],
        counts: NDArray[np.int32],
        values: pa.LargeStringArray,
        language_names: Sequence[str],
    ) -> None:
        self.offsets, self.kinds, self.languages = offsets, kinds, languages
        self.counts, self.values, self.language_names = counts, values, tuple(language_names)

    def __len__(self) -> int:
        return len(self.kinds)

    def of(self, node: int, kind: TextKind, language: str | None = None) -> list[tuple[str, int]]:
        """`(value, count)` of one node, best first; of one language when it is named."""
        start, stop = int(self.offsets[node]), int(self.offsets[node + 1])
        return [
            (str(self.values[row].as_py()), int(self.counts[row]))
            for row in range(start, stop)
            if self.kinds[row] == kind
            and (language is None or self.language_names[self.languages[row]] == language)
        ]


class KnowledgeGraph:
    """An immutable knowledge graph with integer ids, CSR in both directions and texts.

    Shapes: `triples` int32 `[triple 3]`; `out_offsets`, `in_offsets` int64 `[entity+1]`;
    `in_order` int32 `[triple]`.
    """

    def __init__(
        self,
        *,
        triples: NDArray[np.int32],
        entities: Vocabulary,
        relations: Vocabulary,
        entity_texts: Texts,
        relation_texts: Texts,
        out_offsets: NDArray[np.int64],
        in_offsets: NDArray[np.int64],
        in_order: NDArray[np.int32],
        manifest: Manifest,
    ) -> None:
        self.triples, self.entities, self.relations = triples, entities, relations
        self.entity_texts, self.relation_texts = entity_texts, relation_texts
        self.out_offsets, self.in_offsets, self.in_order = out_offsets, in_offsets, in_order
        self.manifest = manifest

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({self.n_entities} entities, {self.n_relations} relations, "
            f"{self.n_triples} triples, {self.content_hash[:12]})"
        )

    n_entities = property(lambda self: len(self.entities))
    n_relations = property(lambda self: len(self.relations))
    n_triples = property(lambda self: len(self.triples))
    content_hash = property(lambda self: self.manifest.content_hash)
    id_space_hash = property(lambda self: self.manifest.id_space_hash)

    # ---- texts -------------------------------------------------------------
    def label(self, entity: int) -> str:
        """Best label, or the identifier itself when there is none."""
        found = self.entity_texts.of(entity, TextKind.LABEL)
        return found[0][0] if found else self.entities.name(entity)

    def relation_label(self, relation: int) -> str:
        """Best label of a relation, or its identifier."""
        found = self.relation_texts.of(relation, TextKind.LABEL)
        return found[0][0] if found else self.relations.name(relation)

    def aliases(self, entity: int) -> list[tuple[str, int]]:
        """`(alias, count)`, most frequent first."""
        return self.entity_texts.of(entity, TextKind.ALIAS)

    def description(self, entity: int) -> str | None:
        """Best description, or None."""
        found = self.entity_texts.of(entity, TextKind.DESCRIPTION)
        return found[0][0] if found else None

    def types(self, entity: int) -> list[str]:
        """Types in stored order."""
        return [value for value, _ in self.entity_texts.of(entity, TextKind.TYPE)]

    # ---- triples -----------------------------------------------------------
    def outgoing(self, entity: int) -> NDArray[np.int32]:
        """Triples `[n 3]` whose head is `entity`."""
        return self.triples[self.out_offsets[entity] : self.out_offsets[entity + 1]]

    def incoming(self, entity: int) -> NDArray[np.int32]:
        """Triples `[n 3]` whose tail is `entity`."""
        rows = self.in_order[self.in_offsets[entity] : self.in_offsets[entity + 1]]
        return self.triples[rows]

    def contains(self, triples: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of `triples [n 3]` are in the graph, bool `[n]`."""
        return np.isin(_keys(triples, self), _keys(self.triples, self), assume_unique=False)

    def with_triples(self, triples: NDArray[np.int32], *, note: str) -> KnowledgeGraph:
        """The same vocabularies and texts over other triples (a split, a shuffled control).

        The id space hash stays, the content hash changes; `note` is added to the sources.
        """
        return assemble(
            triples=np.asarray(triples, np.int32).reshape(-1, 3),
            entities=self.entities,
            relations=self.relations,
            entity_texts=self.entity_texts,
            relation_texts=self.relation_texts,
            languages=self.manifest.languages,
            sources=(*self.manifest.sources, note),
            licence=self.manifest.licence,
        )

    # ---- disk --------------------------------------------------------------
    @classmethod
    def open(cls, path: str | Path) -> KnowledgeGraph:
        """Open a folder written by `save`, memory-mapped."""
        folder = Path(path)
        manifest_path = folder / "manifest.json"
        if not manifest_path.is_file():
            raise StoreError(
                f"{folder} is not a knowledge graph: it has no manifest.json; "
                "make one with `kept kg build SOURCE -o DIR`"
            )
        manifest = msgspec.json.decode(manifest_path.read_bytes(), type=Manifest)
        if manifest.format_version != FORMAT_VERSION:
            raise StoreError(
                f"{folder} has format version {manifest.format_version}, this kept reads "
                f"{FORMAT_VERSION}; build it again from its sources"
            )
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r")
            for name in ("triples", "out_offsets", "in_offsets", "in_order")
        }
        return cls(
            **arrays,
            entities=Vocabulary(_read_strings(folder / "entities.arrow")),
            relations=Vocabulary(_read_strings(folder / "relations.arrow")),
            entity_texts=_read_texts(folder / "entity_texts", manifest.languages),
            relation_texts=_read_texts(folder / "relation_texts", manifest.languages),
            manifest=manifest,
        )

    def save(self, path: str | Path) -> None:
        """Write the folder; the folder must not exist yet."""
        folder = Path(path)
        folder.mkdir(parents=True)
        for name in ("triples", "out_offsets", "in_offsets", "in_order"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        _write_strings(folder / "entities.arrow", self.entities.array)
        _write_strings(folder / "relations.arrow", self.relations.array)
        _write_texts(folder / "entity_texts", self.entity_texts)
        _write_texts(folder / "relation_texts", self.relation_texts)
        checksums = {
            str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        manifest = msgspec.structs.replace(self.manifest, checksums=checksums)
        text = json.dumps(msgspec.to_builtins(manifest), indent=2, ensure_ascii=False)
        (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


def assemble(
    *,
    triples: NDArray[np.int32],
    entities: Vocabulary,
    relations: Vocabulary,
    entity_texts: Texts,
    relation_texts: Texts,
    languages: Sequence[str],
    sources: Sequence[str],
    licence: str,
) -> KnowledgeGraph:
    """Sort, deduplicate and index `triples [triple 3]` and compute both hashes."""
    triples = np.unique(triples, axis=0).astype(np.int32) if len(triples) else triples
    in_order = np.lexsort((triples[:, 0], triples[:, 1], triples[:, 2])).astype(np.int32)
    id_space, content = hashlib.sha256(), hashlib.sha256()
    for vocabulary in (entities, relations):
        for name in vocabulary:
            id_space.update(name.encode() + b"\n")
        id_space.update(b"\0")
    content.update(id_space.digest())
    content.update(np.ascontiguousarray(triples, dtype="<i4").tobytes())
    for texts in (entity_texts, relation_texts):
        content.update(np.ascontiguousarray(texts.offsets, dtype="<i8").tobytes())
        content.update(np.ascontiguousarray(texts.kinds).tobytes())
        content.update(np.ascontiguousarray(texts.counts, dtype="<i4").tobytes())
        for value in texts.values:
            content.update(value.as_py().encode() + b"\n")
    return KnowledgeGraph(
        triples=triples,
        entities=entities,
        relations=relations,
        entity_texts=entity_texts,
        relation_texts=relation_texts,
        out_offsets=_offsets(triples[:, 0], len(entities)),
        in_offsets=_offsets(triples[:, 2], len(entities)),
        in_order=in_order,
        manifest=Manifest(
            n_entities=len(entities),
            n_relations=len(relations),
            n_triples=len(triples),
            content_hash=content.hexdigest(),
            id_space_hash=id_space.hexdigest(),
            languages=tuple(languages),
            sources=tuple(sources),
            licence=licence,
        ),
    )


def graph_from_records(
    records: Iterable[Record],
    *,
    languages: Sequence[str] = ("en",),
    sources: Sequence[str] = (),
    licence: str = "",
) -> KnowledgeGraph:
    """Build a graph in memory; `languages` are preferred in that order, others follow sorted."""
    triples: list[Triple] = []
    texts: list[Text] = []
    for record in records:
        if isinstance(record, Triple):
            triples.append(record)
        else:
            texts.append(record)
    heads_and_tails = [name for t in triples for name in (t.head, t.tail)]
    entities = Vocabulary.of([*heads_and_tails, *(t.node for t in texts if not t.is_relation)])
    relations = Vocabulary.of(
        [*(t.relation for t in triples), *(t.node for t in texts if t.is_relation)]
    )
    entity_index = {name: i for i, name in enumerate(entities)}
    relation_index = {name: i for i, name in enumerate(relations)}
    rows = [(entity_index[h], relation_index[r], entity_index[t]) for h, r, t in triples]
    seen = dict.fromkeys(t.language for t in texts)
    names = [*languages, *sorted(name for name in seen if name not in languages)]
    return assemble(
        triples=np.array(rows, np.int32).reshape(-1, 3),
        entities=entities,
        relations=relations,
        entity_texts=_make_texts([t for t in texts if not t.is_relation], entity_index, names),
        relation_texts=_make_texts([t for t in texts if t.is_relation], relation_index, names),
        languages=names,
        sources=sources,
        licence=licence,
    )


def _make_texts(texts: list[Text], index: dict[str, int], languages: list[str]) -> Texts:
    rank = {name: i for i, name in enumerate(languages)}
    rows = sorted(
        dict.fromkeys(
            (index[t.node], int(t.kind), rank[t.language], -t.frequency, t.value) for t in texts
        )
    )
    return Texts(
        offsets=_offsets(np.array([r[0] for r in rows], np.int32), len(index)),
        kinds=np.array([r[1] for r in rows], np.uint8),
        languages=np.array([r[2] for r in rows], np.int16),
        counts=np.array([-r[3] for r in rows], np.int32),
        values=pa.array([r[4] for r in rows], pa.large_string()),
        language_names=languages,
    )


def _offsets(sorted_or_not: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    counts = (
        np.bincount(sorted_or_not, minlength=n) if len(sorted_or_not) else np.zeros(n, np.int64)
    )
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _keys(triples: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.int64]:
    wide = np.asarray(triples, np.int64)
    keys: NDArray[np.int64] = (
        wide[:, 0] * graph.n_relations + wide[:, 1]
    ) * graph.n_entities + wide[:, 2]
    return keys


def _write_strings(path: Path, values: pa.LargeStringArray) -> None:
    table = pa.table({"value": values})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def _read_strings(path: Path) -> pa.LargeStringArray:
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    column = table.column("value")
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _write_texts(folder: Path, texts: Texts) -> None:
    folder.mkdir()
    for name in ("offsets", "kinds", "languages", "counts"):
        np.save(folder / f"{name}.npy", getattr(texts, name))
    _write_strings(folder / "values.arrow", texts.values)


def _read_texts(folder: Path, languages: Sequence[str]) -> Texts:
    arrays: dict[str, Any] = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r")
        for name in ("offsets", "kinds", "languages", "counts")
    }
    return Texts(**arrays, values=_read_strings(folder / "values.arrow"), language_names=languages)
