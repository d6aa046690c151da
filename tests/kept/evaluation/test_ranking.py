"""Ranking against a loop that a child could check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kept.errors import EvaluationError
from kept.evaluation.ranking import SLOTS, Filter, rank, rank_scores
from kept.evaluation.ranks import counting
from kept.evaluation.ranks.counting import Comparable, KnownColumns, count

N_ENTITIES, N_RELATIONS = 9, 4
DIRECTIONS = ("head", "relation", "tail")


def random_triples(generator: np.random.Generator, n: int) -> np.ndarray:
    sizes = [N_ENTITIES, N_RELATIONS, N_ENTITIES]
    return np.unique(generator.integers(0, sizes, (n, 3)), axis=0)


class Table:
    """Scores from a cube `[entity relation entity]`; few distinct values, so many ties."""

    def __init__(self, cube: np.ndarray) -> None:
        self.cube = cube

    def scores(self, direction: str, triples: torch.Tensor) -> torch.Tensor:
        head, relation, tail = triples.numpy().T
        rows = {
            "head": self.cube[:, relation, tail].T,
            "relation": self.cube[head, :, tail],
            "tail": self.cube[head, relation],
        }[direction]
        return torch.from_numpy(rows.copy())


def loop_rank(
    cube: np.ndarray, triple: Any, direction: str, known: set[Any], allowed: set[int]
) -> tuple[int, int]:
    """(better, equal) competitors, one candidate at a time."""
    slot, better, equal = SLOTS[direction], 0, 0
    for candidate in range(N_RELATIONS if direction == "relation" else N_ENTITIES):
        other = list(triple)
        other[slot] = candidate
        if candidate == triple[slot] or tuple(other) in known:
            continue
        if direction != "relation" and candidate not in allowed:
            continue
        better += cube[tuple(other)] > cube[tuple(triple)]
        equal += cube[tuple(other)] == cube[tuple(triple)]
    return better, equal


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), subset=st.booleans(), budget=st.sampled_from([1, 100, 10**6]))
def test_rank_equals_a_loop(seed: int, subset: bool, budget: int):
    generator = np.random.default_rng(seed)
    cube = generator.integers(0, 4, (N_ENTITIES, N_RELATIONS, N_ENTITIES)).astype(np.float32)
    known, tested = random_triples(generator, 60), random_triples(generator, 12)
    allowed = np.sort(generator.permutation(N_ENTITIES)[:6]) if subset else np.arange(N_ENTITIES)
    result = rank(
        Table(cube), tested,
        filter=Filter({"known": known}, n_entities=N_ENTITIES, n_relations=N_RELATIONS),
        ties="realistic", directions=DIRECTIONS, candidates=allowed if subset else "all",
        byte_budget=budget,
    )  # fmt: skip
    known_set, allowed_set = set(map(tuple, known.tolist())), set(allowed.tolist())
    expected = [
        loop_rank(cube, triple, direction, known_set, allowed_set)
        for direction in DIRECTIONS
        for triple in tested.tolist()
        if direction == "relation" or triple[SLOTS[direction]] in allowed_set
    ]
    better, equal = np.array(expected).reshape(-1, 2).T
    np.testing.assert_array_equal(replace(result, ties="optimistic").ranks, 1 + better)
    np.testing.assert_array_equal(result.ranks, 1 + better + equal / 2)
    np.testing.assert_array_equal(replace(result, ties="pessimistic").ranks, 1 + better + equal)
    assert result.n_asked == 3 * len(tested)
    assert result.n_scored + sum(result.n_skipped.values()) == result.n_asked


def test_what_cannot_be_asked_is_counted_with_its_reason():
    cube = np.zeros((N_ENTITIES, N_RELATIONS, N_ENTITIES), np.float32)
    tested = np.array([[0, 0, 1], [0, 0, -1], [0, 0, N_ENTITIES], [5, 0, 1]])
    raw = Filter({}, n_entities=N_ENTITIES, n_relations=N_RELATIONS)
    result = rank(Table(cube), tested, filter=raw, ties="realistic", directions=("head",),
                  candidates=np.array([0, 1, 2]))  # fmt: skip
    assert result.n_skipped == {
        "an id outside the graph": 2,
        "the answer is not among the candidates": 1,
    }
    assert (result.n_asked, result.n_scored, result.ranks.tolist()) == (4, 1, [2.0])
    assert "filter none (raw ranks)" in str(result)
    assert "2 skipped (an id outside the graph)" in str(result)
    assert result.conditions()["candidates"] == "3 given entities"


def test_one_direction_of_a_result():
    generator = np.random.default_rng(3)
    cube = generator.random((N_ENTITIES, N_RELATIONS, N_ENTITIES))
    tested = random_triples(generator, 10)
    known = Filter({}, n_entities=N_ENTITIES, n_relations=N_RELATIONS)
    common = {"filter": known, "ties": "realistic", "candidates": "all"}
    both = rank(Table(cube), tested, directions=("head", "tail"), **common)
    tails = rank(Table(cube), tested, directions=("tail",), **common)
    np.testing.assert_array_equal(both.of("tail").ranks, tails.ranks)
    assert both.of("tail").n_asked == len(tested)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000), dtype=st.sampled_from([torch.float32, torch.float64]),
    shape=st.tuples(st.integers(0, 5), st.integers(1, 9)), is_squared=st.booleans(),
)  # fmt: skip
def test_long_rows_are_counted_as_short_ones(
    seed: int, dtype: torch.dtype, shape: Any, is_squared: bool
):
    generator = np.random.default_rng(seed)
    values = generator.choice([-np.inf, -1.0, 0.0, -0.0, 2.0, np.inf], shape)
    numbers = torch.tensor(values, dtype=dtype, requires_grad=True)
    gold = torch.tensor(generator.integers(0, shape[1], shape[0]))
    is_known = generator.random(shape) < 0.3
    ends = np.cumsum(is_known.sum(1))
    known = KnownColumns(ends - is_known.sum(1), ends, np.nonzero(is_known)[1])
    compared = Comparable(numbers, _same_size if is_squared else None)
    expected = count(compared, gold, known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_LONG_ROW", 0)
        counts_ = count(compared, gold, known)
        if numbers.numel():
            with pytest.raises(EvaluationError, match="NaN"):
                count(replace(compared, values=numbers + torch.nan), gold, known)
    scores = np.minimum(values, 0) if is_squared else values  # as `_same_size` has it
    golds = scores[np.arange(shape[0]), gold][:, None]
    competes = ~is_known
    competes[np.arange(shape[0]), gold] = False
    for counts in (expected, counts_):
        assert counts.n_greater.tolist() == ((scores > golds) & competes).sum(1).tolist()
        assert counts.n_equal.tolist() == ((scores == golds) & competes).sum(1).tolist()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(0, 12), is_squared=st.booleans())
def test_answers_in_one_row_are_counted_as_in_rows_of_their_own(
    seed: int, n: int, is_squared: bool
):
    generator = np.random.default_rng(seed)
    values = generator.choice([-np.inf, -1.0, 0.0, -0.0, 2.0, np.inf], (3, 7))
    rows = np.sort(generator.integers(0, 3, n))
    gold = torch.from_numpy(generator.integers(0, 7, n))
    is_known = generator.random((3, 7)) < 0.4
    ends = np.cumsum(is_known.sum(1))
    known = KnownColumns(ends - is_known.sum(1), ends, np.nonzero(is_known)[1])
    compared = Comparable(torch.from_numpy(values), _same_size if is_squared else None)
    expected = count(replace(compared, values=compared.values[rows]), gold, known.of(rows))
    for long_row, sorted_from in ((10, 1), (0, 1), (0, 3), (0, 99)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counting, "_LONG_ROW", long_row)
            patch.setattr(counting, "_SORTED_FROM", sorted_from)
            counts_ = count(compared, gold, known, rows)
        assert counts_.n_greater.tolist() == expected.n_greater.tolist()
        assert counts_.n_equal.tolist() == expected.n_equal.tolist()


class ComparedTable(Table):
    """The same with a comparer, which counts the queries it is given."""

    n_queries = 0

    def comparer(self, direction: str) -> Any:
        def compare(triples: torch.Tensor) -> Comparable:
            self.n_queries += len(triples)
            return Comparable(self.scores(direction, triples))

        return compare


@pytest.mark.parametrize("budget", [1, 200, 10**6])
@pytest.mark.parametrize("subset", [False, True])
def test_a_query_is_scored_once_for_all_its_answers(budget: int, subset: bool):
    generator = np.random.default_rng(budget)
    sizes = {"n_entities": N_ENTITIES, "n_relations": N_RELATIONS}
    triples = random_triples(generator, 60)
    triples = np.concatenate([triples, triples[:3]])[generator.permutation(len(triples) + 3)]
    cube = generator.integers(0, 4, (N_ENTITIES, N_RELATIONS, N_ENTITIES)).astype(float)
    compared = ComparedTable(cube)
    candidates = np.arange(0, N_ENTITIES, 2) if subset else "all"
    by_query, by_answer = (
        rank(scorer, triples, filter=Filter({"some": triples[:30]}, **sizes), ties="realistic",
             directions=DIRECTIONS, candidates=candidates, byte_budget=budget)
        for scorer in (compared, Table(cube))
    )  # fmt: skip
    assert by_query.triples.tolist() == by_answer.triples.tolist()
    assert by_query.ranks.tolist() == by_answer.ranks.tolist()
    assert 0 < compared.n_queries < by_query.n_scored
    slots = by_query.slots.tolist()
    rows = [(*np.delete(t, s).tolist(), s) for t, s in zip(by_query.triples, slots, strict=True)]
    assert compared.n_queries == len(set(rows))


def _same_size(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds of what ties where the score of a number above 0 is 0."""
    is_zero = values >= 0
    return values.masked_fill(is_zero, 0.0), values.masked_fill(is_zero, torch.inf)


