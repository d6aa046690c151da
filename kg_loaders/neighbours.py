"""Neighbour policies: which triples of an entity enter a word-knowledge graph.

A policy is a function `(graph, triples, generator) -> order`, where `triples [n 3]` are candidates
and `order int64 [n]` ranks them best first; ties keep the order of `triples`. A policy may be given
the candidates of many entities at once: `neighbours` does, and keeps the best of each entity.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kg_loaders.store import KnowledgeGraph

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
Policy = Callable[[KnowledgeGraph, Ids, np.random.Generator], Rows]
Directions = Literal["out", "both"]


def file_order(graph: KnowledgeGraph, triples: Ids, generator: np.random.Generator) -> Rows:
    """Stored order: by relation id, then tail id; with "both", incoming triples come after."""
    return np.arange(len(triples))


def random_order(graph: KnowledgeGraph, triples: Ids, generator: np.random.Generator) -> Rows:
    """Uniformly shuffled by `generator`."""
    return generator.permutation(len(triples))


def by_degree(graph: KnowledgeGraph, triples: Ids, generator: np.random.Generator) -> Rows:
    """Best-connected far ends first.

    Sorts by the degrees of head plus tail: an entity shares its own degree with all its triples.
    """
    heads, tails = triples[:, 0], triples[:, 2]
    return np.argsort(-(_degrees(graph, heads) + _degrees(graph, tails)), kind="stable")


def _degrees(graph: KnowledgeGraph, entities: Ids) -> Rows:
    n_out = graph.out_offsets[entities + 1] - graph.out_offsets[entities]
    n_in = graph.in_offsets[entities + 1] - graph.in_offsets[entities]
    return n_out + n_in


def by_relevance(
    *, entity_scores: NDArray[Any] | None = None, relation_scores: NDArray[Any] | None = None
) -> Policy:
    """A policy: triples whose far end and relation score highest first.

    `entity_scores [entity]` and `relation_scores [relation]` say how well each fits the sentence:
    the product of their vectors with the sentence's, or `personal_page_rank`.
    """

    def policy(graph: KnowledgeGraph, triples: Ids, generator: np.random.Generator) -> Rows:
        score = np.zeros(len(triples))
        for scores, n, columns in (
            (entity_scores, graph.n_entities, (0, 2)),
            (relation_scores, graph.n_relations, (1,)),
        ):
            if scores is None:
                continue
            if scores.shape != (n,):
                raise ValueError(f"scores of shape {scores.shape} for {n} nodes of {graph}")
            for column in columns:
                score += scores[triples[:, column]]
        return np.argsort(-score, kind="stable")

    return policy


def personal_page_rank(
    graph: KnowledgeGraph, entity_ids: Ids, *, restart: float = 0.15, n_steps: int = 30
) -> Scores:
    """Where a walker ends who restarts at `entity_ids`, float64 `[entity]`, summing to 1.

    Personalised PageRank (Page et al. 1999, section 6) by `n_steps` of power iteration over triples
    in both directions; a walker at an entity without triples restarts. The error is at most
    `2 * (1 - restart) ** n_steps` in the sum of absolute differences.
    """
    start = np.bincount(entity_ids, minlength=graph.n_entities) / max(len(entity_ids), 1)
    everyone = np.arange(graph.n_entities, dtype=np.int32)
    degrees = _degrees(graph, everyone)
    heads, tails = graph.triples[:, 0], graph.triples[:, 2]
    rank: Scores = start
    for _ in range(n_steps):
        step = rank / np.maximum(degrees, 1)
        moved = np.bincount(tails, step[heads], graph.n_entities)
        moved += np.bincount(heads, step[tails], graph.n_entities)
        stuck = rank[degrees == 0].sum()
        rank = (1 - restart) * (moved + stuck * start) + restart * start
    return rank


def by_nearness(graph: KnowledgeGraph, entity_ids: Ids) -> Policy:
    """`by_relevance` to a text that mentions `entity_ids`: facts between two mentions come first.

    The others follow by `personal_page_rank` from all mentions, so that those towards the other
    mentions lead. One walk over the whole graph a text: some 15 ms for 50,000 entities.
    """
    scores = personal_page_rank(graph, entity_ids)
    scores[entity_ids] += 1.0
    return by_relevance(entity_scores=scores)


POLICIES: dict[str, Policy] = {"file": file_order, "random": random_order, "degree": by_degree}
TEXT_POLICIES: dict[str, Callable[[KnowledgeGraph, Ids], Policy]] = {"relevance": by_nearness}
"""Policies that a text's entities must be known for: functions of `(graph, entity_ids)`."""


