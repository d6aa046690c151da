"""What is written as a name."""

from __future__ import annotations

import pytest

from entity_linking.names.rules.capitals import Capitals

COMMON = frozenset({"banks", "old"})


def runs(text: str) -> list[str]:
    return [text[start:end] for start, end in Capitals(text, COMMON).runs()]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("He saw Paris", "Paris", True),
        ("He saw banks", "banks", False),
        ("Banks fell", "Banks", False),
        ("He met Banks", "Banks", True),
        ("He left. Banks fell", "Banks", False),
        ("He left \u201cBanks\u201d", "Banks", False),
        ("J. Banks left", "Banks", True),
        ("BANKS fell", "BANKS", True),
        ("In May 1999", "May", False),
        ("In May 1999", "May 1999", False),
        ("the Beatles", "the Beatles", False),
        ("his iPhone", "iPhone", True),
        ("in 1999", "1999", False),
        ("Sri Lanka\u2019s", "Sri Lanka", True),
    ],
)
def test_names_have_capitals(text: str, name: str, expected: bool) -> None:
    start = text.index(name)
    assert Capitals(text, COMMON).is_name(start, start + len(name)) is expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("by Ada Moor today", "Ada Moor", True),
        ("by Ada Moor today", "Moor", False),
        ("by Ada Moor today", "Ada", False),
        ("by President Moor", "Moor", True),
        ("Old Moor left", "Moor", True),
        ("in New Moor", "Moor", False),
        ("In Moor", "Moor", True),
        ("so I Moor", "Moor", True),
        ("in Arden, Moor", "Moor", True),
        ("Moor, Arden", "Moor", True),
        ("Ada's Moor", "Moor", True),
        ("Ada Corp MOOR", "Ada Corp", True),
        ("Ada Co Inc", "Ada Co", False),
    ],
)
def test_a_part_of_a_run_is_not_whole(text: str, name: str, expected: bool) -> None:
    start = text.index(name)
    assert Capitals(text, COMMON).is_whole(start, start + len(name)) is expected


def test_runs_begin_after_titles_and_ordinary_words() -> None:
    assert runs("Old Ada Moor met President J. North. The Pike Trust, on Monday") == [
        "Ada Moor", "J. North", "Pike Trust",
    ]  # fmt: skip
    assert runs("Banks fell") == []
    assert runs("") == []
    assert runs("no names here.") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cor van der Klugt left", ["Cor van der Klugt"]),
        ("Ada von left", ["Ada"]),
        ("Ada and Bo left", ["Ada", "Bo"]),
        ("Ada Moor and Co Inc fell", ["Ada Moor and Co Inc"]),
        ("Ada Moor and Sons fell", ["Ada Moor and Sons"]),
        ("Cetus Corp CTUS fell", ["Cetus Corp", "CTUS"]),
        ("Old Buy Co fell", ["Old Buy Co"]),
        ("The Buy Co fell", ["Buy Co"]),
        ("a photo -LRB- by AP -RRB- Felix Moor", ["AP", "Felix Moor"]),
    ],
)
def test_what_joins_and_ends_a_run(text: str, expected: list[str]) -> None:
    assert runs(text) == expected
