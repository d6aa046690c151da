"""Counts of linked surfaces, and which mentions are short for others, case by case."""

from __future__ import annotations

import pytest

from entity_linking import LinkedText, gold_link
from entity_linking.errors import LinkingError
from entity_linking.names.counts import SurfaceCount, checked, count_links
from entity_linking.names.rules.document import longer_mentions


def test_links_are_counted_in_order_whatever_the_texts_order() -> None:
    texts = [
        LinkedText("Rome, New\n York", (gold_link(0, 4, "Q220"), gold_link(6, 15, "Q60"))),
        LinkedText("Bonn Rome x", (gold_link(0, 4, "Q2"), gold_link(5, 9, "Q220"),
                                   gold_link(10, 11, None))),
    ]  # fmt: skip
    assert count_links(texts) == [
        SurfaceCount("Bonn", "Q2", 1), SurfaceCount("New York", "Q60", 1),
        SurfaceCount("Rome", "Q220", 2),
    ]  # fmt: skip


def test_counts_are_added_up_and_sorted() -> None:
    rows = [("b", "Q1", 1), ("a", "Q2", 3), ("b", "Q1", 2), ("a", "Q1", 1)]
    assert checked(rows) == [
        SurfaceCount("a", "Q1", 1), SurfaceCount("a", "Q2", 3), SurfaceCount("b", "Q1", 3),
    ]  # fmt: skip


@pytest.mark.parametrize("row", [("a", "Q1", 0), ("", "Q1", 1), (" \t", "Q1", 1)])
def test_counts_that_are_none(row: tuple[str, str, int]) -> None:
    with pytest.raises(LinkingError, match=r"count 1, .* a count of 1 or more"):
        checked([("x", "Q1", 1), row])


@pytest.mark.parametrize(
    ("surfaces", "antecedents"),
    [
        (["David Beckham", "Beckham"], [None, (0, 0.8)]),
        (["David Beckham", "David"], [None, (0, 0.4)]),
        (["David Beckham", "Beckham David"], [None, None]),
        (["David Beckham", "Beckham Street"], [None, None]),
        (["World Health Organization", "WHO"], [None, (0, 0.8)]),
        (["Ann Lee", "Lee", "Bob Lee", "Lee"], [None, (0, 0.8), None, (2, 0.8)]),
        (["World Bank", "WB"], [None, (0, 0.8)]),
        (["Lee", "Ann Lee"], [(1, 0.8), None]),
        (["Manchester United", "Manchester", "United"], [None, (0, 0.4), (0, 0.8)]),
    ],
)
def test_what_is_short_for_what(
    surfaces: list[str], antecedents: list[tuple[int, float] | None]
) -> None:
    places = longer_mentions(surfaces, [20 * i for i in range(len(surfaces))])
    assert [each and (each.position, each.share) for each in places] == antecedents
    for each in filter(None, places):
        assert each.reason == f"short for {surfaces[each.position]!r} at {20 * each.position}"
