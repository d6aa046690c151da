"""Records and blocks of them, as they come, to a `KnowledgeGraph`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.errors import SourceError
from kg_loaders.reading.blocks import Block, Ids, TextBlock, TripleBlock, distinct_ids
from kg_loaders.records import Record, Text, Triple
from kg_loaders.store import KnowledgeGraph, assemble, offsets_of
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary, strings

MAX_NODES = MAX_TRIPLES = 2**31 - 1
MAX_LANGUAGES = 2**15 - 1
_FEW = 1 << 20
"""Names that wait before they are made distinct."""


class Columns:
    """Records as they come, in flat arrays with provisional ids; `graph` sorts and seals them."""

    def __init__(self) -> None:
        self._entities, self._relations = _Names(), _Names()
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
                self._ends.append(self._entities.place(record.entities, record.ends))
                self._relation_ids.append(
                    self._relations.place(record.relations, record.relation_ids)
                )
            else:
                names = self._relations if record.is_relation else self._entities
                nodes = names.place(record.nodes, record.node_ids)
                self._texts[record.is_relation].add_block(nodes, record)
        if self._n_triples > MAX_TRIPLES or len(self._entities) > MAX_NODES:
            raise SourceError(f"a graph holds at most {MAX_TRIPLES} triples and as many entities")

    def graph(
        self, *, languages: Sequence[str], sources: Sequence[str], licence: str
    ) -> KnowledgeGraph:
        """Sort names and rows, drop duplicates, and empty these columns."""
        (entities, entity_ranks), (relations, relation_ranks), triples = self._ranked()
        seen = {name for texts in self._texts for name in texts.languages}
        names = [*dict.fromkeys(languages), *sorted(seen.difference(languages))]
        if len(names) > MAX_LANGUAGES:
            raise SourceError(
                f"texts in {len(names)} languages, and a graph holds at most {MAX_LANGUAGES}; a "
                "damaged file may make up names of languages: name those you need (--language)"
            )
        return assemble(
            triples=triples,
            entities=entities,
            relations=relations,
            entity_texts=self._texts[0].seal(entity_ranks, len(entities), names),
            relation_texts=self._texts[1].seal(relation_ranks, len(relations), names),
            languages=names,
            sources=sources,
            licence=licence,
        )

    def ids(self) -> tuple[Vocabulary, Vocabulary, NDArray[np.int32]]:
        """Entities, relations, and triples int32 `[triple 3]` of their ids as they came."""
        (entities, _), (relations, _), triples = self._ranked()
        return entities, relations, triples

    def _ranked(self) -> tuple[_Sorted, _Sorted, NDArray[np.int32]]:
        entities, relations = self._entities.sort(), self._relations.sort()
        return entities, relations, self._triples_of(entities[1], relations[1])

    def _triples_of(self, entities: _Ranks, relations: _Ranks) -> NDArray[np.int32]:
        """Every triple by ranks of its names, int32 `[triple 3]`, not sorted yet."""
        one_by_one = np.frombuffer(self._triples, np.int32).reshape(-1, 3)
        triples = np.empty((self._n_triples, 3), np.int32)
        n = len(one_by_one)
        for column, ranks in ((0, entities), (1, relations), (2, entities)):
            triples[:n, column] = ranks.of_ids[one_by_one[:, column]]
        for ends, relation_ids in zip(self._ends, self._relation_ids, strict=True):
            rows = triples[n : n + len(ends)]
            rows[:, 0], rows[:, 2] = entities.of_places[ends.T]
            rows[:, 1] = relations.of_places[relation_ids]
            n += len(ends)
        return triples


class _Ranks(NamedTuple):
    """Ranks of names that were added one by one, by id, and in blocks, by place."""

    of_ids: Ids
    of_places: Ids


_Sorted = tuple[Vocabulary, _Ranks]


class _Names:
    """Names of entities, or of relations: one by one in `ids`, or many at once by `place`."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self._known = pa.array([], pa.large_string())
        self._waiting: list[pa.LargeStringArray] = []
        self._n_waiting = 0
        self._placed: list[Ids] = []
        self._numbers: dict[str, list[Ids]] = {}

    def __len__(self) -> int:
        return len(self.ids) + len(self._known)

    def place(self, names: pa.StringArray | str, ids: Ids) -> Ids:
        """`ids` into `names` as places among all names, in an array that is kept up to date."""
        if isinstance(names, str):
            numbers = ids.astype(np.int32)
            self._numbers.setdefault(names, []).append(numbers)
            return numbers
        placed = ids + np.int32(len(self._known) + self._n_waiting)
        self._waiting.append(names.cast(pa.large_string()))
        self._n_waiting += len(names)
        self._placed.append(placed)
        if self._n_waiting > max(_FEW, len(self._known)):
            self._merge()
        return placed

    def _merge(self) -> None:
        """Drop repeated names; what is known stays where it is."""
        encoded = pa.concat_arrays([self._known, *self._waiting]).dictionary_encode()
        places = encoded.indices.to_numpy()
        for placed in self._placed:
            placed[...] = places[placed]
        self._known = encoded.dictionary
        self._waiting, self._n_waiting, self._placed = [], 0, []

    def sort(self) -> _Sorted:
        """All names, sorted, and their ranks; empties what waits."""
        for start, numbers in self._numbers.items():
            self._place_numbers(start, numbers)
        self._merge()
        n = len(self.ids)
        names, places = strings(self.ids), np.arange(n + len(self._known), dtype=np.int32)
        if not n:
            names = self._known
        elif len(self._known):
            encoded = pa.concat_arrays([names, self._known]).dictionary_encode()
            names, places = encoded.dictionary, encoded.indices.to_numpy()
        names, ranks = _sort_strings(names)
        ranks = ranks[places]
        return Vocabulary(names), _Ranks(ranks[:n], ranks[n:])

    def _place_numbers(self, start: str, numbers: list[Ids]) -> None:
        """Give names that are a number behind `start` their places."""
        top = max((int(part.max()) for part in numbers if part.size), default=0)
        if top < _SPARSE * sum(part.size for part in numbers) + _FEW:
            is_used = np.zeros(top + 1, np.bool_)
            for part in numbers:
                is_used[part.ravel()] = True
            distinct = np.flatnonzero(is_used)
            table = np.empty(top + 1, np.int32)
            table[distinct] = np.arange(len(distinct), dtype=np.int32)
            for part in numbers:
                part[...] = table[part]
        else:
            distinct = np.unique(np.concatenate([part.ravel() for part in numbers]))
            for part in numbers:
                part[...] = np.searchsorted(distinct, part)
        names = pc.binary_join_element_wise(start, pa.array(distinct).cast(pa.string()), "")
        base = len(self._known) + self._n_waiting
        for part in numbers:
            part += np.int32(base)
        self._waiting.append(names.cast(pa.large_string()))
        self._n_waiting += len(names)
        self._placed.extend(numbers)


