"""Batched neighbours against a slow loop; policies; personalised PageRank against networkx."""

from __future__ import annotations

import hashlib
import pickle
import tracemalloc
from collections import Counter
from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders import neighbours as module
from kg_loaders.neighbours import (
    POLICIES,
    TEXT_POLICIES,
    Directions,
    Policy,
    by_relevance,
    neighbours,
    personal_page_rank,
)
from kg_loaders.reading.blocks import TripleBlock
from kg_loaders.vocabulary import strings


def random_graph(seed: int, n_entities: int = 12, n_triples: int = 40) -> KnowledgeGraph:
    rows = np.random.default_rng(seed).integers(0, n_entities, (n_triples, 3))
    return graph_from_records(Triple(f"e{h}", f"r{r % 3}", f"e{t}") for h, r, t in rows)


def candidates(graph: KnowledgeGraph, entity: int, directions: Directions) -> list[int]:
    """Rows by reading all triples, in the documented order."""
    triples = [tuple(row) for row in graph.triples.tolist()]
    out = [row for row, (h, _, _) in enumerate(triples) if h == entity]
    into = [row for row, (h, _, t) in enumerate(triples) if t == entity and h != entity]
    into.sort(key=lambda row: (triples[row][1], triples[row][0]))
    return out + (into if directions == "both" else [])


def split(rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> list[list[int]]:
    return [
        rows[a:b].tolist() for a, b in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
    ]


def score(graph: KnowledgeGraph, name: str, row: int, entity: int) -> float:
    """What a deterministic policy sorts by, far end only."""
    h, r, t = graph.triples[row].tolist()
    far = t if h == entity else h
    if name == "degree":
        return float((graph.triples[:, [0, 2]] == far).sum())
    return {"file": 0.0, "relevance": float(RELEVANCE[far] + 10 * RELEVANCE[r])}[name]


RELEVANCE = np.random.default_rng(5).random(12).round(1)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 20),
    entities=st.lists(st.integers(0, 5), max_size=6),
    n=st.integers(0, 8),
    name=st.sampled_from(["file", "degree", "relevance"]),
    directions=st.sampled_from(["out", "both"]),
)
def test_against_a_loop(
    seed: int, entities: list[int], n: int, name: str, directions: Directions
) -> None:
    graph = random_graph(seed)
    policy: str | Policy = name
    if name == "relevance":
        policy = by_relevance(
            entity_scores=RELEVANCE[: graph.n_entities],
            relation_scores=10 * RELEVANCE[: graph.n_relations],
        )
    actual = neighbours(
        graph, np.array(entities, np.int32), n,
        policy=policy, generator=np.random.default_rng(0), directions=directions,
    )  # fmt: skip
    for entity, rows in zip(entities, split(*actual), strict=True):
        wanted = candidates(graph, entity, directions)
        loops = {r for r in wanted if graph.triples[r, 0] == graph.triples[r, 2]}
        if not loops:  # the own score of an entity is a constant among its other triples only
            best = sorted(wanted, key=lambda row: -round(score(graph, name, row, entity), 9))
            expected = [round(score(graph, name, row, entity), 9) for row in best[:n]]
            assert [round(score(graph, name, row, entity), 9) for row in rows] == expected
        assert len(rows) == len(set(rows)) == min(n, len(wanted))
        assert set(rows) <= set(wanted)
        if name == "file":
            assert rows == wanted[:n]


@pytest.mark.parametrize("name", POLICIES)
def test_deterministic_given_the_generator(name: str) -> None:
    graph = random_graph(1, 30, 300)
    batch = np.arange(30, dtype=np.int32)
    first, again, other = (
        neighbours(graph, batch, 3, policy=name, generator=np.random.default_rng(seed))
        for seed in (0, 0, 1)
    )
    assert split(*first) == split(*again)
    assert (split(*first) != split(*other)) == (name == "random")


def test_random_is_uniform() -> None:
    graph = graph_from_records(Triple("a", "r", f"b{i}") for i in range(6))
    generator = np.random.default_rng(0)
    entity = graph.entities.id("a")
    rows, offsets = neighbours(
        graph, np.full(6000, entity, np.int32), 2, policy="random", generator=generator
    )
    assert offsets[-1] == 12_000
    counts = np.bincount(rows, minlength=6)
    assert abs(counts - 2000).max() < 5 * np.sqrt(6000 * 1 / 3 * 2 / 3)


