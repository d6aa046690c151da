"""Dots on a common axis: every number is placed where it belongs, and nothing else is said."""

import re

from hypothesis import given
from hypothesis import strategies as st

from kept.lab.report.dots import Axis, Dot, dots
from tests.kept.report_numbers import number

NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(values=st.lists(NUMBERS, min_size=1, max_size=9), line=st.none() | NUMBERS)
def test_every_value_lies_on_the_axis(values: list[float], line: float | None) -> None:
    axis = Axis.over(values, line)
    for value in [*values, *axis.ticks, *([] if line is None else [line])]:
        assert 0 <= float(axis.position(value).rstrip("%")) <= 100
    assert 1 <= len(axis.ticks) <= 8
    assert list(axis.ticks) == sorted(set(axis.ticks))


def test_marks_intervals_and_seeds_stand_in_their_places() -> None:
    row = Dot("A <b>", "true", number(0.5, 0.25, 0.75), points=(0.0, 1.0), remark="not shown & so")
    picture = dots([row, Dot("A <b>", "off", number(0.5, 0.4, 0.6), mark=2)], "score", line=0.5)
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', picture)]
    low, high = (
        float(x) for x in re.findall(r'interval" x1="([\d.]+)%" x2="([\d.]+)%', picture)[0]
    )
    assert places[0] < low < high < places[1]
    assert abs(sum(places) / 2 - 50) < 0.01  # 0.5 lies in the middle between them
    assert picture.count("A &lt;b&gt;") == 1  # one heading for both rows
    assert "not shown &amp; so" in picture
    assert picture.count('class="line"') == 2
    assert 'aria-label="seeds: 0.000, 1.000"' in picture
    assert "0.500" in picture
    assert "[0.250, 0.750]" in picture


def test_no_rows_make_no_picture_and_gains_carry_their_sign() -> None:
    assert dots([], "score") == ""
    gain = Dot("A", "a fact", number(0.1, -0.1, 0.3), note="12 items")
    assert "+0.100" in dots([gain], "gain", line=0.0, signed=True)
    assert "<small>12 items</small>" in dots([gain], "gain", line=0.0, signed=True)