_SPARSE = 16
"""Numbers are looked up in a table where one in this many is there."""


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
        """Texts at once; `nodes` are places that may still change."""
        used = [texts.languages[i] for i in distinct_ids(texts.language_ids, len(texts.languages))]
        for language in used:
            self.languages.setdefault(language, len(self.languages))
        ids = np.array([self.languages.get(name, -1) for name in texts.languages], np.int32)
        self._blocks.append((nodes, texts, ids[texts.language_ids]))

    def seal(self, node_ranks: _Ranks, n_nodes: int, names: Sequence[str]) -> Texts:
        """Sorted by (node, kind, language, -count, value); of equal texts the highest count."""
        order = {name: rank for rank, name in enumerate(names)}
        language_ranks = np.array([order[name] for name in self.languages], np.int16)
        blocks = self._blocks
        nodes = np.concatenate(
            [
                node_ranks.of_ids[np.frombuffer(self.nodes, np.int32)],
                *(node_ranks.of_places[places] for places, _, _ in blocks),
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
        counts = np.zeros(len(nodes), np.int32)
        counts[: len(self.counts)] = np.frombuffer(self.counts, np.int32)
        large = [texts.values.cast(pa.large_string()) for _, texts, _ in blocks]
        values = pa.concat_arrays([strings(self.values), *large]).dictionary_encode()
        distinct, ranks = _sort_strings(values.dictionary)
        value_ranks = ranks[values.indices.to_numpy()]

        columns = np.stack([nodes, kinds, languages, value_ranks])
        by_value = np.lexsort((-counts, *columns[::-1]))
        text = columns[:, by_value]
        first = np.ones(len(nodes), np.bool_)
        first[1:] = (text[:, 1:] != text[:, :-1]).any(axis=0)
        kept = by_value[first]
        keys = (value_ranks[kept], -counts[kept], languages[kept], kinds[kept], nodes[kept])
        rows = kept[np.lexsort(keys)]
        return Texts(
            offsets=offsets_of(nodes[rows], n_nodes),
            kinds=kinds[rows],
            languages=languages[rows],
            counts=counts[rows],
            values=distinct.take(pa.array(value_ranks[rows])),
            language_names=names,
        )


def _sort_strings(values: pa.LargeStringArray) -> tuple[pa.LargeStringArray, Ids]:
    """Distinct strings by code point, and the rank of each."""
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return values.take(pa.array(order)), ranks