@pytest.mark.parametrize("directions", ["out", "both"])
@pytest.mark.parametrize("n_facts", [2, 3, 4, 7])
def test_every_choice_in_every_order_is_as_likely(n_facts: int, directions: Directions) -> None:
    """As by a shuffle of all facts: chi-squared over ordered choices of 3, loops and both ends."""
    facts = [("a", "r", "a"), ("b", "r", "a"), ("a", "s", "b"), ("c", "r", "a"), ("a", "r", "c")]
    facts += [("a", "t", "a"), ("d", "r", "a")]
    facts = (
        facts[:n_facts] if directions == "both" else [("a", "r", f"b{i}") for i in range(n_facts)]
    )
    graph = graph_from_records(Triple(*fact) for fact in facts)
    entities = np.full(30_000, graph.entities.id("a"), np.int32)
    rows, offsets = neighbours(
        graph,
        entities,
        3,
        policy="random",
        generator=np.random.default_rng(3),
        directions=directions,
    )
    size = min(3, n_facts)
    assert (np.diff(offsets) == size).all()
    choices = list(permutations(range(n_facts), size))
    counts = Counter(map(tuple, rows.reshape(-1, size).tolist()))
    assert counts.keys() == set(choices)
    expected = len(entities) / len(choices)
    chi2 = sum((counts[choice] - expected) ** 2 / expected for choice in choices)
    freedom = len(choices) - 1
    assert chi2 < freedom + 5 * np.sqrt(2 * freedom)


def test_the_draws_of_a_seed_stay_what_they_are() -> None:
    """Whoever repeats a study by its seed reads the same facts; those of an earlier version."""
    rows = np.random.default_rng(3).integers(0, 40, (2_000, 3))
    graph = graph_from_records(Triple(f"e{h}", f"r{r % 3}", f"e{t * 50 + r}") for h, r, t in rows)
    entities = np.arange(5, dtype=np.int32)
    sampled: list[int] = []
    for n in (1, 5, 15, 49, 64, 80):
        for directions in ("out", "both"):
            generator = np.random.default_rng(7)
            for first in (0, 30):
                actual, _ = neighbours(
                    graph, entities + first, n, policy="random", generator=generator,
                    directions=directions,
                )  # fmt: skip
                sampled += actual.tolist()
    assert sampled[:3] == [11, 67, 139]
    assert len(sampled) == 1048
    digest = hashlib.sha256(np.array(sampled, np.int64).tobytes()).hexdigest()
    assert digest.startswith("8b15a45f8bbbfe3e")


@pytest.mark.parametrize("n", [0, 1, 15, 64, 65, 200])
@pytest.mark.parametrize("directions", ["out", "both"])
def test_random_rows_are_different_facts_of_their_entity(n: int, directions: Directions) -> None:
    graph = random_graph(4, 20, 900)
    entities = np.array([3, 0, 3, 19, 7], np.int32)
    actual = neighbours(
        graph, entities, n, policy="random", generator=np.random.default_rng(0),
        directions=directions,
    )  # fmt: skip
    for entity, rows in zip(entities.tolist(), split(*actual), strict=True):
        wanted = candidates(graph, entity, directions)
        assert len(rows) == len(set(rows)) == min(n, len(wanted))
        assert set(rows) <= set(wanted)


@pytest.mark.parametrize("n", [15, 100])
def test_a_hub_costs_no_more_than_others(n: int) -> None:
    n_facts = 300_000
    ends = np.stack([np.zeros(n_facts), np.arange(1, n_facts + 1)], axis=1).astype(np.int32)
    ends = np.concatenate([ends, ends[:, ::-1]])
    relation_ids = np.zeros(len(ends), np.int32)
    graph = graph_from_records([TripleBlock(ends, relation_ids, "Q", strings(["P1"]))])
    hub = np.array([graph.entities.id("Q0")], np.int32)
    assert not graph.has_loop.any()
    draws = np.random.default_rng(0)
    for directions in ("out", "both"):
        tracemalloc.start()
        rows, _ = neighbours(graph, hub, n, policy="random", generator=draws, directions=directions)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(set(rows.tolist())) == n
        assert (graph.triples[rows][:, [0, 2]] == hub).any(axis=1).all()
        assert peak < 100_000, "bytes: less than one for each fact"


def test_loops_are_known_and_travel() -> None:
    graph = graph_from_records(
        [Triple("a", "r", "a"), Triple("a", "r", "b"), Triple("b", "r", "c")]
    )
    assert graph.has_loop.tolist() == [True, False, False]
    assert pickle.loads(pickle.dumps(graph)).has_loop.tolist() == [True, False, False]


def test_wrong_arguments(small_graph: KnowledgeGraph) -> None:
    generator = np.random.default_rng(0)
    for wrong in ([-1], [small_graph.n_entities], [0, small_graph.n_entities], [-1, 0]):
        with pytest.raises(IndexError, match="outside"):
            neighbours(small_graph, np.array(wrong), 1, policy="file", generator=generator)
    policy = by_relevance(entity_scores=np.zeros(3))
    with pytest.raises(ValueError, match=r"\(3,\) for 10 nodes"):
        neighbours(small_graph, np.array([1]), 1, policy=policy, generator=generator)


