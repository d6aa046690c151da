"""What knowledge a run is given: the true graph, none of it or half, or one that is false.

Two doors, `controlled_graph` and `controlled_text`: every method reads its knowledge through a
graph or through the links of a text, so a control made here is one for all of them.
`docs/explanations/controls.md` says what each amounts to, method by method.

Axis legend: triple, pair, entity.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from entity_linking.mentions import Link, LinkedText
from kept.errors import ConfigError
from kept.inputs.controls.random_texts import random_words, texts_of_others
from kept.inputs.controls.shuffles import shuffle_objects, without_triples
from kept.methods import Reads, method
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.store import Texts, assemble

Knowledge = Literal[
    "true", "off", "shuffled", "random-entity", "random-tokens", "anchors-only", "redrawn"
]
KNOWLEDGE: tuple[Knowledge, ...] = (
    "true", "off", "shuffled", "random-entity", "random-tokens", "anchors-only", "redrawn",
)  # fmt: skip
WITHOUT_FACTS: tuple[Knowledge, ...] = ("off", "anchors-only")
"""Kinds under which a method that reads facts alone reads nothing."""
COMPARED: tuple[Knowledge, ...] = ("true", "off", "shuffled")
"""What the comparisons with a fixed grid run, `kept demo` among them."""
WITHOUT_KNOWLEDGE: Mapping[str, Mapping[str, Any]] = {"mlm": {}}
"""Objectives of a run whose knowledge is off, whatever the method."""
N_ROUNDS = 50
"""How often facts that a shuffle left as they were may trade with others."""
Row = tuple[int, ...]


def controlled_graph(
    graph: KnowledgeGraph,
    knowledge: Knowledge,
    seed: int,
    *,
    entities: EntityMap | None = None,
    reads: Reads = "links",
) -> KnowledgeGraph:
    """`graph` as `knowledge` wants it; ids mean the same in all of them.

    "true": as it is. "off", "anchors-only": without any triple; links stay with "anchors-only".
    "redrawn": as it is, for `kept.inputs.controls.redrawing` moves the links at every reading.
    "shuffled": the tails of each relation shuffled. "random-entity": as it is, for
    `controlled_text` moves the links; but where a method `reads` texts of entities, and no link,
    all texts stand at the entity that `entities` (by default `random_entities` of `graph`) gives
    for their own. "random-tokens": relations and tails of all triples shuffled, each for itself,
    and every text made of random words of the same length; for a method that reads pairs the tails
    stay, so that random relations join the same pairs.
    """
    if knowledge in ("true", "redrawn"):
        return graph
    if knowledge in WITHOUT_FACTS:
        return without_triples(graph)
    if knowledge == "shuffled":
        return shuffle_objects(graph, generator(seed, "shuffled objects"))
    if knowledge == "random-entity":
        if reads != "texts":
            return graph
        return _with_texts_of_others(graph, entities or random_entities(graph, seed))
    draws = generator(seed, "random facts")
    return _remade(
        graph,
        triples=random_facts(graph, draws, keep_pairs=reads == "pairs"),
        entity_texts=random_words(graph.entity_texts, seed, "entities"),
        relation_texts=random_words(graph.relation_texts, seed, "relations"),
        note="random facts between random words",
    )


def controlled_text(
    linked: LinkedText, knowledge: Knowledge, entities: EntityMap | None = None
) -> LinkedText:
    """Off: without links, for entities are knowledge. Random-entity: every entity as in `entities`.

    Raises `ConfigError` for "random-entity" without `entities`.
    """
    if knowledge == "off":
        return dataclasses.replace(linked, links=())
    if knowledge != "random-entity":
        return linked
    if entities is None:
        raise ConfigError(
            "knowledge='random-entity' moves links by a map: give random_entities(graph, seed)"
        )
    return dataclasses.replace(linked, links=tuple(map(entities.moved, linked.links)))


@dataclass(frozen=True, eq=False)
class EntityMap:
    """Every entity of `graph` -> another one, one to one; `ids [entity]`.

    `n_exact` entities were given one of exactly their degree.
    """

    graph: KnowledgeGraph
    ids: NDArray[np.int64]
    n_exact: int

    def __getitem__(self, entity: str) -> str:
        """The other entity; one that the graph does not know stays: it brings no knowledge."""
        number = self.graph.entities.find(entity)
        return entity if number is None else self.graph.entities.name(int(self.ids[number]))

    def moved(self, link: Link) -> Link:
        """The link to the other entity, with the others of its candidates."""
        if link.entity is None and not link.candidates:
            return link
        return dataclasses.replace(
            link,
            entity=None if link.entity is None else self[link.entity],
            candidates=tuple(
                structs.replace(candidate, entity=self[candidate.entity])
                for candidate in link.candidates
            ),
        )


def random_entities(graph: KnowledgeGraph, seed: int) -> EntityMap:
    """A random entity of the same degree (triples in and out) for each; nobody keeps its own.

    Where no other has exactly that degree, one of the same power of two, else of about as many.
    The map depends on `seed` and on the degrees in `graph`: take it from the whole graph once a
    run, so that training and test agree. Raises `ConfigError` for fewer than two entities.
    """
    if graph.n_entities < 2:
        raise ConfigError(f"{graph} has no other entity to take; give a graph of two or more")
    draws = generator(seed, "random entities")
    degrees = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
    ids = np.arange(graph.n_entities)
    single, n_exact = ids.copy(), 0
    for level in (degrees, np.frexp(degrees.astype(np.float64))[1]):
        single = single[np.argsort(level[single], kind="stable")]
        _, starts = np.unique(level[single], return_index=True)
        parts = np.split(single, starts[1:])
        for part in parts:
            if len(part) > 1:
                cycle = draws.permutation(part)
                ids[cycle] = np.roll(cycle, 1)
        if level is degrees:
            n_exact = sum(len(part) for part in parts if len(part) > 1)
        single = np.concatenate([ids[:0], *(part for part in parts if len(part) == 1)])
    for entity in single.tolist():  # trades with whom the nearest degree now has
        if ids[entity] != entity:
            continue  # another traded with it
        distance = np.abs(degrees - degrees[entity]) + np.abs(degrees[ids] - degrees[entity])
        distance[entity] = distance.max() + 1
        near = int(np.argmin(distance))
        ids[entity], ids[near] = ids[near], ids[entity]
    return EntityMap(graph, ids, n_exact)


def random_facts(
    graph: KnowledgeGraph, draws: np.random.Generator, *, keep_pairs: bool
) -> NDArray[np.int32]:
    """Triples `[triple 3]` of the same heads with all relations, and all tails, shuffled.

    How often each relation, head and tail occurs stays, so that a mention shows as many facts as
    before. Rows that are a true triple, or one made already, trade with random others, in up to
    `N_ROUNDS` rounds; `n_true` says how many true ones are left. With `keep_pairs` the tails stay.
    Raises `ConfigError` for a graph of one relation whose pairs are to be kept: nothing can change.
    """
    if keep_pairs and graph.n_relations < 2:
        raise ConfigError(f"{graph} has no other relation to join its pairs by")
    triples: NDArray[np.int32] = np.array(graph.triples)
    columns = (1,) if keep_pairs else (1, 2)
    for column in columns:
        triples[:, column] = draws.permutation(triples[:, column])
    rows = [tuple(row) for row in triples.tolist()]
    true = {tuple(row) for row in graph.triples.tolist()}
    counts = Counter(rows)
    faulty = [i for i, row in enumerate(rows) if row in true or counts[row] > 1]
    for _ in range(N_ROUNDS):
        if not faulty:
            break
        partners = draws.integers(len(rows), size=len(faulty)).tolist()
        at = draws.choice(columns, len(faulty)).tolist()
        for i, j, column in zip(faulty, partners, at, strict=True):
            _trade(rows, i, j, column, true, counts)
        faulty = [i for i in faulty if rows[i] in true or counts[rows[i]] > 1]
    return np.array(rows, np.int32).reshape(-1, 3)


def _trade(
    rows: list[Row], i: int, j: int, column: int, true: set[Row], counts: Counter[Row]
) -> None:
    """Rows i and j trade a column, unless that makes a true fact or one that is there already."""
    old = rows[i], rows[j]
    one, other = list(old[0]), list(old[1])
    one[column], other[column] = other[column], one[column]
    new = tuple(one), tuple(other)
    if new[0] == new[1] or any(row in true or counts[row] for row in new):
        return
    counts.subtract(old)
    counts.update(new)
    rows[i], rows[j] = new


def n_true(controlled: KnowledgeGraph, graph: KnowledgeGraph) -> int:
    """How many triples of `graph` a control of it still holds, by accident or on purpose."""
    return int(graph.contains(controlled.triples).sum())


def without_pairs(graph: KnowledgeGraph, pairs: NDArray[np.int32]) -> KnowledgeGraph:
    """`graph` without any triple between the two entities of one of `pairs [pair 2]`."""
    is_removed = np.isin(_keys(graph.triples[:, [0, 2]], graph), _keys(pairs, graph))
    if not is_removed.any():
        return graph
    return graph.with_triples(graph.triples[~is_removed], note="without the pairs in question")


def n_pairs_with_facts(graph: KnowledgeGraph, pairs: NDArray[np.int32]) -> int:
    """How many of `pairs [pair 2]` a triple of `graph` joins, in either direction."""
    return int(np.isin(_keys(pairs, graph), _keys(graph.triples[:, [0, 2]], graph)).sum())


def _keys(pairs: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.int64]:
    """One number an unordered pair."""
    ends = np.sort(pairs.reshape(-1, 2).astype(np.int64), axis=1)
    return ends[:, 0] * graph.n_entities + ends[:, 1]


def _with_texts_of_others(graph: KnowledgeGraph, entities: EntityMap) -> KnowledgeGraph:
    graph.require_id_space(entities.graph.id_space_hash, of="the map of random entities")
    return _remade(
        graph,
        triples=graph.triples,
        entity_texts=texts_of_others(graph.entity_texts, entities.ids),
        relation_texts=graph.relation_texts,
        note="texts of random entities",
    )


def _remade(
    graph: KnowledgeGraph,
    *,
    triples: NDArray[np.int32],
    entity_texts: Texts,
    relation_texts: Texts,
    note: str,
) -> KnowledgeGraph:
    return assemble(
        triples=triples,
        entities=graph.entities,
        relations=graph.relations,
        entity_texts=entity_texts,
        relation_texts=relation_texts,
        languages=graph.manifest.languages,
        sources=(*graph.manifest.sources, note),
        licence=graph.manifest.licence,
    )


def objectives_of(name: str, knowledge: Knowledge) -> Mapping[str, Mapping[str, Any]]:
    """What pre-training asks: the method's own, or masked words alone with knowledge off."""
    return WITHOUT_KNOWLEDGE if knowledge == "off" else method(name).objectives
