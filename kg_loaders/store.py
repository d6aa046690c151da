"""`KnowledgeGraph`: triples, vocabularies and texts, in memory or mapped from a folder.

`kg_loaders.disk.folder` describes the files. Axis legend: triple, entity, relation, node, text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kg_loaders.assembly import DEFAULT_LANGUAGES, Columns
from kg_loaders.counting import counted
from kg_loaders.disk import folder as disk
from kg_loaders.disk.folder import FORMAT_VERSION, Manifest
from kg_loaders.disk.keys import sorted_distinct
from kg_loaders.disk.threads import together
from kg_loaders.entity import Entity, entity_named, facts_of
from kg_loaders.errors import GraphMismatchError, SourceError, StoreError, UnknownNodeError
from kg_loaders.indexing import hashes_of, indexed
from kg_loaders.makers import makers
from kg_loaders.notebook import N_SHOWN, table
from kg_loaders.records import Text, TextKind, Triple, checked_triples
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary, node_id, rows_of_ids

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import rdflib

__all__ = ["FORMAT_VERSION", "KnowledgeGraph", "Manifest", "Texts", "Vocabulary", "assemble"]

_ARRAYS = ("triples", "out_offsets", "in_offsets", "in_order")
_TRIPLES_PER_STEP = 65_536
_TEXT_COLUMNS = ("offsets", "kinds", "languages", "counts", "values")

_INSTEAD = {
    "add": "kept.open([*graph, (head, relation, tail)]), since a graph does not change",
    "ask": "kept.ask(question, graph)",
    "get": "graph[NAME], and NAME in graph",
    "link": "kept.link(text, graph)",
    "neighbors": "graph[NAME].neighbours",
    "neighbours": "graph[NAME].neighbours",
    "nodes": "graph.entities",
    "edges": "graph.triples, or iterate over the graph",
    "query": "`kept kg query` with SPARQL, or kept.ask(question, graph)",
    "search": "kept.link(text, graph, misspelt=True)",
    "to_networkx": "kept.kg_to_networkx(graph)",
    "to_rdf": "`kept kg export`",
}
"""What people look for under names that a graph does not have, and where it is."""


class KnowledgeGraph:
    """An immutable knowledge graph with integer ids, CSR in both directions and texts.

    Shapes: `triples` int32 `[triple 3]`; `out_offsets`, `in_offsets` int64 `[entity+1]`;
    `in_order` int32 `[triple]`. `folder` is where it was opened from, None in memory.
    """

    def __new__(cls, *rows: object, **parts: object) -> Self:
        """A graph of its parts; rows of Python are for `from_triples`."""
        if rows:
            raise TypeError("a graph of rows is made by KnowledgeGraph.from_triples(rows)")
        return super().__new__(cls)

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
        folder: Path | None = None,
    ) -> None:
        self.triples, self.entities, self.relations = triples, entities, relations
        self.entity_texts, self.relation_texts = entity_texts, relation_texts
        self.out_offsets, self.in_offsets, self.in_order = out_offsets, in_offsets, in_order
        self.manifest, self.folder = manifest, folder

    if not TYPE_CHECKING:  # for a type checker there are no other attributes

        def __getattr__(self, name: str) -> Any:
            hint = f"; use {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(f"a KnowledgeGraph has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({counted(self.n_entities, 'entities')}, "
            f"{counted(self.n_relations, 'relations')}, "
            f"{counted(self.n_triples, 'triples')}, {self.content_hash[:12]})"
        )

    def _repr_html_(self) -> str:
        rows = (
            (self.label(head), self.relation_label(relation), self.label(tail))
            for head, relation, tail in self.triples[:N_SHOWN].tolist()
        )
        return table(repr(self), ("head", "relation", "tail"), rows, self.n_triples)

    @property
    def n_entities(self) -> int:
        return len(self.entities)

    @property
    def n_relations(self) -> int:
        return len(self.relations)

    @property
    def n_triples(self) -> int:
        return len(self.triples)

    @property
    def content_hash(self) -> str:
        """Hash of everything the graph says; sources, licence and storage do not enter."""
        return self.manifest.content_hash

    @property
    def id_space_hash(self) -> str:
        """Hash of both vocabularies: graphs that share it share their ids."""
        return self.manifest.id_space_hash

    def require_id_space(self, id_space_hash: str, *, of: str = "this model") -> None:
        """Raise `GraphMismatchError` unless ids of `of` mean the same here."""
        if id_space_hash != self.id_space_hash:
            raise GraphMismatchError(
                f"{of} was made with the ids of graph {id_space_hash}, but {self} has "
                f"{self.id_space_hash}; open the graph it was made with, or make it again"
            )

    # ---- by names ----------------------------------------------------------
    @classmethod
    def from_triples(
        cls,
        triples: Iterable[tuple[str, str, str]],
        labels: Mapping[str, str] | None = None,
        *,
        types_of_facts: bool = True,
    ) -> KnowledgeGraph:
        """Return the graph of (head, relation, tail), in memory.

        `labels` name entities and relations; what has none goes by its identifier. With
        `types_of_facts` entities have the types that facts say ("instance of", P31, rdf:type).

        >>> triples = [("Q90", "P17", "Q142")]
        >>> graph = KnowledgeGraph.from_triples(triples, {"Q90": "Paris", "P17": "country"})
        >>> graph.facts("Paris")
        [('Paris', 'country', 'Q142')]
        """
        if hasattr(triples, "itertuples"):
            raise SourceError("from_triples takes rows; of a data frame give from_pandas(frame)")
        rows = list(checked_triples(triples))
        relations = {row.relation for row in rows}
        entities = {end for row in rows for end in (row.head, row.tail)}
        columns = Columns()
        columns.add(rows)
        for node, label in (labels or {}).items():
            if node not in entities and node not in relations:
                raise UnknownNodeError(f"the label {label!r} is of {node!r}, which no triple has")
            for is_relation, nodes in ((False, entities), (True, relations)):
                if node in nodes:
                    columns.add([Text(node, TextKind.LABEL, label, is_relation=is_relation)])
        graph = cls(**columns.fields(languages=DEFAULT_LANGUAGES))
        return makers().typed_by_facts(graph) if types_of_facts else graph

    @classmethod
    def from_tsv(cls, path: str | Path, **options: Any) -> KnowledgeGraph:
        """Return the graph of a tab-separated file, in memory; see `kg_loaders.open_graph`."""
        return _opened(path, "tsv", options)

    @classmethod
    def from_csv(cls, path: str | Path, **options: Any) -> KnowledgeGraph:
        """Return the graph of a comma-separated file, in memory; see `kg_loaders.open_graph`."""
        return _opened(path, "csv", options)

    @classmethod
    def from_rdf(cls, path: str | Path | rdflib.Graph, **options: Any) -> KnowledgeGraph:
        """Return the graph of a file in any RDF syntax, or of an rdflib graph, in memory.

        `options` are those of `kg_loaders.open_graph`.
        """
        return _opened(path, "rdf", options)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], **options: Any) -> KnowledgeGraph:
        """Return the graph of a networkx graph; see `kg_loaders.opening.from_networkx`."""
        result: KnowledgeGraph = makers().from_networkx(graph, **options)
        return result

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, **options: Any) -> KnowledgeGraph:
        """Return the graph of a data frame; see `kg_loaders.opening.from_pandas`."""
        result: KnowledgeGraph = makers().from_pandas(frame, **options)
        return result

    def named(self, name: str) -> list[int]:
        """Return the ids of the entities whose identifier, label or alias is `name`, sorted.

        >>> from kg_loaders import atlas
        >>> world = atlas.graph()
        >>> [world.entities.name(i) for i in world.named("Paris")]
        ['Q830149', 'Q90']
        """
        entity = self.entities.find(name)
        return sorted({*self.entity_texts.named(name), *([] if entity is None else [entity])})

    def facts(self, name: str | Entity) -> list[tuple[str, str, str]]:
        """Return the triples, in words, whose head or tail is an entity called `name`.

        Entities that share a label have their identifier behind it. Raises `UnknownNodeError`
        where there is no such entity.
        """
        if isinstance(name, Entity):
            return name.facts
        ids = self.named(name)
        return facts_of(self, ids) if ids else self[name].facts  # which says what is near

    # ---- as a collection of triples ----------------------------------------
    def __len__(self) -> int:
        """The number of triples."""
        return self.n_triples

    def __bool__(self) -> bool:
        """A graph is true, as any object; one without triples is empty by `len`."""
        return True

    def __iter__(self) -> Iterator[Triple]:
        """The triples by identifiers, sorted; `from_triples` takes them again."""
        entities, relations = self.entities.array.to_pylist(), self.relations.array.to_pylist()
        for start in range(0, self.n_triples, _TRIPLES_PER_STEP):
            for head, relation, tail in self.triples[start : start + _TRIPLES_PER_STEP].tolist():
                yield Triple(entities[head], relations[relation], entities[tail])

    def __contains__(self, item: object) -> bool:
        """Whether an entity has the identifier, label or alias `item`, or a triple is `item`."""
        if isinstance(item, str):
            return bool(self.named(item))
        if isinstance(item, Entity):
            return item.id in self.entities
        if isinstance(item, tuple) and len(item) == 3:
            ids = (self.entities.find, self.relations.find, self.entities.find)
            row = [
                find(part) if isinstance(part, str) else None
                for find, part in zip(ids, item, strict=True)
            ]
            return None not in row and bool(self.contains(np.array([row], np.int32))[0])
        return False

    def __getitem__(self, name: str) -> Entity:
        """Return the entity with this identifier, label or alias.

        Raises `UnknownNodeError` for an unknown name and `AmbiguousNameError`, which lists them,
        where several entities have it.

        >>> graph = KnowledgeGraph.from_triples([("Q90", "P17", "Q142")], {"Q90": "Paris"})
        >>> graph["Paris"].neighbours
        [Entity('Q142', 'Q142')]
        """
        if not isinstance(name, str):
            raise UnknownNodeError(
                f"graph[{name!r}]: entities are looked up by identifier or name, which are "
                "strings; graph.triples[row] has rows by number"
            )
        return entity_named(self, name)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame, a row per triple: identifiers, then labels of its three parts."""
        frame: pd.DataFrame = makers().as_frame(self)
        return frame

    # ---- texts -------------------------------------------------------------
    def label(self, entity: int) -> str:
        """Best label, or the identifier itself when there is none."""
        labels = self.entity_texts.of(entity, TextKind.LABEL)
        return labels[0][0] if labels else self.entities.name(entity)

    def labels(self, entities: NDArray[np.integer[Any]]) -> list[str]:
        """`label` of many entities, at once.

        >>> graph = KnowledgeGraph.from_triples([("Q90", "P17", "Q142")], {"Q90": "Paris"})
        >>> graph.labels(np.array([1, 0]))
        ['Paris', 'Q142']
        """
        texts, ids = self.entity_texts, np.asarray(entities, np.int64)
        first, stop = np.asarray(texts.offsets)[ids], np.asarray(texts.offsets)[ids + 1]
        has_label = first < stop
        has_label[has_label] = np.asarray(texts.kinds)[first[has_label]] == TextKind.LABEL
        labels = np.empty(len(ids), object)
        labels[has_label] = texts.values.take(pa.array(first[has_label])).to_pylist()
        labels[~has_label] = self.entities.array.take(pa.array(ids[~has_label])).to_pylist()
        return list(labels)

    def relation_label(self, relation: int) -> str:
        """Best label of a relation, or its identifier."""
        labels = self.relation_texts.of(relation, TextKind.LABEL)
        return labels[0][0] if labels else self.relations.name(relation)

    def aliases(self, entity: int) -> list[tuple[str, int]]:
        """`(alias, count)` by language preference, the most frequent first."""
        return self.entity_texts.of(entity, TextKind.ALIAS)

    def description(self, entity: int) -> str | None:
        """Best description, or None."""
        descriptions = self.entity_texts.of(entity, TextKind.DESCRIPTION)
        return descriptions[0][0] if descriptions else None

    def types(self, entity: int) -> list[str]:
        """Types in stored order."""
        return [value for value, _ in self.entity_texts.of(entity, TextKind.TYPE)]

    def type_labels(self, entity: int) -> list[str]:
        """Types in stored order, each by its label where it is an entity of the graph.

        >>> graph = KnowledgeGraph.from_triples([("Q90", "P17", "Q142")], {"Q90": "Paris"})
        >>> graph.type_labels(0)
        []
        """
        types = [(name, self.entities.find(name)) for name in self.types(entity)]
        return [name if row is None else self.label(row) for name, row in types]

    # ---- triples -----------------------------------------------------------
    def outgoing(self, entity: int) -> NDArray[np.int32]:
        """Triples `[n 3]` whose head is `entity`."""
        entity = node_id(entity, self.n_entities)
        return self.triples[self.out_offsets[entity] : self.out_offsets[entity + 1]]

    def incoming(self, entity: int) -> NDArray[np.int32]:
        """Triples `[n 3]` whose tail is `entity`."""
        entity = node_id(entity, self.n_entities)
        rows = self.in_order[self.in_offsets[entity] : self.in_offsets[entity + 1]]
        return self.triples[rows]

    def find(self, triples: NDArray[np.int32]) -> NDArray[np.int64]:
        """The row of each of `triples [n 3]`, int64 `[n]`, -1 where it is not in the graph.

        One binary search among the triples of each head, all heads at once. Ids outside the
        vocabularies are at no row.
        """
        ids = rows_of_ids(triples)
        if not self.n_triples:
            return np.full(len(ids), -1)
        inside = (ids >= 0).all(axis=1) & (
            ids < (self.n_entities, self.n_relations, self.n_entities)
        ).all(axis=1)
        heads = np.where(inside, ids[:, 0], 0)
        low, high = self.out_offsets[heads], np.where(inside, self.out_offsets[heads + 1], 0)
        stop = high
        key = ids[:, 1] * self.n_entities + ids[:, 2]
        while (open_ := low < high).any():
            middle = np.where(open_, (low + high) // 2, 0)
            less = open_ & (self._tail_keys(middle) < key)
            low, high = np.where(less, middle + 1, low), np.where(open_ & ~less, middle, high)
        hit = inside & (low < stop)
        hit[hit] = self._tail_keys(low[hit]) == key[hit]
        return np.where(hit, low, -1)

    def _tail_keys(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        triples = self.triples[rows].astype(np.int64)
        return triples[:, 1] * self.n_entities + triples[:, 2]

    @cached_property
    def has_loop(self) -> NDArray[np.bool_]:
        """Which entities are head and tail of one triple, bool `[entity]`."""
        heads, tails = self.triples[:, 0], self.triples[:, 2]
        loops = np.zeros(self.n_entities, np.bool_)
        loops[heads[heads == tails]] = True
        return loops

    def contains(self, triples: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of `triples [n 3]` are in the graph, bool `[n]`."""
        return self.find(triples) >= 0

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
    def open(cls, path: str | Path, *, verify: bool = False, n_threads: int = 1) -> KnowledgeGraph:
        """Open a folder written by `save`, memory-mapped; `StoreError` when it cannot be trusted.

        The first opening reads and checks every byte, and makes both hashes anew; it is remembered
        (`kg_loaders.disk.seals`) until a file changes. `verify` does it in any case. `n_threads` do
        it together.
        """
        folder = Path(path).absolute()
        sealed, manifest, columns = disk.read(folder, verify=verify, n_threads=n_threads)
        texts = [
            Texts(
                **{name: columns[f"{kind}/{name}"] for name in _TEXT_COLUMNS},
                language_names=manifest.languages,
            )
            for kind in ("entity_texts", "relation_texts")
        ]
        graph = cls(
            **{name: columns[name] for name in _ARRAYS},
            entities=Vocabulary(columns["entities"]),
            relations=Vocabulary(columns["relations"]),
            entity_texts=texts[0],
            relation_texts=texts[1],
            manifest=manifest,
            folder=folder,
        )
        if not sealed.is_known:
            checks = disk.checks(sealed, manifest, columns)
            together(*checks, graph.require_own_hashes, n_threads=n_threads)
            sealed.remember()
        return graph

    def require_own_hashes(self) -> None:
        """Raise `StoreError` unless both hashes of the manifest are those of what the graph holds.

        Models are bound to these hashes: a forged one would pass another graph's ids for its own.
        """
        hashes = hashes_of(
            self.triples,
            self.entities,
            self.relations,
            (self.entity_texts, self.relation_texts),
            self.manifest.languages,
        )
        for name, value in hashes.items():
            if value != getattr(self.manifest, name):
                raise StoreError(
                    f"{self.folder or self!r} says that its {name} is "
                    f"{getattr(self.manifest, name)}, but what it holds has {value}; "
                    f"{disk.GRAPH.remedy}"
                )

    def save(self, path: str | Path, *, force: bool = False, n_threads: int = 1) -> None:
        """Write the folder, all or nothing; `force` replaces a graph that is there already."""
        columns: dict[str, Any] = {name: getattr(self, name) for name in _ARRAYS}
        columns |= {"entities": self.entities.array, "relations": self.relations.array}
        for kind in ("entity_texts", "relation_texts"):
            texts = getattr(self, kind)
            columns |= {f"{kind}/{name}": getattr(texts, name) for name in _TEXT_COLUMNS}
        disk.save(Path(path), self.manifest, columns, force=force, n_threads=n_threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Graphs from a folder travel to other processes as its path, others by value."""
        if self.folder is not None:
            return _reopen, (str(self.folder), self.content_hash)
        fields = {name: value for name, value in self.__dict__.items() if name != "has_loop"}
        return _restore, (fields,)


def _opened(path: str | Path, format: str, options: Mapping[str, Any]) -> KnowledgeGraph:
    graph: KnowledgeGraph = makers().open_graph(path, format=format, **options)
    return graph


def _reopen(path: str, content_hash: str) -> KnowledgeGraph:
    graph = KnowledgeGraph.open(path)
    if graph.content_hash != content_hash:
        raise GraphMismatchError(
            f"{path} held graph {content_hash} when it was passed on and has "
            f"{graph.content_hash} now; do not replace a graph that is in use"
        )
    return graph


def _restore(fields: dict[str, Any]) -> KnowledgeGraph:
    return KnowledgeGraph(**fields)


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
    distinct = sorted_distinct(triples, len(entities), len(relations))
    return KnowledgeGraph(
        **indexed(
            distinct, entities, relations, (entity_texts, relation_texts),
            languages=languages, sources=sources, licence=licence,
        )
    )  # fmt: skip
