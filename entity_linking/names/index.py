"""`NameIndex`: every name of a graph's entities with the counts behind p(entity | surface).

The index lives in a folder and is memory-mapped; it knows entities by their identifiers and stands
without the graph. It is one segment for the graph it was built from and one for each addition.

A name is a label, an alias, or a surface that was counted in annotated text. `find` returns the
entries behind a surface with the weight that `entity_linking.names.priors` makes a prior of.

Over all segments: the same name of an entity counts once, its alias frequency is the highest said
anywhere, and so is the entity's degree (graphs that overlap, such as two states of one graph, would
count twice otherwise); counts from annotated text add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.names import folder as disk
from entity_linking.names.addition import Addition
from entity_linking.names.counts import checked
from entity_linking.names.folder import Manifest, Part
from entity_linking.names.rules.case import CASES, Case, is_sentence_case
from entity_linking.names.rules.variants import Kind
from entity_linking.names.segment import (
    Segment,
    Source,
    build_segment,
    fold_keys,
)
from entity_linking.names.texts import Texts
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted

MOST_ENTRIES = 512
MOST_REMEMBERED = 32_768
FEW_ENTRIES = 32  # longer answers are not remembered
_KINDS, _SOURCES = {int(kind): kind for kind in Kind}, {int(source): source for source in Source}


class Entry(NamedTuple):
    """An entity that bears a name, and how the key that was looked up comes from the name.

    `row` is the number of the name over all segments.
    """

    entity: int
    name: str
    kind: Kind
    source: Source
    n_seen: float
    row: int


class NameIndex:
    """Names of entities, looked up by folded key or by word; immutable.

    `case` and `variants` are what it was built with: the policy that linkers over it take, and
    whether names are stored under their other forms too.

    >>> from kg_loaders import Text, TextKind, graph_from_records
    >>> graph = graph_from_records([Text("Q312", TextKind.LABEL, "Apple Inc.")])
    >>> index = NameIndex.build(graph)
    >>> [(index.entity(e.entity), e.name, e.kind.name) for e in index.find("apple")]
    [('Q312', 'Apple Inc.', 'LEGAL')]
    """

    def __init__(
        self, manifest: Manifest, segments: Sequence[Segment], folder: Path | None = None
    ) -> None:
        self.manifest, self.segments, self.folder = manifest, tuple(segments), folder
        sizes = [len(segment.entities) for segment in self.segments]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        lengths = [len(segment.names) for segment in self.segments]
        self._first_rows = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64).tolist()
        self._remembered: dict[str, tuple[Entry, ...]] = {}

    def __repr__(self) -> str:
        return (
            f"NameIndex({counted(self.n_entities, 'entities')}, {counted(self.n_names, 'names')}, "
            f"{counted(len(self.segments), 'segments')})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """An index from a folder travels to other processes as its path, others by value."""
        if self.folder is not None:
            return _reopen, (str(self.folder), [part.folder for part in self.manifest.parts])
        return NameIndex, (self.manifest, self.segments)

    @property
    def n_entities(self) -> int:
        return int(self._starts[-1])

    @property
    def n_names(self) -> int:
        return sum(len(segment.names) for segment in self.segments)

    @property
    def case(self) -> Case:
        case: Case = self.manifest.case  # type: ignore[assignment]
        return case

    @property
    def graph_hashes(self) -> tuple[str, ...]:
        """Of every graph that is covered, in the order they were added."""
        return tuple(dict.fromkeys(part.graph_hash for part in self.manifest.parts))

    # ---- making ------------------------------------------------------------
    @classmethod
    def build(
        cls,
        graph: KnowledgeGraph,
        *,
        counts: Iterable[tuple[str, str, int]] = (),
        languages: Sequence[str] | None = None,
        case: Case = "smart",
        variants: bool = True,
        deprecated: bool = False,
    ) -> NameIndex:
        """Index the labels and aliases of `graph`, and `counts` of its entities.

        `counts` are `(surface, entity, count)` as `count_links` makes them; those of entities that
        the graph does not have are left out and counted in the manifest. `languages` takes names of
        these languages and those without one; None takes all. `deprecated` also takes the names of
        terms that their source calls deprecated or obsolete.
        """
        if case not in CASES:
            raise LinkingError(f"case is {case!r}; choose one of {', '.join(CASES)}")
        languages_kept = None if languages is None else tuple(languages)
        empty = Manifest(
            case=case, languages=languages_kept, variants=variants, deprecated=deprecated, parts=()
        )
        return cls(empty, ()).add(graph, counts=counts)

    def add(
        self, graph: KnowledgeGraph, *, counts: Iterable[tuple[str, str, int]] = ()
    ) -> NameIndex:
        """This index and a segment with what `graph` and `counts` say beyond it.

        Entities that are known keep their number, and names of theirs that are known are not
        written again. Nothing is written to disk before `save`.
        """
        counted = checked(counts)
        if graph.content_hash in self.graph_hashes and not counted:
            return self
        addition = Addition(
            self, graph, counted, self.manifest.languages, deprecated=self.manifest.deprecated
        )
        part = Part(
            graph_hash=graph.content_hash,
            n_entities=len(addition.entities),
            n_names=len(addition.rows.values),
            n_counts=len(addition.counted),
            n_counts_skipped=len(counted) - len(addition.counted),
        )
        segment, longest = build_segment(
            addition.rows,
            entities=addition.entities,
            popularity=addition.popularity,
            raised=addition.raised,
            raised_popularity=addition.raised_popularity,
            variants=self.manifest.variants,
        )
        part = msgspec.structs.replace(part, longest_key=longest)
        parts = (*self.manifest.parts, part)
        manifest = msgspec.structs.replace(self.manifest, parts=parts)
        return NameIndex(manifest, (*self.segments, segment), self.folder)

    def save(self, folder: str | Path, *, force: bool = False) -> NameIndex:
        """Write what `folder` has not yet and return the index opened from it.

        An index that was opened from `folder` and added to writes its new segments alone; `force`
        replaces another index. `LinkIndexError` for anything else that is in the way.
        """
        target = Path(folder).absolute()
        manifest = self.manifest
        if target != self.folder:
            parts = tuple(msgspec.structs.replace(part, folder="") for part in manifest.parts)
            manifest = msgspec.structs.replace(manifest, parts=parts)
        disk.write(target, manifest, self.segments, force=force)
        return NameIndex.open(target)

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = False) -> NameIndex:
        """Map the index in `folder`; `LinkIndexError` when it cannot be trusted.

        The first opening reads and checks every byte and is remembered (`kg_loaders.disk.seals`);
        `verify` does it in any case.
        """
        target = Path(folder).absolute()
        manifest, segments = disk.read(target, verify=verify)
        return cls(manifest, segments, target)

    # ---- entities ----------------------------------------------------------
    def entity(self, number: int) -> str:
        """The identifier of an entity."""
        return self.identifiers([number])[0]

    def identifiers(self, numbers: Sequence[int]) -> list[str]:
        """The identifiers of many entities."""
        if len(self.segments) == 1:
            return self._identifiers[0].take(numbers)
        parts = np.searchsorted(self._starts, numbers, side="right") - 1
        return [
            self._identifiers[part].take([number - int(self._starts[part])])[0]
            for part, number in zip(parts.tolist(), numbers, strict=True)
        ]

    def numbers(self, entities: Sequence[str] | pa.LargeStringArray) -> NDArray[np.int64]:
        """The numbers of identifiers, int64 `[n]`, -1 for those not here."""
        numbers = np.full(len(entities), -1, np.int64)
        for start, segment in zip(self._starts.tolist(), self.segments, strict=False):
            rows = segment.entities.ids(entities)
            numbers = np.where(rows >= 0, rows + start, numbers)
        return numbers

    @cached_property
    def popularity(self) -> NDArray[np.float32]:
        """float32 `[entity]`: triples of the entity, and how often it was linked in the counts."""
        if len(self.segments) == 1:
            return self.segments[0].popularity
        known = np.concatenate([np.zeros(0, np.float32), *(s.popularity for s in self.segments)])
        for segment in self.segments:
            known[segment.raised] = segment.raised_popularity
        return known

    @cached_property
    def _identifiers(self) -> list[Texts]:
        return [Texts(segment.entities.array) for segment in self.segments]

    # ---- names -------------------------------------------------------------
    @cached_property
    def is_sentence_case(self) -> bool:
        """Whether labels and aliases begin with a capital as sentences do (`rules.case`)."""
        return is_sentence_case(
            [
                segment.names.filter(pa.array(segment.name_sources != Source.COUNTED))
                for segment in self.segments
            ]
        )

    @cached_property
    def _written(self) -> list[Texts]:
        return [Texts(segment.names) for segment in self.segments]

    def names(self, rows: Sequence[int]) -> list[str]:
        """Names by their numbers over all segments, as written."""
        if len(self.segments) == 1:
            return self._written[0].take(rows)
        parts = np.searchsorted(self._first_rows, rows, side="right") - 1
        return [
            self._written[part].take([row - self._first_rows[part]])[0]
            for part, row in zip(parts.tolist(), rows, strict=True)
        ]

    def find(self, form: str) -> list[Entry]:
        """The entries behind the folded key of `form`, segment by segment."""
        return list(self.find_key(fold_keys([form])[0]))

    def find_key(self, key: str) -> tuple[Entry, ...]:
        """The entries behind a folded key; of more than 512 in a segment the most popular."""
        cached = self._remembered.get(key)
        if cached is None:
            cached = self._find_key(key) if key else ()
            if len(cached) <= FEW_ENTRIES:
                if len(self._remembered) >= MOST_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = cached
        return cached

    def _find_key(self, key: str) -> tuple[Entry, ...]:
        return tuple(
            entry
            for part, segment in enumerate(self.segments)
            if (rows := segment.entries(key)).stop > rows.start
            for entry in self._entries(part, segment.key_names[rows], segment.key_kinds[rows])
        )

    def holders(self, words: Sequence[str]) -> list[NDArray[np.int32]]:
        """For each segment the names that hold all of these folded words, ascending."""
        holders = []
        for segment in self.segments:
            lists = sorted((segment.postings(word) for word in words), key=len)
            names = np.asarray(lists[0])
            for other in lists[1:]:
                if not len(names):
                    break
                rows = np.minimum(np.searchsorted(other, names), len(other) - 1)
                names = names[other[rows] == names]
            holders.append(names)
        return holders

    def bearers(self, part: int, names: NDArray[np.int32]) -> list[tuple[int, Source, float, int]]:
        """Entity, source, count and row, as an `Entry` has them, of names of segment `part`."""
        segment, first = self.segments[part], self._first_rows[part]
        columns = (
            segment.name_entities[names].tolist(),
            map(_SOURCES.__getitem__, segment.name_sources[names].tolist()),
            segment.name_counts[names].tolist(),
            (names + first).tolist(),
        )
        return list(zip(*columns, strict=True))

    def _entries(
        self, part: int, names: NDArray[np.int32], kinds: NDArray[np.uint8]
    ) -> Iterator[Entry]:
        segment, first = self.segments[part], self._first_rows[part]
        entities = segment.name_entities[names]
        if len(names) > MOST_ENTRIES:
            best = np.lexsort((names, -self.popularity[entities], kinds))[:MOST_ENTRIES]
            names, kinds, entities = names[best], kinds[best], entities[best]
        columns = (
            entities.tolist(),
            self._written[part].take(names),
            kinds.tolist(),
            segment.name_sources[names].tolist(),
            segment.name_counts[names].tolist(),
            names.tolist(),
        )
        for entity, name, kind, source, count, row in zip(*columns, strict=True):
            yield Entry(entity, name, _KINDS[kind], _SOURCES[source], count, first + row)


def _reopen(folder: str, parts: list[str]) -> NameIndex:
    index = NameIndex.open(folder)
    if [part.folder for part in index.manifest.parts] != parts:
        raise LinkIndexError(
            f"{folder} is not the index that was handed on; do not replace one that is in use"
        )
    return index
