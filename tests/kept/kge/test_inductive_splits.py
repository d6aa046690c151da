"""Splits by unseen entities, the degree baseline, and ranking among sampled candidates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import hypergeom

from kept.errors import ConfigError, EvaluationError
from kept.evaluation.ranking import Filter, rank
from kept.evaluation.sampled_ranking import rank_among_sampled
from kept.kge.inductive import DegreeScorer, InductiveSplit, Part, split_unseen, two_graphs
from kept.kge.splits import Splits
from kg_loaders import Triple, graph_from_records

N = 40
ROWS = sorted(
    {(f"e{i:02}", f"r{i % 3}", f"e{(i * k + k) % N:02}") for i in range(N) for k in (3, 7, 11)}
)


def splits(rows: list[tuple[str, str, str]] = ROWS) -> Splits:
    graph = graph_from_records([Triple(*row) for row in rows])
    triples = np.array(graph.triples)
    order = np.random.default_rng(0).permutation(len(triples))
    parts = np.split(triples[order], [len(order) * 8 // 10, len(order) * 9 // 10])
    return Splits(graph, *parts)


def names(part: Part, rows: np.ndarray, split: InductiveSplit) -> set[tuple[int, int, int]]:
    """Triples in ids of the whole graph."""
    ids = part.entities
    return {(int(ids[h]), int(r), int(ids[t])) for h, r, t in rows}


@pytest.mark.parametrize("context_share", [0.0, 0.5])
def test_no_unseen_entity_reaches_training(context_share: float):
    whole = splits()
    split = split_unseen(
        whole, valid_share=0.1, test_share=0.2, context_share=context_share, seed=3
    )
    seen = set(split.train.entities.tolist())
    everything = {tuple(map(int, row)) for row in whole.graph.triples}
    train = names(split.train, split.train.context, split)
    assert train < everything
    assert {e for h, _, t in train for e in (h, t)} == seen
    for name in ("valid", "test"):
        part = split.parts[name]
        held = set(part.entities.tolist()) - seen
        queries = names(part, part.queries, split)
        context = names(part, part.context, split)
        assert queries
        assert not queries & context
        assert all({h, t} & held for h, _, t in queries)
        assert train <= context
        assert bool(context - train) is (context_share > 0)
        assert queries | context <= everything
        known = {row for rows in part.known.values() for row in names(part, rows, split)}
        assert queries | context <= known
    valid, test = (set(split.parts[name].entities.tolist()) - seen for name in ("valid", "test"))
    assert not valid & test
    transductive = split.parts["transductive"]
    assert names(transductive, transductive.queries, split) <= {
        tuple(map(int, row)) for row in whole.test
    }
    assert np.array_equal(transductive.entities, split.train.entities)
    again = split_unseen(
        whole, valid_share=0.1, test_share=0.2, context_share=context_share, seed=3
    )
    assert np.array_equal(again.parts["test"].queries, split.parts["test"].queries)
    # every triple is used or counted
    used = train | {
        row
        for name in ("valid", "test")
        for rows in (split.parts[name].queries, split.parts[name].context)
        for row in names(split.parts[name], rows, split)
    }
    left = [row for row in everything - used if not {row[0], row[2]} <= seen]
    dropped = [
        split.counts["triples that join both held-out groups"],
        split.counts["triples with an entity or relation without training"],
    ]
    assert len(left) <= sum(dropped)


def test_shares_are_checked():
    with pytest.raises(ConfigError, match=r"valid_share 0.*test_share 0.9.*context_share 1"):
        split_unseen(splits(), valid_share=0, test_share=0.9, context_share=1, seed=0)


def test_two_graphs_count_what_does_not_fit():
    rows = [("a", "r0", "b"), ("b", "r0", "c"), ("c", "r1", "a"), ("a", "r1", "z")]
    other = [("x", "r0", "y"), ("y", "r2", "x"), ("x", "r1", "a"), ("y", "r0", "x")]
    graph = graph_from_records([Triple(*row) for row in (*rows, *other)])
    ids = {name: i for i, name in enumerate(graph.entities)}
    relations = {name: i for i, name in enumerate(graph.relations)}

    def triples(part: list[tuple[str, str, str]]) -> np.ndarray:
        triples_of_part = [(ids[h], relations[r], ids[t]) for h, r, t in part]
        return np.array(triples_of_part, np.int32).reshape(-1, 3)

    first = Splits(graph, triples(rows[:2]), triples(rows[2:]), triples([]))
    with pytest.raises(ConfigError, match="no test triple"):
        two_graphs(first, Splits(graph, triples(other[:2]), triples([]), triples([])), graph)
    second = Splits(graph, triples(other[:3]), triples([]), triples(other[3:]))
    first = Splits(graph, triples(rows[:3]), triples(rows[3:]), triples([]))
    split = two_graphs(first, second, graph)
    assert split.counts["train triples of the second graph with an untrained relation"] == 1
    assert split.counts["validation triples with an entity that was not trained"] == 1
    assert split.counts["entities of the second graph that training saw"] == 1
    test = split.parts["test"]
    assert [graph.entities.name(int(i)) for i in test.entities] == ["a", "x", "y"]
    assert names(test, test.queries, split) == {(ids["y"], relations["r0"], ids["x"])}
    assert len(test.context) == 2


def test_degree_scores_are_counts():
    context = np.array([(0, 0, 1), (2, 0, 1), (0, 0, 3), (1, 1, 3), (3, 1, 3)])
    scorer = DegreeScorer(context, n_entities=5, n_relations=2)
    tails = scorer.scores("tail", torch.tensor([[4, 0, 0]]))[0]
    degree = [2, 3, 1, 4, 0]
    for entity in range(5):
        filled = sum(1 for _, r, t in context if r == 0 and t == entity)
        assert float(tails[entity]) == pytest.approx(filled + degree[entity] / 12)
    assert tails.argsort(descending=True).tolist()[:2] == [1, 3]
    assert scorer.scores("relation", torch.tensor([[4, 0, 0]])).tolist() == [[3, 2]]
    heads = scorer.scores("head", torch.tensor([[4, 1, 0]]))[0]
    assert [int(v) for v in heads] == [0, 1, 0, 1, 0]


class Fixed:
    """Scores drawn once; even ones tie."""

    def __init__(self, n: int) -> None:
        self.table = np.random.default_rng(1).integers(0, n // 2, (n, n)).astype(np.float32)

    def scores(self, direction: str, triples: torch.Tensor, /) -> torch.Tensor:
        slot = 2 if direction == "head" else 0
        return torch.from_numpy(self.table)[triples[:, slot]]


def test_sampled_ranks_have_the_expected_hits():
    """Hits@3 over many draws is what the hypergeometric law says of the full filtered rank."""
    rows = np.array([(i, 0, (i * 7 + 1) % N) for i in range(6)])
    known = Filter({"all": rows}, n_entities=N, n_relations=1)
    options = {"filter": known, "directions": ("head", "tail")}
    n_draws, n = 1000, 11
    sampled = rank_among_sampled(
        Fixed(N), rows, ties="pessimistic", n_candidates=n, n_draws=n_draws, seed=0, **options
    )
    full = rank(Fixed(N), rows, ties="pessimistic", candidates="all", **options)
    better = full.ranks - 1
    rivals = N - 1  # nothing else is known of these questions
    expected = hypergeom.cdf(2, rivals, better.astype(int), n - 1)
    assert sampled.hits(3) == pytest.approx(expected, abs=4 * 0.5 / n_draws**0.5)
    assert sampled.conditions()["candidates"] == (
        "the answer and 10 distinct entities that are not answers"
    )
    assert sampled.metrics()["hits@3"] == pytest.approx(expected.mean(), abs=0.03)
    assert sampled.n_short == 0
    repeated = rank_among_sampled(
        Fixed(N), rows, ties="pessimistic", n_candidates=n, n_draws=2, seed=0, **options
    )
    assert np.array_equal(repeated.ranks, sampled.ranks[:, :2])


def test_all_candidates_give_the_full_filtered_ranks():
    rows = np.array([(i, 0, (i * 7 + k) % N) for i in range(9) for k in (1, 2)])
    known = Filter({"all": rows}, n_entities=N, n_relations=1)
    options = {"filter": known, "directions": ("head", "tail"), "ties": "realistic"}
    sampled = rank_among_sampled(
        Fixed(N), rows, n_candidates=N, n_draws=1, seed=0, block=5, **options
    )
    full = rank(Fixed(N), rows, candidates="all", **options)
    assert np.array_equal(sampled.ranks[:, 0], full.ranks)
    assert sampled.n_short > 0
    with pytest.raises(EvaluationError, match="must allow a comparison"):
        rank_among_sampled(Fixed(N), rows, n_candidates=1, n_draws=1, seed=0, **options)


@pytest.mark.data
def test_grail_as_released(data_root: Path):
    from kept.tasks.datasets.inductive import read_grail

    sizes = {"WN18RR_v1": (5410, 188, 0), "WN18RR_v3": (25901, 605, 8), "fb237_v1": (4245, 205, 0)}
    for name, (n_train, n_test, n_shared) in sizes.items():
        split = read_grail(data_root, name)
        assert len(split.train.context) == n_train
        assert len(split.parts["test"].queries) == n_test, split.counts
        assert split.counts["entities of the second graph that training saw"] == n_shared