def test_answers_whose_pairs_have_no_number_are_filtered_all_the_same():
    """With so many entities a query and its answer are numbered beyond 64 bits."""
    n = 2**31 - 1
    triples = np.array([[n - 1, n - 1, n - 1], [n - 1, n - 1, 0], [n - 1, n - 1, n - 1], [0, 0, 7]])
    known = Filter({"a": triples}, n_entities=n, n_relations=n)
    rows, answers = known.known("tail", triples[[3, 0]])
    assert (rows.tolist(), answers.tolist()) == ([0, 1, 1], [7, 0, n - 1])


def test_metrics_of_known_ranks():
    counts = rank_scores(torch.tensor([[3.0, 2.0, 1.0], [0.0, 5.0, 5.0]]), torch.tensor([1, 2]),
                         None)  # fmt: skip
    assert counts.ranks("optimistic").tolist() == [2, 1]
    assert counts.ranks("realistic").tolist() == [2, 1.5]


def test_masked_candidates_do_not_compete_and_the_gold_always_does():
    scores = torch.tensor([[3.0, 2.0, 4.0, 2.0]])
    mask = torch.tensor([[False, False, True, True]])
    counts = rank_scores(scores, torch.tensor([1]), mask)
    assert (counts.n_greater.tolist(), counts.n_equal.tolist()) == ([1], [1])


