"""The outcome of a command for Python: values by name, rows as a table, its text."""

from __future__ import annotations

import pytest

from kept.results import Result


def test_values_by_name() -> None:
    result = Result(values={"accuracy": 0.9, "n": 3})
    assert result["n"] == 3
    with pytest.raises(KeyError, match="no value 'mrr'; there are accuracy, n"):
        result["mrr"]
    with pytest.raises(KeyError, match="there are none"):
        Result()["mrr"]


def test_it_shows_itself_as_the_command_printed_it() -> None:
    result = Result(values={"a": 1}, text="a < b\n\n")
    assert repr(result) == "a < b"
    assert result._repr_html_() == "<pre>a &lt; b</pre>"
    assert repr(Result(values={"a": 1})) == "Result({'a': 1})"
    other = result.with_text("other")
    assert (repr(other), other["a"]) == ("other", 1)


def test_rows_are_a_table() -> None:
    pytest.importorskip("pandas")
    rows = [{"a": 1, "b": {"c": 2}}, {"a": 3, "b": {"c": 4}}]
    table = Result(values={"x": 9}, rows=rows).to_pandas()
    assert table.to_dict("list") == {"a": [1, 3], "b.c": [2, 4]}
    assert Result(values={"x": 9, "y": {"z": 8}}).to_pandas().to_dict("list") == {
        "x": [9], "y.z": [8],
    }  # fmt: skip
