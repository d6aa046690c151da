"""Entity cards: the short text that stands for an entity where vectors are compared.

    Paris (City of Light), Q515, capital of France. capital of: France; country: France

Label, aliases, types, description, then neighbours in words. Wu et al. 2020 (BLINK, section 3)
read title and description; a user's graph often has neither description nor types, so its triples
speak as well. Cards are made for many entities at once, block by block, on arrays.

Axis legend: entity, triple.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from kg_loaders import KnowledgeGraph, TextKind

ENTITIES_PER_BLOCK = 1 << 14

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CardOptions:
    """What a card holds; part of the manifest of a `DenseIndex`.

    Words are what white space divides, so a text in a script without spaces is one word; the
    encoder cuts it. `per_relation` bounds the neighbours that share a relation and a direction.
    `languages` takes texts of these languages and those without one; None takes all.
    """

    n_aliases: int = 3
    n_types: int = 2
    description_words: int = 20
    n_neighbours: int = 4
    per_relation: int = 2
    max_words: int = 48
    languages: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("n_aliases", "n_types", "description_words", "n_neighbours"):
            if getattr(self, name) < 0:
                raise LinkingError(f"{name} is {getattr(self, name)}; give 0 or more")
        for name in ("per_relation", "max_words"):
            if getattr(self, name) < 1:
                raise LinkingError(f"{name} is {getattr(self, name)}; give 1 or more")


def card(graph: KnowledgeGraph, entity: int, options: CardOptions = CardOptions()) -> str:
    """The card of one entity; see `cards`."""
    return cards(graph, [entity], options)[0]


def cards(
    graph: KnowledgeGraph, entity_ids: Sequence[int] | Ids, options: CardOptions = CardOptions()
) -> list[str]:
    """The cards of `entity_ids`, in their order.

    Aliases and types stand in the graph's order (most frequent alias first); a type that is an
    entity of the graph is named by its label. Neighbours are those of outgoing triples
    (`capital of: France`), then of incoming ones (`Paris: capital of this`); the rarest relation of
    the graph first, of one relation the best-connected neighbours, ties by id. An entity without a
    label goes by its identifier; as a neighbour it is left out, and so is a relation, unless the
    graph has no labels at all. White space is squeezed, and words after `max_words` are cut.
    """
    ids = np.asarray(entity_ids, np.int32)
    maker = _Maker(graph, options)
    return [
        text
        for start in range(0, len(ids), ENTITIES_PER_BLOCK)
        for text in maker.block(ids[start : start + ENTITIES_PER_BLOCK])
    ]


class _Maker:
    def __init__(self, graph: KnowledgeGraph, options: CardOptions) -> None:
        self._graph, self._options = graph, options
        self._wanted = _wanted_languages(graph, options.languages)
        self._label_rows = _label_rows(graph, self._wanted)
        relations = np.asarray(graph.triples)[:, 1]
        self._counts = np.bincount(relations, minlength=graph.n_relations)
        everyone = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
        self._degrees = np.asarray(everyone, np.int64)
        self._relations = [graph.relation_label(i) for i in range(graph.n_relations)]
        self._speaks = self._label_rows >= 0
        if not self._speaks.any():
            self._speaks[:] = True
        self._means = np.diff(graph.relation_texts.offsets) > 0
        if not self._means.any():
            self._means[:] = True

    def block(self, ids: Ids) -> list[str]:
        options = self._options
        names = self._labels(ids)
        parts = self._texts(ids)
        neighbours = self._neighbours(ids) if options.n_neighbours else [[]] * len(ids)
        lines = []
        for name, (aliases, types, description), about in zip(
            names, parts, neighbours, strict=True
        ):
            head = f"{name} ({', '.join(aliases)})" if aliases else name
            text = ", ".join([head, *types, *description])
            if about:
                text = f"{text.rstrip('.')}. {'; '.join(about)}"
            lines.append(" ".join(text.split()[: options.max_words]))
        return lines

    # ---- texts -------------------------------------------------------------
    def _labels(self, ids: NDArray[np.integer]) -> list[str]:
        """Best label of each, or its identifier."""
        rows = self._label_rows[ids]
        has = rows >= 0
        labels = np.empty(len(ids), object)
        labels[has] = _take(self._graph.entity_texts.values, rows[has])
        labels[~has] = _take(self._graph.entities.array, ids[~has])
        return list(labels)

    def _texts(self, ids: Ids) -> Iterator[tuple[list[str], list[str], list[str]]]:
        """Aliases, types and description of each."""
        texts, options = self._graph.entity_texts, self._options
        rows, owners = _ranges(texts.offsets, ids)
        kinds = np.asarray(texts.kinds)[rows]
        good = np.ones(len(rows), np.bool_)
        if self._wanted is not None:
            good = self._wanted[np.asarray(texts.languages)[rows]]
        for kind, most in (
            (TextKind.LABEL, 0),
            (TextKind.ALIAS, options.n_aliases),
            (TextKind.TYPE, options.n_types),
            (TextKind.DESCRIPTION, min(1, options.description_words)),
        ):
            of_kind = np.flatnonzero(good & (kinds == kind))
            good[of_kind[_rank_in_run(owners[of_kind]) >= most]] = False
        rows, owners, kinds = rows[good], owners[good], kinds[good]
        values = _take(texts.values, rows)
        self._name_types(values, np.flatnonzero(kinds == TextKind.TYPE))
        ends = np.searchsorted(owners, np.arange(len(ids) + 1)).tolist()
        n_words = options.description_words
        kind_of = kinds.tolist()
        for start, stop in pairwise(ends):
            by_kind: tuple[list[str], ...] = ([], [], [], [])
            for i in range(start, stop):
                by_kind[kind_of[i]].append(values[i])
            description = [" ".join(text.split()[:n_words]) for text in by_kind[2]]
            yield by_kind[1], by_kind[3], description

    def _name_types(self, values: list[str], places: Rows) -> None:
        """Put labels where a type is an entity of the graph."""
        distinct = list(dict.fromkeys(values[i] for i in places.tolist()))
        ids = self._graph.entities.ids(distinct)
        known = ids >= 0
        labels = iter(self._labels(ids[known]))
        name_of = {
            value: next(labels) if is_known else value
            for value, is_known in zip(distinct, known.tolist(), strict=True)
        }
        for i in places.tolist():
            values[i] = name_of[values[i]]

    # ---- neighbours --------------------------------------------------------
    def _neighbours(self, ids: Ids) -> list[list[str]]:
        graph, most = self._graph, self._options.n_neighbours
        out_rows, out_owners = _ranges(graph.out_offsets, ids)
        outgoing = graph.triples[out_rows]
        kept_out = self._best(outgoing[:, 1], outgoing[:, 2], out_owners)
        kept_out = kept_out[_rank_in_run(out_owners[kept_out]) < most]
        n_out = np.bincount(out_owners[kept_out], minlength=len(ids))

        short = np.flatnonzero(n_out < most)
        in_rows, in_owners = _ranges(graph.in_offsets, ids[short])
        incoming = graph.triples[np.asarray(graph.in_order)[in_rows]]
        in_owners = short[in_owners]
        kept_in = self._best(incoming[:, 1], incoming[:, 0], in_owners)
        room = most - n_out[in_owners[kept_in]]
        kept_in = kept_in[_rank_in_run(in_owners[kept_in]) < room]

        about: list[list[str]] = [[] for _ in ids]
        names = self._labels(outgoing[kept_out, 2])
        for owner, relation, name in zip(
            out_owners[kept_out].tolist(), outgoing[kept_out, 1].tolist(), names, strict=True
        ):
            about[owner].append(f"{self._relations[relation]}: {name}")
        names = self._labels(incoming[kept_in, 0])
        for owner, relation, name in zip(
            in_owners[kept_in].tolist(), incoming[kept_in, 1].tolist(), names, strict=True
        ):
            about[owner].append(f"{name}: {self._relations[relation]} this")
        return about

    def _best(self, relations: Ids, far_ends: Ids, owners: Rows) -> Rows:
        """Places by owner, best first, no relation more often than `per_relation`."""
        good = np.flatnonzero(self._speaks[far_ends] & self._means[relations])
        far_ends, relations, owners = far_ends[good], relations[good], owners[good]
        order = np.lexsort(
            (far_ends, -self._degrees[far_ends], relations, self._counts[relations], owners)
        )
        runs = owners[order] * len(self._relations) + relations[order]
        return good[order[_rank_in_run(runs) < self._options.per_relation]]


def _ranges(offsets: NDArray[np.int64], ids: NDArray[np.integer]) -> tuple[Rows, Rows]:
    """The CSR rows of `ids`, one after the other, and the place in `ids` that each belongs to."""
    starts, counts = offsets[ids], offsets[ids + 1] - offsets[ids]
    owners = np.repeat(np.arange(len(ids)), counts)
    first = np.cumsum(counts) - counts
    return np.arange(len(owners)) + (starts - first)[owners], owners


def _rank_in_run(keys: NDArray[np.int64]) -> Rows:
    """How many equal keys stand right before each."""
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = keys[1:] != keys[:-1]
    places = np.arange(len(keys))
    return places - np.maximum.accumulate(np.where(is_first, places, 0))


def _take(values: pa.LargeStringArray, rows: NDArray[np.integer]) -> list[str]:
    strings: list[str] = values.take(pa.array(rows)).to_pylist()
    return strings


def _wanted_languages(
    graph: KnowledgeGraph, languages: tuple[str, ...] | None
) -> NDArray[np.bool_] | None:
    """Which of the graph's languages count, or None for all."""
    if languages is None:
        return None
    known = graph.entity_texts.language_names
    return np.array([name in ("", *languages) for name in known], np.bool_)


def _label_rows(graph: KnowledgeGraph, mask: NDArray[np.bool_] | None) -> Rows:
    """Text row of each entity's best label, -1 without one, int64 `[entity]`."""
    texts = graph.entity_texts
    good = np.asarray(texts.kinds) == TextKind.LABEL
    if mask is not None:
        good &= mask[np.asarray(texts.languages)]
    rows = np.flatnonzero(good)[::-1]  # the first of an entity is written last
    row_of = np.full(graph.n_entities, -1)
    row_of[texts.nodes()[rows]] = rows
    return row_of
