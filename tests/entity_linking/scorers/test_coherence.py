"""Coherence against networkx, candidate by candidate; who may vote; speed on a real graph."""

from __future__ import annotations

import gzip
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from entity_linking import Candidate, Link, LinkedText, LinkingError, Mention
from entity_linking.scorers import walks as walks_module
from entity_linking.scorers.coherence import CoherenceScorer
from entity_linking.scorers.walks import n_steps, personalised_pagerank, walkable
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

FLOOR = 1e-4


def text_of(*mentions: dict[str, float]) -> LinkedText:
    """One letter a mention, candidates with their priors."""
    links = tuple(
        Link(Mention(i, i + 1), tuple(Candidate(e, p, p) for e, p in each.items()), None, 1.0)
        for i, each in enumerate(mentions)
    )
    return LinkedText("x" * max(len(mentions), 1), links)


def random_graph(seed: int) -> KnowledgeGraph:
    draws = np.random.default_rng(seed)
    rows = draws.integers(0, 40, (90, 2)).tolist() + [[i, 39] for i in range(0, 36, 2)]
    return graph_from_records(
        [Triple(f"Q{a}", f"P{i % 3}", f"Q{b}") for i, (a, b) in enumerate(rows)]
    )


def random_text(seed: int) -> LinkedText:
    """Shared candidates, unknown ones, a mention without any, one asked twice."""
    draws = np.random.default_rng(seed)
    mentions: list[dict[str, float]] = []
    for _ in range(6):
        chosen = draws.choice(46, 4, replace=False).tolist()  # Q40 and more are unknown
        mentions.append(dict(zip((f"Q{i}" for i in chosen), (0.5, 0.3, 0.15, 0.05), strict=True)))
    return text_of(*mentions, {}, mentions[0])


def oracle(
    graph: KnowledgeGraph, text: LinkedText, *, hops: int, hub_limit: int, use_priors: bool
) -> list[list[float]]:
    """Loops and networkx."""
    names = [str(name) for name in graph.entities]
    joined: dict[str, set[str]] = {name: set() for name in names}
    degree = dict.fromkeys(names, 0)
    for h, _, t in graph.triples.tolist():
        degree[names[h]] += 1
        degree[names[t]] += 1
        if h != t:
            joined[names[h]].add(names[t])
            joined[names[t]].add(names[h])
    candidates = [[c.entity for c in link.candidates] for link in text.links]
    known = sorted({e for each in candidates for e in each if e in joined})
    walkers = nx.Graph()
    walkers.add_nodes_from(known)
    for a, b in combinations(known, 2):
        if any(a in item and b in item for item in candidates):
            continue
        weight = float(b in joined[a])
        if hops == 2:
            weight += sum(1 / degree[v] for v in joined[a] & joined[b] if degree[v] <= hub_limit)
        if weight:
            walkers.add_edge(a, b, weight=weight)
    results = []
    for m, link in enumerate(text.links):
        restart = dict.fromkeys(known, 0.0)
        for other, voter in enumerate(text.links):
            total = sum(c.prior for c in voter.candidates)
            for c in voter.candidates:
                if other != m and c.entity in restart and c.entity not in candidates[m]:
                    restart[c.entity] += (
                        c.prior / total if use_priors else 1 / len(candidates[other])
                    )
        shares = {}
        if any(restart.values()):
            shares = nx.pagerank(walkers, 0.85, restart, max_iter=2000, tol=1e-13)
        results.append([float(np.log(shares.get(c.entity, 0.0) + FLOOR)) for c in link.candidates])
    return results


