"""Records and blocks of them, as they come, to the fields of a `KnowledgeGraph`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numbers_array, numpy_of
from kg_loaders.disk.keys import distinct_keys, packed, sorted_distinct, unpacked
from kg_loaders.disk.string_order import sorted_strings
from kg_loaders.disk.threads import together
from kg_loaders.errors import SourceError
from kg_loaders.indexing import GraphFields, indexed, offsets_of
from kg_loaders.reading.blocks import (
    Block,
    Ids,
    TextBlock,
    TripleBlock,
    distinct_ids,
)
from kg_loaders.reading.languages import normal_tag
from kg_loaders.reading.names import Names
from kg_loaders.records import Record, Text, Triple
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary, strings

DEFAULT_LANGUAGES = ("en",)
MAX_NODES = MAX_TRIPLES = 2**31 - 1
MAX_LANGUAGES = 2**15 - 1


class Columns:
    """Records as they come, in flat arrays with provisional ids; `fields` sorts and seals them.

    By `n_threads`, which make the same graph.
    """

    def __init__(self, n_threads: int = 1) -> None:
        self._n_threads = n_threads
        self._entities, self._relations = Names(n_threads), Names(n_threads)
        self._triples = array("i")
        self._ends: list[Ids] = []
        self._relation_ids: list[Ids] = []
        self._texts = (_TextColumns(), _TextColumns())

    @property
    def n_records(self) -> int:
        """Records added so far, duplicates included."""
        return self._n_triples + sum(len(texts) for texts in self._texts)

    @property
    def _n_triples(self) -> int:
        return len(self._triples) // 3 + sum(map(len, self._relation_ids))

    def add(self, records: Iterable[Record | Block]) -> None:
        """Take records in; `SourceError` beyond two thousand million triples."""
        entities, relations = self._entities.ids, self._relations.ids
        extend, entity_id, relation_id = (
            self._triples.extend, entities.setdefault, relations.setdefault,
        )  # fmt: skip
        for record in records:
            if isinstance(record, Triple):
                head, relation, tail = record
                extend(
                    (
                        entity_id(head, len(entities)),
                        relation_id(relation, len(relations)),
                        entity_id(tail, len(entities)),
                    )
                )
            elif isinstance(record, Text):
                ids = relations if record.is_relation else entities
                node = ids.setdefault(record.node, len(ids))
                self._texts[record.is_relation].add(node, record)
            elif isinstance(record, TripleBlock):
                self._ends.append(self._entities.add_block(record.entities, record.ends))
                self._relation_ids.append(
                    self._relations.add_block(record.relations, record.relation_ids)
                )
            else:
                names = self._relations if record.is_relation else self._entities
                nodes = names.add_block(record.nodes, record.node_ids)
                self._texts[record.is_relation].add_block(nodes, record)
        if self._n_triples > MAX_TRIPLES or len(self._entities) > MAX_NODES:
            raise SourceError(f"a graph holds at most {MAX_TRIPLES} triples and as many entities")

    def fields(
        self, *, languages: Sequence[str], sources: Sequence[str] = (), licence: str = ""
    ) -> GraphFields:
        """Sort names and rows, drop duplicates, and empty these columns.

        `KnowledgeGraph(**fields)` holds the result. `languages` are preferred in that order, others
        follow sorted.
        """
        (entities, entity_ranks), (relations, relation_ranks) = self._sort_names()
        languages = [*map(normal_tag, languages)]
        seen = {normal_tag(name) for texts in self._texts for name in texts.languages}
        names = [*dict.fromkeys(languages), *sorted(seen.difference(languages))]
        if len(names) > MAX_LANGUAGES:
            raise SourceError(
                f"texts in {len(names)} languages, and a graph holds at most {MAX_LANGUAGES}; a "
                "damaged file may make up names of languages: name those you need (--language)"
            )
        sizes = len(entities), len(relations)
        of_entities, triples, of_relations = together(
            lambda: self._texts[0].seal(entity_ranks, sizes[0], names),
            lambda: sorted_distinct(
                self._triples_of(entity_ranks, relation_ranks), *sizes, self._n_threads
            ),
            lambda: self._texts[1].seal(relation_ranks, sizes[1], names),
            n_threads=self._n_threads,
        )
        return indexed(
            triples, entities, relations, (of_entities, of_relations),
            languages=names, preferred=languages, sources=sources, licence=licence,
            n_threads=self._n_threads,
        )  # fmt: skip

    def ids(self) -> tuple[Vocabulary, Vocabulary, NDArray[np.int32]]:
        """Entities, relations, and triples int32 `[triple 3]` of their ids as they came."""
        (entities, entity_ranks), (relations, relation_ranks) = self._sort_names()
        return entities, relations, self._triples_of(entity_ranks, relation_ranks)

    def _sort_names(self) -> tuple[tuple[Vocabulary, Ids], tuple[Vocabulary, Ids]]:
        return self._entities.sort(), self._relations.sort()

    def _triples_of(self, entity_ranks: Ids, relation_ranks: Ids) -> NDArray[np.int32]:
        """Every triple by ranks of its names, int32 `[triple 3]`, as they came."""
        one_by_one = np.frombuffer(self._triples, np.int32).reshape(-1, 3)
        triples = np.empty((self._n_triples, 3), np.int32, order="F")  # read by columns
        n = len(one_by_one)
        for column, ranks in enumerate((entity_ranks, relation_ranks, entity_ranks)):
            triples[:n, column] = ranks[one_by_one[:, column]]
        for ends, relation_ids in zip(self._ends, self._relation_ids, strict=True):
            rows = triples[n : n + len(ends)]
            rows[:, 0], rows[:, 2], rows[:, 1] = ends[:, 0], ends[:, 1], relation_ids
            n += len(ends)
        return triples


class _TextColumns:
    def __init__(self) -> None:
        self.nodes, self.kinds = array("i"), array("B")
        self.language_ids, self.counts = array("i"), array("i")
        self.values: list[str] = []
        self.languages: dict[str, int] = {}
        self._blocks: list[tuple[Ids, TextBlock, Ids]] = []

    def __len__(self) -> int:
        return len(self.values) + sum(len(nodes) for nodes, _, _ in self._blocks)

    def add(self, node: int, text: Text) -> None:
        languages = self.languages
        self.nodes.append(node)
        self.kinds.append(text.kind)
        self.language_ids.append(languages.setdefault(text.language, len(languages)))
        self.counts.append(text.frequency)
        self.values.append(text.value)

    def add_block(self, nodes: Ids, texts: TextBlock) -> None:
        """Texts at once; `nodes` are ranks when they are sealed."""
        used = [texts.languages[i] for i in distinct_ids(texts.language_ids, len(texts.languages))]
        for language in used:
            self.languages.setdefault(language, len(self.languages))
        ids = np.array([self.languages.get(name, -1) for name in texts.languages], np.int32)
        self._blocks.append((nodes, texts, ids[texts.language_ids]))

    def seal(self, node_ranks: Ids, n_nodes: int, names: Sequence[str]) -> Texts:
        """Sorted by (node, kind, language, -count, value); of equal texts the highest count."""
        order = {name: rank for rank, name in enumerate(names)}
        language_ranks = np.array([order[normal_tag(name)] for name in self.languages], np.int16)
        blocks = self._blocks
        nodes = np.concatenate(
            [
                node_ranks[np.frombuffer(self.nodes, np.int32)],
                *(ranks for ranks, _, _ in blocks),
            ]
        )
        kinds = np.concatenate(
            [np.frombuffer(self.kinds, np.uint8), *(texts.kinds for _, texts, _ in blocks)]
        )
        languages = language_ranks[
            np.concatenate(
                [np.frombuffer(self.language_ids, np.int32), *(ids for _, _, ids in blocks)]
            )
        ]
        counts = np.concatenate(
            [
                np.frombuffer(self.counts, np.int32),
                *(
                    np.zeros(len(texts.kinds), np.int32) if texts.counts is None else texts.counts
                    for _, texts, _ in blocks
                ),
            ]
        )
        large = [texts.values.cast(pa.large_string()) for _, texts, _ in blocks]
        values = pa.concat_arrays([strings(self.values), *large]).dictionary_encode()
        distinct, ranks = sorted_strings(values.dictionary)
        value_ranks = ranks[numpy_of(values.indices)]

        limits = (n_nodes, 1 << 8, len(names), len(distinct))
        rows, counts = _distinct_texts((nodes, kinds, languages, value_ranks), counts, limits)
        return Texts(
            offsets=offsets_of(rows[0], n_nodes),
            kinds=rows[1].astype(np.uint8),
            languages=rows[2].astype(np.int16),
            counts=counts,
            values=distinct.take(numbers_array(rows[3])),
            language_names=names,
        )


def _distinct_texts(
    columns: tuple[NDArray[Any], ...], counts: Ids, limits: Sequence[int]
) -> tuple[Ids, Ids]:
    """The different texts `[4 row]` sorted by (node, kind, language, -count, value), and counts.

    `columns` are node, kind, language and rank of the value, each below its limit.
    """
    keys = None if counts.any() else packed(columns, limits)
    if keys is not None:  # without counts, texts sort as they compare
        rows = unpacked(distinct_keys(keys), limits).T
        return rows, np.zeros(rows.shape[1], np.int32)
    texts = np.stack(columns)
    by_value = np.lexsort((-counts, *texts[::-1]))
    text = texts[:, by_value]
    first = np.ones(len(counts), np.bool_)
    first[1:] = (text[:, 1:] != text[:, :-1]).any(axis=0)
    kept = by_value[first]
    nodes, kinds, languages, values = texts[:, kept]
    chosen = kept[np.lexsort((values, -counts[kept], languages, kinds, nodes))]
    return texts[:, chosen], counts[chosen]
