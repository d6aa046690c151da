"""Numbers in files: what `int()` takes beyond them is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders.digits import hexadecimal_number, whole_number

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


@given(st.integers(min_value=0))
def test_what_python_writes_is_read_back(number: int) -> None:
    assert whole_number(str(number)) == whole_number(str(number).encode()) == number
    assert hexadecimal_number(f"{number:x}") == hexadecimal_number(f"{number:X}") == number


def test_a_number_of_many_digits_is_refused_and_not_computed() -> None:
    with pytest.raises(ValueError, match="is no whole number"):
        whole_number("1" * 5000)