@pytest.mark.parametrize("dense_nodes", [0, 1000])
@pytest.mark.parametrize(
    ("hops", "hub_limit", "use_priors"), [(1, 9, True), (2, 9, False), (2, 99, True)]
)
def test_scores_are_those_of_networkx(
    hops: int, hub_limit: int, use_priors: bool, dense_nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks_module, "DENSE_NODES", dense_nodes)
    for seed in range(3):
        graph, text = random_graph(seed), random_text(seed)
        scorer = CoherenceScorer(
            graph,
            hops=hops,
            hub_limit=hub_limit,
            use_priors=use_priors,  # type: ignore[arg-type]
        )
        (scores,) = scorer.scores([text])
        expected = oracle(graph, text, hops=hops, hub_limit=hub_limit, use_priors=use_priors)
        for ours, theirs in zip(scores, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        assert max(map(max, expected[:-2])) > np.log(FLOOR) + 3


def test_a_shared_neighbour_decides(small_graph: KnowledgeGraph) -> None:
    paris = {"Q830149": 0.9, "Q90": 0.1}
    scorer = CoherenceScorer(small_graph)
    (scores,) = scorer.scores([text_of(paris, {"Q1471": 1.0})])  # the Seine flows through Paris
    assert scores[0][1] > scores[0][0]
    assert scores[0][0] == pytest.approx(np.log(FLOOR))  # Paris, Texas has no triple


def test_nobody_votes_for_itself(small_graph: KnowledgeGraph) -> None:
    """Neither a lonely mention nor the same name twice says anything; unknown is the floor."""
    paris = {"Q90": 0.9, "Q142": 0.1, "Q99999": 0.0}
    for mentions in ([paris], [paris, paris], [paris, {}], [paris, {"unknown": 1.0}]):
        (scores,) = CoherenceScorer(small_graph).scores([text_of(*mentions)])
        np.testing.assert_allclose(scores[0], np.log(FLOOR))
    (scores,) = CoherenceScorer(small_graph).scores([text_of(paris, {"Q1471": 1.0})])
    assert scores[0][2] == pytest.approx(np.log(FLOOR))
    assert CoherenceScorer(small_graph).scores([text_of()]) == [[]]


def test_later_candidates_get_the_floor_and_batches_do_not_matter() -> None:
    graph, texts = random_graph(5), [random_text(i) for i in range(4)]
    scorer = CoherenceScorer(graph, max_candidates=2)
    together = scorer.scores(texts)
    assert all(score[2:].tolist() == [np.log(FLOOR)] * 2 for score in together[0][:6])
    alone = [scorer.scores([text])[0] for text in texts]
    for ours, theirs in zip(together, alone, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.tolist() == b.tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        {"damping": 1.0},
        {"tolerance": 0.0},
        {"hops": 3},
        {"max_candidates": 0},
        {"hub_limit": 1},
        {"floor": 0.0},
    ],
)
def test_wrong_settings_are_told(small_graph: KnowledgeGraph, wrong: dict[str, float]) -> None:
    with pytest.raises(LinkingError, match=str(next(iter(wrong.values())))):
        CoherenceScorer(small_graph, **wrong)  # type: ignore[arg-type]


def test_walks_reach_their_tolerance() -> None:
    weights = nx.to_scipy_sparse_array(nx.gnm_random_graph(200, 300, seed=1), dtype=float)
    exact = np.linalg.solve(
        np.eye(200) - 0.9 * weights.toarray() / weights.sum(axis=0).clip(min=1), 0.1 * np.eye(200)
    )
    for tolerance in (1e-3, 1e-6, 1e-9):
        actual = personalised_pagerank(
            walkable(weights.tocsr()), np.eye(200), damping=0.9, tolerance=tolerance
        )
        assert np.abs(actual - exact).max() < 4 * tolerance
    assert n_steps(0.85, 1e-6) < 30


@pytest.mark.data
def test_documents_of_a_real_graph_do_not_meet(data_root: Path) -> None:
    with gzip.open(data_root / "codex/codex-s/train.txt.gz", "rt", encoding="utf-8") as lines:
        graph = graph_from_records(Triple(*line.split()) for line in lines)
    draws = np.random.default_rng(0)
    names = [str(name) for name in graph.entities]
    priors = [0.55, *[0.05] * 9]
    chosen = [[draws.choice(names, 10, False).tolist() for _ in range(10)] for _ in range(20)]
    texts = [
        text_of(*(dict(zip(each, priors, strict=True)) for each in mentions)) for mentions in chosen
    ]
    scorer = CoherenceScorer(graph)
    together, alone = scorer.scores(texts), [scorer.scores([text])[0] for text in texts]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(np.stack(one), np.stack(other), atol=1e-4)
    assert max(float(np.ptp(scores)) for scores in together[0]) > 0.1
