"""Kinds that a text gives its names: where they stand, and where the rules end."""

from __future__ import annotations

import pytest

from entity_linking.detection.kinds import is_several, kinds_said, said_until


def kinds(text: str, name: str, *, is_person: bool | None = None) -> list[str]:
    start = text.index(name)
    return list(kinds_said(text, start, start + len(name), is_person=is_person))


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("Elsby is a market town in Arden", "Elsby", ["town"]),
        ("Elsby was the old capital of Arden", "Elsby", ["capital"]),
        ("Elsby is one of the towns.", "Elsby", ["towns"]),
        ("Elsby, a market town, sleeps", "Elsby", ["town"]),
        ("Elsby (old) is a Town.", "Elsby", ["town"]),
        ("Elsby is a town", "Elsby", ["town"]),
        ("Elsby is a small old quiet grey northern town in", "Elsby", ["town"]),
        ("Elsby is a very small old quiet grey northern town in", "Elsby", []),
        ("Elsby is a town unlike so many others seen elsewhere today", "Elsby", []),
        ("Elsby sleeps", "Elsby", []),
        ("the market town Elsby", "Elsby", ["town"]),
        ('the band "Ulm" plays', "Ulm", ["band"]),
        ("The Town Elsby", "Elsby", []),
        ("a two-day Elsby", "Elsby", ["two-day"]),
        ("Elsby Town sleeps", "Elsby Town", ["town", "elsby"]),
        ("the band Elsby Town is a group.", "Elsby Town", ["band", "town", "elsby", "group"]),
    ],
)
def test_kinds_by_their_place(text: str, name: str, expected: list[str]) -> None:
    assert kinds(text, name) == expected


def test_the_name_of_a_person_holds_no_kind() -> None:
    assert kinds("Ada King sleeps", "Ada King", is_person=True) == []
    assert kinds("Ada King sleeps", "Ada King", is_person=False) == ["king", "ada"]
    assert kinds("Ada King is a writer.", "Ada King", is_person=True) == ["writer"]


def test_what_stands_too_far_before_is_not_read() -> None:
    assert kinds(f"{' ' * 50}town Elsby", "Elsby") == ["town"]
    assert kinds(f"town{' ' * 50}Elsby", "Elsby") == []


def test_where_what_is_said_ends() -> None:
    text = "Elsby is a market town in Arden"
    assert text[: said_until(text, 5)] == "Elsby is a market town"
    assert said_until("Elsby sleeps", 5) == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ulm are a band.", True), ("Ulm were the first.", True), ("Ulm is a trio.", True),
        ("Ulm is a town.", False), ("the sisters Ulm left", True), ("Ulm sleeps", False),
        ("Ulm are large", False),
    ],
)  # fmt: skip
def test_whether_they_may_be_said(text: str, expected: bool) -> None:
    start = text.index("Ulm")
    assert is_several(text, start, start + 3, is_person=None) is expected
    assert is_several(text, start, start + 3, is_person=True) is False
