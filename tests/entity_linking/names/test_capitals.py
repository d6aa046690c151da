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


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("by Ada Moor and Co Inc", "Ada Moor", False),
        ("by Ada and Bo", "Ada", True),
        ("the Moor Association of Arden", "Moor Association", False),
        ("the Center for Pike Studies", "Center", False),
        ("the Duke of Arden", "Duke", True),
        ("the Duke of Arden", "Arden", True),
        ("the University of Arden", "Arden", False),
        ("Treasury Secretary Ada Moor", "Ada Moor", True),
        ("the Ulm-based Moor Trust", "Moor Trust", True),
        ("Mang-lin Moor", "Moor", False),
        ("the U.S. Treasury", "Treasury", False),
        ("in the U.S. The Moor", "U.S", True),
        ("the King. They left", "King", True),
    ],
)
def test_small_words_offices_and_points_join_or_part(text: str, name: str, expected: bool) -> None:
    start = text.index(name)
    assert Capitals(text, COMMON).is_whole(start, start + len(name)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the National Association of Moor Administrators", [
            "National Association of Moor Administrators"
        ]),
        ("the Center for Moors", ["Center for Moors"]),
        ("the Pike of Arden", ["Pike", "Arden"]),
        ("by Sgt. Ada Moor", ["Ada Moor"]),
        ("Councilman Ada Moor", ["Ada Moor"]),
        ("the Ulm-based Moor Trust", ["Moor Trust"]),
        ("the U.S. Senate met", ["U.S. Senate"]),
        ("in the U.S. The Moor Inn", ["U.S", "Moor Inn"]),
        ("near the King. They left", []),
    ],
)  # fmt: skip
def test_runs_go_over_small_words_of_bodies_and_points(text: str, expected: list[str]) -> None:
    assert runs(text) == expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("at end-March rates", "end", False),
        ("at end-March rates", "March", False),
        ("the non-Moor rates", "Moor", True),
    ],
)
def test_a_part_of_a_hyphenated_word_is_a_name_by_its_own_capital(
    text: str, name: str, expected: bool
) -> None:
    start = text.index(name)
    assert Capitals(text, COMMON).is_name(start, start + len(name)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Banks in Paris met. They left for Ulm.", True),
        ("Prices rose.", True),
        ("banks in paris met. they left.", False),
        ("paris is in France", False),
        ("BANKS IN PARIS MET", False),
        ("Banks In Paris Met On Monday", False),
        ("Paris: banks met", True),
        ("", False),
    ],
)
def test_a_text_shows_whether_its_capitals_say_something(text: str, expected: bool) -> None:
    assert Capitals(text, COMMON).is_cased is expected