def neighbours(
    graph: KnowledgeGraph,
    entity_ids: Ids,
    n: int,
    *,
    policy: str | Policy,
    generator: np.random.Generator,
    directions: Directions = "out",
) -> tuple[Rows, Rows]:
    """The best `n` triples of every entity, best first.

    Returns `rows` int64 `[neighbour]`, rows of `graph.triples`, and `offsets` int64 `[entity+1]`:
    those of entity i are `rows[offsets[i]:offsets[i + 1]]`. With `directions="both"` triples whose
    tail is the entity count too, a loop once. An entity may come twice and is then drawn twice; the
    draws depend on the whole batch. With the policy "random" an entity of a million triples costs
    no more than one of a thousand.
    """
    ranker = POLICIES[policy] if isinstance(policy, str) else policy
    if len(entity_ids) <= MOST_ALONE and len(entity_ids):
        return _of_one(graph, entity_ids[0], n, ranker, generator, directions)
    entity_ids = np.asarray(entity_ids)
    if len(entity_ids) and not (entity_ids.min() >= 0 and entity_ids.max() < graph.n_entities):
        raise IndexError(f"entity ids outside 0..{graph.n_entities - 1}")
    if ranker is random_order:
        return _sample(graph, entity_ids, n, generator, directions)
    rows, owners = _candidates(graph, entity_ids, directions)
    order = ranker(graph, graph.triples[rows], generator)
    small = owners.astype(np.uint16) if len(entity_ids) <= 65536 else owners  # radix sort
    order = order[np.argsort(small[order], kind="stable")]
    n_each = np.bincount(owners, minlength=len(entity_ids))
    first = np.cumsum(n_each) - n_each
    kept, _ = _ranges(first, np.minimum(n_each, n))
    offsets = np.concatenate([[0], np.cumsum(np.minimum(n_each, n))])
    return rows[order[kept]], offsets.astype(np.int64)


def _of_one(
    graph: KnowledgeGraph,
    entity: Any,
    n: int,
    ranker: Policy,
    generator: np.random.Generator,
    directions: Directions,
) -> tuple[Rows, Rows]:
    """`neighbours` of one entity, by fewer steps: most of them are set-up for a batch."""
    entity = operator.index(entity)
    if not 0 <= entity < graph.n_entities:
        raise IndexError(f"entity ids outside 0..{graph.n_entities - 1}")
    if ranker is random_order:
        rows = _sample_one(graph, entity, n, generator, directions)
    else:
        rows = np.arange(graph.out_offsets[entity], graph.out_offsets[entity + 1])
        if directions == "both":
            rows = np.concatenate([rows, _proper_incoming(graph, entity)])
        if ranker is file_order:
            rows = rows[:n]
        else:
            rows = rows[ranker(graph, graph.triples[rows], generator)[:n]]
    return rows, np.array([0, len(rows)])


def _proper_incoming(graph: KnowledgeGraph, entity: int) -> Rows:
    """Rows of the triples that end at an entity and begin at another."""
    places = slice(*graph.in_offsets[entity : entity + 2].tolist())
    rows: Rows = graph.in_order[places].astype(np.int64)
    proper: Rows = rows[graph.triples[rows, 0] != entity]
    return proper


