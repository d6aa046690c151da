"""Values in messages: on one line, however long they are."""

from __future__ import annotations

import sys

import pytest

from kept.values import LONGEST, shown_value


def test_short_values_are_as_python_writes_them() -> None:
    for value in ("Paris", 3, -2.5, None, ["a"], 10**100):
        assert shown_value(value) == repr(value)
    exact = "x" * (LONGEST - 2)
    assert shown_value(exact) == repr(exact)
    assert shown_value(exact + "x") == repr(exact + "x")[:LONGEST] + "…"


@pytest.mark.parametrize("digits", [130, 1000, 5001])
def test_a_long_number_is_told_by_its_digits(digits: int) -> None:
    text = f"a number of about {digits:,} digits"
    assert shown_value(10 ** (digits - 1)) == text
    assert shown_value(-(10 ** (digits - 1))) == text


def test_what_cannot_be_written_is_named_by_its_class() -> None:
    nested: list[object] = []
    for _ in range(sys.getrecursionlimit() + 10):
        nested = [nested]
    assert shown_value(nested) == "a list that is too long to show"
    assert shown_value((10**5000,)) == "a tuple that is too long to show"
