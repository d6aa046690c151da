"""What a graph and counts say that an index does not say yet: the rows of a new segment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entity_linking.names.counts import SurfaceCount
from entity_linking.names.segment import NameRows, Segment, Source, has_key
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.disk.arrow import mask_array, numbers_array, numpy_of
from kg_loaders.vocabulary import Vocabulary, strings


class Indexed(Protocol):
    """What an addition asks of the index, see `entity_linking.names.index.NameIndex`."""

    @property
    def segments(self) -> Sequence[Segment]: ...
    @property
    def n_entities(self) -> int: ...
    @property
    def popularity(self) -> NDArray[np.float32]: ...
    def numbers(self, entities: Sequence[str] | pa.LargeStringArray) -> NDArray[np.int64]: ...


class Addition:
    """What a graph and counts say that an index does not say yet.

    Of the graph's names those in `languages` and those without one; None takes all. Names of terms
    that their source calls deprecated are taken with `deprecated` only.
    """

    def __init__(
        self,
        index: Indexed,
        graph: KnowledgeGraph,
        counts: Sequence[SurfaceCount],
        languages: Sequence[str] | None = None,
        *,
        deprecated: bool = False,
    ) -> None:
        self._index, self._graph = index, graph
        rows = _text_rows(graph, languages, deprecated=deprecated)
        values = graph.entity_texts.values.take(numbers_array(rows))
        kept = _have_keys(values)
        rows, values = rows[kept], values.filter(mask_array(kept))
        owners = np.searchsorted(graph.entity_texts.offsets, rows, side="right") - 1
        self.counted = self._of_known_entities(counts)

        ordered = self._named(owners)
        numbers = index.numbers(ordered)
        new = numbers < 0
        numbers[new] = index.n_entities + np.arange(int(new.sum()))
        self.entities = Vocabulary(ordered.filter(mask_array(new)))
        here = Vocabulary(ordered).ids([count.entity for count in self.counted])
        counted = numbers[here].astype(np.int32)
        in_graph = graph.entities.ids(ordered).astype(np.int64)
        of_graph = np.full(graph.n_entities, -1, np.int32)
        of_graph[in_graph[in_graph >= 0]] = numbers[in_graph >= 0]
        self.rows = self._rows(rows, values, of_graph[owners], counted)
        self._popularity(in_graph, numbers, counted)

    def _named(self, owners: NDArray[np.int64]) -> pa.LargeStringArray:
        """The entities that have a name or a count, sorted."""
        named = self._graph.entities.array.take(numbers_array(np.unique(owners)))
        if not self.counted:
            return named
        counted = strings(count.entity for count in self.counted)
        both = pc.unique(pa.concat_arrays([named, counted]))
        return both.take(pc.sort_indices(both))

    def _of_known_entities(self, counts: Sequence[SurfaceCount]) -> list[SurfaceCount]:
        entities = [count.entity for count in counts]
        known = (self._graph.entities.ids(entities) >= 0) | (self._index.numbers(entities) >= 0)
        return [c for c in compress(counts, known.tolist()) if has_key(c.surface)]

    def _rows(
        self,
        rows: NDArray[np.int64],
        values: pa.LargeStringArray,
        entities: NDArray[np.int32],
        counted: NDArray[np.int32],
    ) -> NameRows:
        texts = self._graph.entity_texts
        is_alias = np.asarray(texts.kinds)[rows] == TextKind.ALIAS
        sources = np.where(is_alias, Source.ALIAS, Source.LABEL).astype(np.uint8)
        counts = np.asarray(texts.counts)[rows].astype(np.float32)
        fresh = _distinct(values, entities, sources, counts)
        fresh = fresh[self._unsaid(values, entities, sources, counts, fresh)]
        n_counted = len(self.counted)
        seen = np.array([count.n_links for count in self.counted], np.float32)
        surfaces = strings(count.surface for count in self.counted)
        return NameRows(
            pa.concat_arrays([values.take(numbers_array(fresh)), surfaces]),
            np.concatenate([entities[fresh], counted]),
            np.concatenate([sources[fresh], np.full(n_counted, Source.COUNTED, np.uint8)]),
            np.concatenate([counts[fresh], seen]),
        )

    def _unsaid(
        self,
        values: pa.LargeStringArray,
        entities: NDArray[np.int32],
        sources: NDArray[np.uint8],
        counts: NDArray[np.float32],
        fresh: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Which of the names `fresh` the index has not, or has with a lower count."""
        unsaid = np.ones(len(fresh), np.bool_)
        places = np.flatnonzero(entities[fresh] < self._index.n_entities)
        rows = fresh[places]
        distinct = np.unique(entities[rows])
        highest: dict[tuple[int, int, str], float] = {}
        for segment in self._index.segments:
            mine = np.isin(segment.name_entities, distinct)
            mine &= np.asarray(segment.name_sources) != Source.COUNTED
            names = np.flatnonzero(mine).astype(np.int32)
            stored = _named(segment.name_entities, segment.name_sources, names)
            columns = (*stored, segment.written(names), segment.name_counts[names].tolist())
            for entity, source, value, count in zip(*columns, strict=True):
                key = (entity, source, value)
                highest[key] = max(highest.get(key, 0.0), count)
        names_here = values.take(numbers_array(rows)).to_pylist()
        columns = (*_named(entities, sources, rows), names_here, counts[rows].tolist())
        for row, (entity, source, value, count) in zip(
            places.tolist(), zip(*columns, strict=True), strict=True
        ):
            unsaid[row] = highest.get((entity, source, value), -1.0) < count
        return unsaid

    def _popularity(
        self, in_graph: NDArray[np.int64], numbers: NDArray[np.int64], counted: NDArray[np.int32]
    ) -> None:
        graph, index = self._graph, self._index
        degrees = (np.diff(graph.out_offsets) + np.diff(graph.in_offsets)).astype(np.float32)
        before = np.zeros(index.n_entities + len(self.entities), np.float32)
        before[: index.n_entities] = index.popularity if index.segments else 0
        total = before.copy()
        here = in_graph >= 0
        total[numbers[here]] = np.maximum(total[numbers[here]], degrees[in_graph[here]])
        np.add.at(total, counted, np.array([c.n_links for c in self.counted], np.float32))
        self.popularity = total[index.n_entities :]
        changed = np.flatnonzero(total[: index.n_entities] > before[: index.n_entities])
        self.raised = changed.astype(np.int32)
        self.raised_popularity = total[changed]