@pytest.mark.parametrize("dtype", [torch.int64, torch.bfloat16, torch.float16, torch.float64])
def test_counts_are_exact_in_every_type(dtype: torch.dtype):
    scores = (torch.arange(6000) % 3).to(dtype)[
        None
    ]  # 2,000 of each value: beyond a half's integers
    counts = rank_scores(scores, torch.tensor([1]), None)
    assert (counts.n_greater.tolist(), counts.n_equal.tolist()) == ([2000], [1999])


def test_counts_are_exact_beyond_what_float32_can_count():
    n = 2**24 + 3
    counts = rank_scores(torch.zeros(1, n), torch.tensor([0]), None)
    assert (int(counts.n_greater[0]), int(counts.n_equal[0])) == (0, n - 1)


def test_an_answer_known_twice_is_filtered_once():
    """From two splits or twice in one; here the known answer beats the gold, another ties."""
    test = np.array([[0, 0, 1]])
    train = np.array([[0, 0, 2], [0, 0, 2], [0, 0, 3]])
    known = Filter({"train": train, "valid": train[1:], "test": test}, n_entities=4, n_relations=1)
    assert repr(known) == "Filter(train+valid+test, 3 triples)"

    def scores(direction: str, triples: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[0.9, 0.5, 0.7, 0.5]])

    for ties, expected in (("optimistic", 2.0), ("pessimistic", 2.0)):
        result = rank(scores, test, filter=known, ties=ties, directions=("tail",), candidates="all")
        assert result.ranks.tolist() == [expected]


def test_nan_scores_are_an_error_and_not_a_first_rank():
    with pytest.raises(EvaluationError, match="NaN"):
        rank_scores(torch.tensor([[float("nan"), 1.0]]), torch.tensor([1]), None)


def test_wrong_shapes_rules_and_empty_results_are_errors():
    known = Filter({}, n_entities=3, n_relations=1)
    common = {"filter": known, "directions": ("tail",), "candidates": "all"}
    with pytest.raises(EvaluationError, match="shape"):
        rank(lambda direction, triples: torch.zeros(len(triples), 2), np.array([[0, 0, 1]]),
             ties="realistic", **common)  # fmt: skip
    empty = rank(lambda direction, triples: torch.zeros(0, 3), np.zeros((0, 3)), ties="realistic",
                 **common)  # fmt: skip
    with pytest.raises(EvaluationError, match="no question was scored"):
        _ = empty.mrr
    with pytest.raises(EvaluationError, match="tie rule"):
        _ = replace(empty, ties="average").ranks
    with pytest.raises(EvaluationError, match="known triples"):
        Filter({"a": np.array([[0, 1, 0]])}, n_entities=3, n_relations=1)


@pytest.mark.parametrize("bad", [-1, N_ENTITIES])
def test_a_candidate_that_is_no_entity_is_an_error(bad: int):
    """-1 means "not in the graph" to whoever looks names up, and the last entity to numpy."""
    scorer = Table(np.zeros((N_ENTITIES, N_RELATIONS, N_ENTITIES)))
    known = Filter({}, n_entities=N_ENTITIES, n_relations=N_RELATIONS)
    with pytest.raises(EvaluationError, match=f"candidate {bad} is not an entity: ids are 0 to 8"):
        rank(scorer, np.zeros((1, 3), int), filter=known, ties="realistic", directions=["tail"],
             candidates=np.array([0, bad, -7]))  # fmt: skip


def test_no_question_has_no_counts():
    counts = rank_scores(torch.zeros(0, 0), torch.zeros(0, dtype=torch.int64), None)
    assert (counts.n_greater.tolist(), counts.n_equal.tolist()) == ([], [])