def _candidates(
    graph: KnowledgeGraph, entity_ids: Ids, directions: Directions
) -> tuple[Rows, Rows]:
    """Rows of all triples of the entities, and the index of the entity each belongs to."""
    rows, owners = _spread(graph.out_offsets, entity_ids)
    if directions == "both":
        places, in_owners = _spread(graph.in_offsets, entity_ids)
        in_rows = graph.in_order[places].astype(np.int64)
        proper = graph.triples[in_rows, 0] != entity_ids[in_owners]
        rows = np.concatenate([rows, in_rows[proper]])
        owners = np.concatenate([owners, in_owners[proper]])
    return rows, owners


MOST_ALONE = 1
"""Entities that are not worth the set-up of arrays."""


# ---- random --------------------------------------------------------------------------------------
_MOST_COMPARED = 64
"""Places of one entity that are compared with each other; a loop over entities draws more."""


def _sample(
    graph: KnowledgeGraph,
    entity_ids: Ids,
    n: int,
    generator: np.random.Generator,
    directions: Directions,
) -> tuple[Rows, Rows]:
    """`neighbours` by `random_order`, which draws places in place of shuffling all triples."""
    starts = graph.out_offsets.take(entity_ids)
    n_all = n_out = graph.out_offsets.take(entity_ids + 1) - starts
    if directions == "both":
        in_starts = graph.in_offsets.take(entity_ids)
        n_all = n_out + graph.in_offsets.take(entity_ids + 1) - in_starts
    n_each = np.minimum(n_all, n)
    if n > _MOST_COMPARED:
        is_there = np.arange(n) < n_each[:, None]
    else:
        is_there = _first_of(n)[0].take(n_each, axis=0)
    places = _draw_places(n_all, is_there, generator)
    rows: NDArray[Any] = places
    if directions == "out":
        rows += starts.astype(np.uint32)[:, None]  # a graph has fewer than 2**31 triples
    else:
        rows = places + starts[:, None]
        into = (places >= n_out[:, None]) & is_there
        rows[into] = graph.in_order[((in_starts - n_out)[:, None] + places)[into]]
    if directions == "both" and graph.has_loop[entity_ids].any():
        for i in np.flatnonzero(graph.has_loop[entity_ids]):  # a loop stands in both directions
            whole, _ = _candidates(graph, entity_ids[i : i + 1], directions)
            n_each[i] = min(n, len(whole))
            is_there[i] = np.arange(n) < n_each[i]
            rows[i, : n_each[i]] = generator.permutation(whole)[:n]
    offsets = np.zeros(len(n_each) + 1, np.int64)
    np.cumsum(n_each, out=offsets[1:])
    return rows[is_there].astype(np.int64, copy=False), offsets


