"""Arrow arrays made and read without `pyarrow.array`: the same as with it, and without pandas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders.disk.arrow import (
    mask_array,
    numbers_array,
    numpy_of,
    places_of,
    string_scalar,
    strings_array,
)
from kg_loaders.rdf.records import RDFS

TYPES = [pa.string(), pa.large_string()]


@given(st.lists(st.text()), st.sampled_from(TYPES))
def test_strings(values: list[str], type: pa.DataType) -> None:
    result = strings_array(values, type)
    result.validate(full=True)
    assert result.equals(pa.array(values, type))


def test_no_string_is_made_of_half_a_surrogate_pair_or_beyond_its_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UnicodeEncodeError):
        strings_array(["\ud800"])
    monkeypatch.setattr("kg_loaders.disk.arrow.LONGEST", 2)
    with pytest.raises(OverflowError, match="3 bytes of text"):
        strings_array(["a", "bc"], pa.string())
    assert len(strings_array(["bc"], pa.string())) == 1, "just as many bytes as fit"
    assert len(strings_array(["a", "bc"], pa.large_string())) == 2


@given(st.lists(st.integers(0, 200)), st.sampled_from(["<i4", "<i8", "|u1", "<f4"]), st.data())
def test_numbers_there_and_back(values: list[int], dtype: str, data: st.DataObject) -> None:
    numbers = np.array(values, dtype)
    result = numbers_array(numbers)
    assert result.equals(pa.array(numbers))
    first = data.draw(st.integers(0, len(values)))
    np.testing.assert_array_equal(numpy_of(result[first:]), numbers[first:], strict=True)
    np.testing.assert_array_equal(numpy_of(numbers_array(numbers[::-2])), numbers[::-2])


@given(st.lists(st.booleans()), st.data())
def test_masks_there_and_back(values: list[bool], data: st.DataObject) -> None:
    mask = np.array(values, np.bool_)
    result = mask_array(mask)
    assert result.equals(pa.array(mask))
    first = data.draw(st.integers(0, len(values)))
    np.testing.assert_array_equal(numpy_of(result[first:]), mask[first:], strict=True)


@pytest.mark.parametrize("type", [pa.bool_(), pa.int32(), pa.float64()])
def test_arrays_without_values_may_have_no_buffers(type: pa.DataType) -> None:
    """Arrow lets a buffer be missing that holds nothing."""
    array = pa.Array.from_buffers(type, 0, [None, None])
    np.testing.assert_array_equal(numpy_of(array), np.zeros(0, type.to_pandas_dtype()), strict=True)


@given(st.lists(st.one_of(st.none(), st.integers(0, 9))), st.data())
def test_places(values: list[int | None], data: st.DataObject) -> None:
    array = pa.array(values, pa.int32())
    first = data.draw(st.integers(0, len(values)))
    rest = [-1 if value is None else value for value in values[first:]]
    assert places_of(array[first:]).tolist() == rest
    if None in values:
        with pytest.raises(ValueError, match="are null"):
            numpy_of(array)


@pytest.mark.parametrize("type", TYPES)
def test_a_scalar(type: pa.DataType) -> None:
    assert string_scalar("é", type).equals(pa.scalar("é", type))


def test_commands_allocate_as_the_system_does_unless_told_otherwise() -> None:
    code = (
        "import sys; from kept.apps.cli import main\n"
        "sys.argv = ['kept', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    )
    report = {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
    for settings, wanted in (({}, "system"), (report, "mimalloc")):
        environment = {k: v for k, v in os.environ.items() if k not in report} | settings
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split()[-1] == wanted


def test_building_and_linking_load_no_pandas(tmp_path: Path) -> None:
    """Which Arrow imports, where it is installed, for a list or an array that it is given."""
    (tmp_path / "a.nt").write_text(
        f'<u:Q1> <u:p> <u:Q2> .\n<u:Q1> <{RDFS}label> "Paris"@en .\n_:b <u:p> <u:Q1> .\n'
        "<u:x> <u:p> <u:Q1> .\n"
    )
    (tmp_path / "b.tsv").write_text("a\tr\tb\nQ1\tr\tQ2\n")
    (tmp_path / "texts.txt").write_text("In Paris.\nThe Paris Club's\n")
    code = (
        "import sys; from kept.apps.cli import app\n"
        "run = lambda *words: app([*words], standalone_mode=False)\n"
        "run('kg', 'build', 'a.nt', '-o', 'kg')\n"
        "run('kg', 'build', 'b.tsv', '--labels', 'b.tsv', '-o', 'other')\n"
        "run('link', 'texts.txt', '--kg', 'kg', '-o', 'links.jsonl')\n"
        "sys.exit('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Paris" in (tmp_path / "links.jsonl").read_text()
