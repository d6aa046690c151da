"""Columns written part by part are, mapped in the end, what was added, in its order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders.large.files import ArrayFile, StringsFile

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)  # what is UTF-8
PART = st.tuples(st.lists(TEXT, max_size=5), st.integers(0, 3), st.integers(0, 5))


@pytest.mark.hypothesis
@settings(deadline=None)
@given(st.lists(PART, max_size=5))
def test_strings_are_those_that_were_added(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[list[str], int, int]]
) -> None:
    """Also those of a slice, whose bytes begin within its buffer."""
    file = StringsFile(tmp_path_factory.mktemp("strings") / "names")
    expected = []
    for values, first, length in parts:
        column = pa.array(values, pa.string()).slice(first, length)
        file.add(column)
        expected += column.to_pylist()
    mapped = file.mapped()
    mapped.validate(full=True)
    assert mapped.to_pylist() == expected


def test_strings_of_two_parts_and_of_a_slice(tmp_path: Path) -> None:
    file = StringsFile(tmp_path / "names")
    file.add(pa.array(["Ada", "", "Béa"]))
    file.add(pa.array([], pa.string()))
    file.add(pa.array(["left out", "Cy", "D", "left out"]).slice(1, 2))
    assert file.mapped().to_pylist() == ["Ada", "", "Béa", "Cy", "D"]
    assert (tmp_path / "names").read_bytes() == "AdaBéaCyD".encode()


def test_a_slice_of_bytes_is_taken_without_what_follows_it(tmp_path: Path) -> None:
    file = StringsFile(tmp_path / "names")
    for first in (0, 1):
        file.add(pa.array([b"left", b"Cy", b"D", b"out"], pa.large_binary()).slice(first, 2))
    assert file.mapped().to_pylist() == ["left", "Cy", "Cy", "D"]


def test_numbers_are_those_that_were_added(tmp_path: Path) -> None:
    file = ArrayFile(tmp_path / "ids", np.int32)
    file.add(np.arange(6)[::2])
    file.add(np.array([[7, 8], [9, 10]]).T)
    assert file.n_values == 7
    mapped = file.mapped()
    assert (mapped.tolist(), mapped.dtype) == ([0, 2, 4, 7, 9, 8, 10], np.int32)
    empty = ArrayFile(tmp_path / "none", np.float32).mapped()
    assert (empty.tolist(), empty.dtype) == ([], np.float32)
