"""Numbers in files: what `int()` takes beyond them is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kept.tasks.datasets.class_labels import not_a_number
from kg_loaders.reading.digits import decimal_number, hexadecimal_number, whole_number

LENIENT = ["0_1", "+1", " 1", "1 ", "1\n", "\u0661", "\uff11", "", "0x1"]


@pytest.mark.parametrize("text", [*LENIENT, "-1", "1.0", "\u00b2", "1e3"])
def test_no_whole_number(text: str) -> None:
    for value in (text, text.encode()):
        with pytest.raises(ValueError, match="is no whole number"):
            whole_number(value)


@pytest.mark.parametrize("text", [*LENIENT, "g", "-a"])
def test_no_hexadecimal_number(text: str) -> None:
    with pytest.raises(ValueError, match="is no hexadecimal number"):
        hexadecimal_number(text)


@pytest.mark.parametrize("text", ["0_1", "\u0661", "", "one", "1_0.5", "nan", "inf", "0x1", "1 2"])
def test_no_decimal_number(text: str) -> None:
    with pytest.raises(ValueError, match="is no decimal number"):
        decimal_number(text)
    assert not_a_number(text) == f"the score {text!r} is not a finite number"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_of_a_fraction_is_read_back(number: float) -> None:
    assert decimal_number(repr(number)) == decimal_number(f"{number:+.17e}") == number
    assert not_a_number(repr(number)) is None
    assert not_a_number("1e999") is not None  # a number, and not finite


@given(st.integers(min_value=0))
def test_what_python_writes_is_read_back(number: int) -> None:
    assert whole_number(str(number)) == whole_number(str(number).encode()) == number
    assert hexadecimal_number(f"{number:x}") == hexadecimal_number(f"{number:X}") == number


def test_a_number_of_many_digits_is_refused_and_not_computed() -> None:
    with pytest.raises(ValueError, match="is no whole number"):
        whole_number("1" * 5000)
