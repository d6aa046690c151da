"""Groups of questions and the degree baseline, against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kept.errors import EvaluationError
from kept.evaluation.ranking import SLOTS, Filter, RankingResult, rank
from kept.evaluation.ranking_groups import (
    CATEGORIES,
    NO_TRIPLE,
    category_of_questions,
    degree_baseline,
    degree_names,
    degree_of_questions,
    group_metrics,
    relation_categories,
)

N_ENTITIES, N_RELATIONS = 12, 6
SHAPED = np.array(
    [(0, 0, 1), (2, 0, 3)]  # one each way
    + [(0, 1, t) for t in (1, 2, 3)]
    + [(h, 2, 0) for h in (1, 2, 3)]
    + [(h, 3, t) for h in (1, 2) for t in (3, 4)]
    + [(0, 4, 1), (0, 4, 2), (3, 4, 4)] * 5  # three triples, two heads: 1.5 tails a head is "N"
)


def random_triples(seed: int, n: int = 60) -> np.ndarray:
    draws = np.random.default_rng(seed)
    return draws.integers((N_ENTITIES, N_RELATIONS, N_ENTITIES), size=(n, 3))


def slow_categories(triples: np.ndarray) -> list[str]:
    distinct = set(map(tuple, triples.tolist()))
    named = []
    for relation in range(N_RELATIONS):
        pairs = [(h, t) for h, r, t in distinct if r == relation]
        if not pairs:
            named.append(NO_TRIPLE)
            continue
        heads = len(pairs) / len({t for _, t in pairs})
        tails = len(pairs) / len({h for h, _ in pairs})
        named.append(("1" if heads < 1.5 else "N") + "-" + ("1" if tails < 1.5 else "N"))
    return named


def ranked(triples: np.ndarray, directions: tuple[str, ...] = ("head", "tail")) -> RankingResult:
    table = torch.rand(N_ENTITIES, generator=torch.Generator().manual_seed(0))
    return rank(
        lambda direction, rows: table[: N_RELATIONS if direction == "relation" else None].expand(
            len(rows), -1
        ),
        triples, filter=Filter({}, n_entities=N_ENTITIES, n_relations=N_RELATIONS),
        ties="realistic", directions=directions, candidates="all",
    )  # fmt: skip


def test_categories_of_plain_shapes():
    categories = relation_categories(SHAPED, n_relations=N_RELATIONS)
    assert categories == ["1-1", "1-N", "N-1", "N-N", "1-N", NO_TRIPLE]
    assert relation_categories(SHAPED, n_relations=N_RELATIONS, many=4)[:4] == ["1-1"] * 4


@pytest.mark.parametrize("seed", range(5))
def test_categories_equal_a_loop(seed: int):
    triples = random_triples(seed, 30 * (seed + 1))
    assert relation_categories(triples, n_relations=N_RELATIONS) == slow_categories(triples)


def test_degree_bins_equal_a_loop():
    training, tested = random_triples(0), random_triples(1, 20)
    result = ranked(tested)
    degrees = degree_of_questions(result, training, n_entities=N_ENTITIES, edges=(1, 11, 12))
    for position, (triple, slot) in enumerate(zip(result.triples, result.slots, strict=True)):
        answer = triple[slot]
        degree = sum(int(h == answer) + int(t == answer) for h, _, t in training)
        expected = "0" if degree < 1 else "1-10" if degree < 11 else "11" if degree < 12 else "12+"
        assert degrees[position] == expected
    assert {"1-10", "11", "12+"} == {*degrees} < {*degree_names((1, 11, 12))}
    with pytest.raises(EvaluationError, match="a relation has no degree"):
        degree_of_questions(ranked(tested, ("relation",)), training, n_entities=N_ENTITIES)


def test_group_metrics_equal_a_loop_and_lose_no_question():
    result = ranked(random_triples(2, 25))
    categories = relation_categories(random_triples(0), n_relations=N_RELATIONS)
    categories[0] = "1-1"
    groups = category_of_questions(result, categories)
    metrics = group_metrics(result, groups, (*CATEGORIES, NO_TRIPLE))
    for side, wanted in (("all", (0, 2)), ("head", (0,)), ("tail", (2,))):
        for group in dict.fromkeys(groups):
            ranks = [
                float(rank_)
                for rank_, slot, triple in zip(
                    result.ranks, result.slots, result.triples, strict=True
                )
                if slot in wanted and categories[triple[1]] == group
            ]
            assert metrics[side][group]["n"] == len(ranks)
            assert metrics[side][group]["mrr"] == pytest.approx(
                sum(1 / r for r in ranks) / len(ranks)
            )
    assert sum(part["n"] for part in metrics["all"].values()) == result.n_scored
    assert set(metrics["all"]) == set(groups)
    with pytest.raises(EvaluationError, match=r"unknown groups: \['N-N'\]"):
        group_metrics(result, ["N-N"] * result.n_scored, ("1-1",))


def test_the_degree_baseline_equals_a_loop():
    training, tested = random_triples(3), random_triples(4, 15)
    scores = degree_baseline(training, n_entities=N_ENTITIES, n_relations=N_RELATIONS)
    rows = torch.from_numpy(tested)
    for direction in ("head", "tail"):
        baseline = scores(direction, rows)
        assert baseline.shape == (15, N_ENTITIES)
        for position, (_, relation, _) in enumerate(tested):
            for entity in range(N_ENTITIES):
                seen = training[training[:, 1] == relation][:, SLOTS[direction]]
                assert baseline[position, entity] == sum(int(e == entity) for e in seen)
    frequencies = [sum(int(r == k) for _, r, _ in training) for k in range(N_RELATIONS)]
    assert scores("relation", rows)[7].tolist() == frequencies
