"""What each part of two descriptions adds to a score that counts words."""

from __future__ import annotations

import pytest

from kept.kgc.completers.base import Reason
from kept.kgc.completers.parts import parts_behind, parts_of
from kept.kge.simkgc.texts import Texts

WEIGHTS = {"river": 4.0, "Europe": 2.0, "long": -1.0}


def score(texts: Texts) -> float:
    words = " ".join(texts.descriptions).replace(",", " ").replace(".", " ").split()
    return sum(WEIGHTS.get(word, 0.0) for word in words)


@pytest.mark.parametrize(
    ("description", "parts"),
    [
        ("a river, in Europe; and more. End", ["a river,", "in Europe;", "and more.", "End"]),
        ("a long river", ["a", "long", "river"]),
        ("", []),
        (" ".join("abcdefghijkl"), list("abcdefghijkl")),
        (" ".join("abcdefghijklm"), ["a b c d e f g h i j k l m"]),
    ],
)
def test_parts(description: str, parts: list[str]) -> None:
    assert parts_of(description) == parts


def test_each_part_changes_the_score_by_what_it_is_worth() -> None:
    texts = Texts(["Rhine", "Nile", "Bonn"], ["a long river", "none", "city, in Europe"], ["near"])
    assert parts_behind(texts, 0, 2, score) == [
        Reason("text", "Rhine (question): river", 4.0),
        Reason("text", "Bonn (answer): in Europe", 2.0),
        Reason("text", "Rhine (question): a", 0.0),
        Reason("text", "Bonn (answer): city,", 0.0),
        Reason("text", "Rhine (question): long", -1.0),
    ]


def test_what_is_left_reads_as_before_without_the_part() -> None:
    seen: list[tuple[str, ...]] = []

    def note(texts: Texts) -> float:
        seen.append(tuple(texts.descriptions))
        return 0.0

    parts_behind(Texts(["x", "y"], ["one, two, three", ""], ["r"]), 0, 1, note)
    assert seen == [
        ("one, two, three", ""), ("two, three", ""), ("one, three", ""), ("one, two,", ""),
    ]  # fmt: skip