def _draw_places(
    n_all: Rows, is_there: NDArray[np.bool_], generator: np.random.Generator
) -> NDArray[np.uint32]:
    """Different places below each of `n_all`, in random order, `[entity n]`.

    Where `is_there [entity n]` is False they mean nothing. An entity costs what n asks for.
    """
    n = is_there.shape[1]
    if n > _MOST_COMPARED:
        places = np.zeros(is_there.shape, np.uint32)
        for i, n_places in enumerate(n_all.tolist()):
            size = min(n, n_places)
            places[i, :size] = generator.choice(n_places, size, replace=False)
        return places
    # an order by 26 random bits above each number, and behind all what is not there
    bits = generator.integers(0, 2**64, (is_there.size + 1) // 2, np.uint64)
    keys = bits.view(np.uint32)[: is_there.size].reshape(is_there.shape)
    keys &= ~_NUMBER
    keys |= _first_of(n)[1].take(np.minimum(n_all, n), axis=0)
    keys.sort(axis=1)
    keys &= _NUMBER
    more = np.flatnonzero(n_all > n)
    if len(more):
        some = _some_places(n_all[more], n, generator)
        in_order = np.multiply(keys.take(more, axis=0), len(more), dtype=np.int64)
        in_order += np.arange(len(more))[:, None]
        keys[more] = some.ravel().take(in_order)
    return keys


def _sample_one(
    graph: KnowledgeGraph,
    entity: int,
    n: int,
    generator: np.random.Generator,
    directions: Directions,
) -> Rows:
    """`_sample` of one entity: the same draws, by numbers of Python where arrays take longer."""
    start, stop = graph.out_offsets[entity : entity + 2].tolist()
    is_both = directions == "both"
    if n > _MOST_COMPARED or (is_both and graph.has_loop[entity]):
        return _sample(graph, np.array([entity], np.int32), n, generator, directions)[0]
    n_all = n_out = stop - start
    if is_both:
        in_start, in_stop = graph.in_offsets[entity : entity + 2].tolist()
        n_all += in_stop - in_start
    n_each = min(n_all, n)
    bits = generator.integers(0, 2**64, (n + 1) // 2, np.uint64)
    keys = bits.view(np.uint32)[:n_each]
    keys &= ~_NUMBER
    keys |= _first_of(n)[1][n, :n_each]
    keys.sort()
    keys &= _NUMBER
    places = keys.tolist()
    if n_all > n:
        some = _some_places_of_one(n_all, n, generator)
        places = [some[index] for index in places]
    if not is_both:
        return np.array([start + index for index in places], np.int64)
    rows = [
        start + index if index < n_out else graph.in_order[in_start - n_out + index]
        for index in places
    ]
    return np.array(rows, np.int64)


def _some_places_of_one(n_all: int, n: int, generator: np.random.Generator) -> list[int]:
    """`_some_places` below one number."""
    places: dict[int, None] = {}
    for last, random in enumerate(generator.random(n).tolist(), n_all - n):
        index = int(random * (last + 1.0))
        places[last if index in places else index] = None
    return list(places)


_NUMBER, _LAST = np.uint32(_MOST_COMPARED - 1), np.uint32(2**32 - 1)


@lru_cache(maxsize=8)
def _first_of(n: int) -> tuple[NDArray[np.bool_], NDArray[np.uint32]]:
    """For 0 to n: which of n places are the first so many; their numbers, `_LAST` for the others.

    Both `[n + 1 n]`.
    """
    is_first = np.tri(n + 1, n, -1, np.bool_)
    return is_first, np.where(is_first, np.arange(n, dtype=np.uint32), _LAST)


def _some_places(n_all: Rows, n: int, generator: np.random.Generator) -> NDArray[Any]:
    """`n` different places below each of `n_all`, which are more, `[n entity]`.

    Floyd's algorithm (Bentley and Floyd, Communications of the ACM 30, 1987), for all at once.
    """
    kind: Any = np.int16 if n_all.max() < 2**15 else np.int32  # the narrower, the faster compared
    last = (n_all - n).astype(kind) + np.arange(n, dtype=kind)[:, None]
    random = generator.random(last.shape)
    random *= last + np.float64(1)
    places: NDArray[Any] = random.astype(kind)
    for i in range(1, n):
        is_taken = (places[:i] == places[i]).any(axis=0)
        np.maximum(places[i], last[i] * is_taken, out=places[i])  # none is above the last
    return places


def _spread(offsets: Rows, ids: Ids) -> tuple[Rows, Rows]:
    """All places between the offsets of `ids`, and the index of the id each belongs to."""
    return _ranges(offsets[ids], offsets[ids + 1] - offsets[ids])


def _ranges(starts: Rows, n_each: Rows) -> tuple[Rows, Rows]:
    """Places that follow each start, as many as it has, and the index of the start of each."""
    owners = np.repeat(np.arange(len(starts)), n_each)
    before = np.cumsum(n_each) - n_each
    return np.arange(len(owners)) + np.repeat(starts - before, n_each), owners