_NO_SPACE = r"[^\t\n\x0b\f\r\x1c-\x1f _]"
"""What is not white space to Python, among ASCII, and no `_`, which stands for a blank."""


def _have_keys(values: pa.LargeStringArray) -> NDArray[np.bool_]:
    """`has_key` of each value: of ASCII all at once."""
    ascii_ = numpy_of(pc.string_is_ascii(values)) & ~numpy_of(pc.match_substring(values, "&"))
    kept = numpy_of(pc.match_substring_regex(values, _NO_SPACE)).copy()
    others = np.flatnonzero(~ascii_)
    have_keys = map(has_key, values.take(numbers_array(others)).to_pylist())
    kept[others] = np.fromiter(have_keys, np.bool_, len(others))
    return np.asarray(kept)


def _text_rows(
    graph: KnowledgeGraph, languages: Sequence[str] | None, *, deprecated: bool
) -> NDArray[np.int64]:
    texts = graph.entity_texts
    kinds = np.asarray(texts.kinds)
    mask = (kinds == TextKind.LABEL) | (kinds == TextKind.ALIAS)
    if languages is not None:
        known = [i for i, name in enumerate(texts.language_names) if name in {"", *languages}]
        mask &= np.isin(np.asarray(texts.languages), known)
    if not deprecated and (marked := texts.deprecated()).size:
        mask &= ~np.isin(texts.nodes(), marked)
    return np.flatnonzero(mask)


def _distinct(
    values: pa.LargeStringArray,
    entities: NDArray[np.int32],
    sources: NDArray[np.uint8],
    counts: NDArray[np.float32],
) -> NDArray[np.int64]:
    """The rows of distinct (entity, source, value), of equal ones that with the highest count."""
    if not len(values):
        return np.zeros(0, np.int64)
    codes = numpy_of(values.dictionary_encode().indices)
    order = np.lexsort((-counts, codes, sources, entities))
    columns = np.stack([codes[order], sources[order], entities[order]])
    first = np.ones(len(order), np.bool_)
    first[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    return np.sort(order[first])


def _named(
    entities: NDArray[np.int32], sources: NDArray[np.uint8], rows: NDArray[Any]
) -> tuple[list[int], list[int]]:
    return entities[rows].tolist(), sources[rows].tolist()