def with_isolated(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The graph without the triples of three of its entities, 3 among them."""
    apart = np.isin(graph.triples[:, [0, 2]], [3, 4, graph.n_entities - 1]).any(1)
    return graph.with_triples(graph.triples[~apart], note="three entities stand alone")


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_page_rank_against_networkx(seed: int, alone: bool) -> None:
    """A walker that restarts at an entity without triples is sent back to the start."""
    graph = random_graph(seed, 12, 14)
    graph = with_isolated(graph) if alone else graph
    other = nx.MultiDiGraph()
    other.add_nodes_from(range(graph.n_entities))
    for head, _, tail in graph.triples.tolist():
        other.add_edge(head, tail)
        other.add_edge(tail, head)
    seeds = np.array([0, 3], np.int32)
    weights = {0: 0.5, 3: 0.5}
    expected = nx.pagerank(
        other, alpha=0.85, personalization=weights, dangling=weights, tol=1e-12, max_iter=500
    )
    rank = personal_page_rank(graph, seeds, n_steps=120)
    np.testing.assert_allclose(rank, [expected[i] for i in range(graph.n_entities)], atol=1e-7)
    assert rank.sum() == pytest.approx(1)
    short = personal_page_rank(graph, seeds, n_steps=10)
    assert abs(short - rank).sum() <= 2 * 0.85**10


def test_relevance_prefers_what_the_text_mentions() -> None:
    """Of two facts, the one whose far end is mentioned too comes first; then what leads to it."""
    triples = [("a", "r", "b"), ("a", "r", "c"), ("a", "r", "d"), ("d", "r", "e"), ("c", "r", "f")]
    graph = graph_from_records(Triple(*triple) for triple in triples)
    ids = graph.entities.id
    draws = np.random.default_rng(0)
    for mentioned, expected in (("c", "cdb"), ("e", "dcb"), ("b", "bcd")):
        policy = TEXT_POLICIES["relevance"](graph, np.array([ids("a"), ids(mentioned)], np.int32))
        facts = graph.outgoing(ids("a"))
        order = policy(graph, facts, draws)
        assert [graph.entities.name(int(facts[i, 2])) for i in order] == list(expected)


def test_entities_without_triples_have_none(small_graph: KnowledgeGraph) -> None:
    """The last one of a batch too."""
    alone, paris = (small_graph.entities.id(name) for name in ("Q830149", "Q90"))
    for entities in ([alone], [paris, alone], [alone, paris, alone, alone]):
        rows, offsets = neighbours(
            small_graph, np.array(entities, np.int32), 2,
            policy="file", generator=np.random.default_rng(0),
        )  # fmt: skip
        assert np.diff(offsets).tolist() == [2 * (entity == paris) for entity in entities]
        assert len(rows) == offsets[-1]


@pytest.mark.parametrize("mentioned", [["Q90"], ["Q830149"], ["Q90", "Q90", "Q2"]])
def test_where_the_walker_ends_sums_to_one(
    small_graph: KnowledgeGraph, mentioned: list[str]
) -> None:
    ids = np.array([small_graph.entities.id(name) for name in mentioned], np.int32)
    rank = personal_page_rank(small_graph, ids)
    assert rank.sum() == pytest.approx(1)
    assert rank[ids].min() > 0.15 / len(ids)


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 20),
    n=st.sampled_from([0, 1, 3, 8, 15, 64, 70]),
    name=st.sampled_from([*POLICIES, "relevance"]),
    directions=st.sampled_from(["out", "both"]),
)
def test_one_entity_has_the_neighbours_of_a_batch_of_one(
    seed: int, n: int, name: str, directions: Directions
) -> None:
    """The same rows from the same draws, and the generator goes on from the same place."""
    graph = random_graph(seed, 4 + seed, 40 + 30 * seed)
    policy: str | Policy = name
    if name == "relevance":
        policy = by_relevance(entity_scores=np.arange(graph.n_entities) % 3)
    for entity in range(graph.n_entities):
        one, batch = np.random.default_rng(seed), np.random.default_rng(seed)
        rows = neighbours(
            graph, np.array([entity], np.int32), n,
            policy=policy, generator=one, directions=directions,
        )  # fmt: skip
        expected = by_arrays(graph, entity, n, policy, batch, directions)
        assert [each.tolist() for each in rows] == [each.tolist() for each in expected]
        assert [each.dtype for each in rows] == [np.int64, np.int64]
        assert one.random() == batch.random()


def by_arrays(
    graph: KnowledgeGraph, entity: int, n: int, policy: str | Policy,
    generator: np.random.Generator, directions: Directions,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_ALONE", 0)
        return neighbours(
            graph, np.array([entity], np.int32), n,
            policy=policy, generator=generator, directions=directions,
        )  # fmt: skip


def test_one_entity_outside_is_named() -> None:
    for entity in (-1, 12):
        with pytest.raises(IndexError, match=r"entity ids outside 0\.\.11"):
            neighbours(
                random_graph(0), np.array([entity]), 3, policy="file",
                generator=np.random.default_rng(0),
            )  # fmt: skip
