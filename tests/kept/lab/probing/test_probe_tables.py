"""Tables of hand-made answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from entity_linking.mentions import LinkedText, Mention
from kept.errors import EvaluationError
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.results import ProbeAnswer, ProbeResult, Ranking
from kept.lab.probing.tables import (
    calibration_error,
    macro_row,
    majority,
    popularity_rows,
    relation_rows,
    subject_degrees,
    total_row,
)
from kg_loaders import KnowledgeGraph


def ranking(rank: int, probability: float = 0.5) -> Ranking:
    return Ranking(rank, 20, 0.0, ("x",), probability, rank == 1)


def answer(id: str, relation: str, gold: str, rank: int | None, group: str = "") -> ProbeAnswer:
    top = None if rank is None else ranking(rank)
    skipped = {} if rank else {"restricted": "too long"}
    return ProbeAnswer(id, relation, group or id, "s", gold, top, None, skipped)


RESULT = ProbeResult(
    "m", "none", "weights", "none", "at_once",
    (
        answer("1", "P1", "a", 1, "g"), answer("2", "P1", "a", 1, "g"), answer("3", "P1", "b", 4),
        answer("4", "P1", "c", None), answer("5", "P2", "d", 20), answer("6", "P3", "e", None),
    ),
)  # fmt: skip


def draws() -> np.random.Generator:
    return np.random.default_rng(0)


def item(
    relation: str, gold: str, head: str | None = None, *, id: str = "i", others: Sequence[str] = ()
) -> ClozeItem:
    fact = (head, relation, "Q") if head else None
    text = LinkedText("[Y]", ())
    return ClozeItem(id, relation, text, Mention(0, 3), "s", gold, tuple(others), fact)


ITEMS = [
    item("P1", "a", id="1"), item("P1", "b", id="2"), item("P1", "b", id="3"),
    item("P1", "c", id="4"), item("P2", "z", id="5"), item("P3", "e", id="6"),
]  # fmt: skip


def test_rows_of_relations_their_mean_and_the_whole() -> None:
    baseline = majority(ITEMS)
    assert baseline.ranked == {"P1": ["b", "a", "c"], "P2": ["z"], "P3": ["e"]}
    assert baseline.source == "items"
    one, two, three = relation_rows(RESULT, "restricted", generator=draws(), baseline=baseline)
    assert (one.name, one.n_asked, one.n_scored) == ("P1", 4, 3)
    assert one.p_at_1 == pytest.approx(2 / 3)
    assert one.p_at_10 == 1
    assert one.reciprocal == pytest.approx((1 + 1 + 1 / 4) / 3)
    assert one.majority == pytest.approx(1 / 3)
    assert one.interval is not None
    assert one.interval.n == 2
    assert (two.p_at_1, two.p_at_10, two.interval) == (0, 0, None)
    assert (three.n_scored, three.p_at_1, three.calibration_error) == (0, None, None)
    whole = total_row(RESULT, "restricted", generator=draws(), baseline=baseline)
    assert (whole.n_asked, whole.n_scored, whole.p_at_1) == (6, 4, 0.5)
    macro = macro_row(RESULT, "restricted", generator=draws(), baseline=baseline)
    assert macro.name == "mean of 2 relations"
    assert macro.p_at_1 == pytest.approx(1 / 3)
    assert macro.interval is not None
    assert macro.interval.estimate == pytest.approx(1 / 3)
    assert macro.interval.low < 1 / 3 < macro.interval.high
    nothing = total_row(RESULT, "objects", generator=draws())
    assert (nothing.n_scored, nothing.majority, nothing.p_at_10) == (0, None, None)


def test_the_mean_of_relations_is_sure_where_all_is_right() -> None:
    names = ["small"] * 10 + ["large"] * 990
    answers = [answer(str(i), name, "a", 1) for i, name in enumerate(names)]
    result = dataclasses.replace(RESULT, answers=tuple(answers))
    interval = macro_row(result, "restricted", generator=draws()).interval
    assert interval is not None
    assert (interval.estimate, interval.low, interval.high) == (1, 1, 1)


def test_majority_from_a_training_list_and_its_ties() -> None:
    baseline = majority([item("P1", "b")], [("P1", "z"), ("P1", "y")])
    assert (baseline.source, baseline.ranked) == ("training", {"P1": ["y", "z"]})


def test_the_majority_is_judged_as_a_model_is() -> None:
    right = {"f": "abcd", "g": "ab"}
    items = [
        item("P1", name, id=f"{head}{name}", others=[one for one in names if one != name])
        for head, names in right.items()
        for name in names
    ]
    answers = [answer(one.id, "P1", one.answer, 1) for one in items]
    assert majority(items).score(answers) == 1
    assert majority(items, [("P1", "c"), ("P1", "d")]).score(answers) == pytest.approx(2 / 6)
    assert majority(items, [("P2", "a")]).score(answers) == 0
    assert majority(items).score([]) is None
    with pytest.raises(EvaluationError, match="'x' of P1 is not an item of the baseline"):
        majority(items).score([answer("x", "P1", "a", 1)])


def test_bins_of_popularity(small_graph: KnowledgeGraph) -> None:
    items = [item("P17", "x", head) for head in ("Q90", "Q2", "Q830149", "Q-none", None)]
    degrees = subject_degrees(items, small_graph)
    paris = [row for row in small_graph.triples.tolist() if small_graph.entities.find("Q90") in row]
    assert degrees == [len(paris), 1, 0, None, None]
    rows = popularity_rows(RESULT, "restricted", [0, 1, 1, 4, 500, None], generator=draws())
    assert [(row.name, row.n_asked) for row in rows] == [
        ("0", 1), ("1", 2), ("2-4", 1), ("100 and more", 1), ("not in the graph", 1),
    ]  # fmt: skip
    with pytest.raises(EvaluationError, match="6 answers have 1 degrees"):
        popularity_rows(RESULT, "restricted", [0], generator=draws())


def test_calibration_error_by_hand() -> None:
    sure = [ranking(1, 0.95), ranking(1, 0.95), ranking(3, 0.91), ranking(2, 0.25)]
    first = abs(2 - (0.95 + 0.95 + 0.91))
    assert calibration_error(sure) == pytest.approx((first + 0.25) / 4)
    assert calibration_error([ranking(1, 1.0)]) == 0
    assert calibration_error([]) is None
