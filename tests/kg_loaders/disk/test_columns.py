"""Folders of columns: what is checked of a column, and how parts get their names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from kg_loaders import StoreError
from kg_loaders.disk.columns import (
    STRINGS,
    add_parts,
    map_columns,
    require_ascending,
    require_finite,
    require_ids,
    require_offsets,
    require_permutation,
    require_shapes,
    write,
    write_parts,
)
from kg_loaders.disk.seals import FileSeal, FolderFormat, open_sealed, read_manifest
from tests.flips import forge

LAYOUT = {"names": STRINGS, "ids": "<i4", "raw": ".bin"}
FORMAT = FolderFormat(
    kind="toy",
    version=1,
    what="a toy folder",
    remedy="make it again",
    make="make one",
    mark="*.toy",
    error=StoreError,
)


def columns(names: list[str], ids: list[int]) -> dict[str, Any]:
    return {
        "names": pa.array(names, pa.large_string()),
        "ids": np.array(ids, np.int32),
        "raw": lambda path: path.write_bytes(b"raw"),
    }


def parts_of(folder: Path) -> list[str]:
    return [entry["folder"] for entry in read_manifest(folder, FORMAT)["parts"]]


STRINGS_OF = {
    "ascending": pa.array(["a", "ab", "b"], pa.large_string()),
    "two": pa.array(["a", "b"], pa.large_string()),
    "twice": pa.array(["a", "a"], pa.large_string()),
    "falling": pa.array(["b", "a", "c"], pa.large_string()),
    "one": pa.array(["b"], pa.large_string()),
    "none": pa.array([], pa.large_string()),
}


@pytest.mark.parametrize(("name", "is_sorted"), [
    ("ascending", True), ("two", True), ("one", True), ("none", True), ("twice", False),
    ("falling", False),
])  # fmt: skip
def test_strings_are_distinct_and_sorted(name: str, is_sorted: bool) -> None:
    if is_sorted:
        require_ascending(STRINGS_OF, name)
    else:
        with pytest.raises(ValueError, match=f"{name} is not sorted"):
            require_ascending(STRINGS_OF, name)


@pytest.mark.parametrize(
    ("check", "good", "bad", "message"),
    [
        (lambda c: require_ascending(c, "x"), [1, 2, 9], [1, 1, 9], "not sorted"),
        (lambda c: require_ascending(c, "x"), [1], [1, 9, 2], "not sorted"),
        (lambda c: require_permutation(c, "x", 3), [2, 0, 1], [0, 0, 2], "does not number 3"),
        (lambda c: require_permutation(c, "x", 3), [0, 1, 2], [0, 1], "does not number 3"),
        (lambda c: require_offsets(c, "x", 3), [0, 0, 3], [1, 2, 3], "begin at 0"),
        (lambda c: require_offsets(c, "x", 3), [0, 3], [0, 1, 2], "end at 3"),
        (lambda c: require_offsets(c, "x", 3), [0, 1, 3], [0, 4, 3], "falls somewhere"),
        (lambda c: require_offsets(c, "x", 0), [0], [], "begin at 0"),
        (lambda c: require_ids(c, "x", 3), [0, 2], [0, 3], "ids are 0 to 2"),
        (lambda c: require_ids(c, "x", 3), [], [-1, 2], "ids are 0 to 2"),
        (lambda c: require_finite(c, "x"), [0.0, 1e30], [0.0, np.inf], "not finite"),
        (lambda c: require_finite(c, "x"), [], [np.nan], "not finite"),
        (lambda c: require_shapes(c, {"x": (2,)}), [0, 0], [0], r"shape \(1,\), not \(2,\)"),
    ],
)
def test_what_is_asked_of_numbers(
    check: Callable[[dict[str, Any]], None], good: list[Any], bad: list[Any], message: str
) -> None:
    kind = np.float64 if any(isinstance(value, float) for value in [*good, *bad]) else np.int64
    check({"x": np.array(good, kind)})
    with pytest.raises(ValueError, match=message):
        check({"x": np.array(bad, kind)})


def test_what_is_mapped_is_what_was_written(tmp_path: Path) -> None:
    sliced = columns(["", "é", "ab", "c"], [0, 1])
    sliced["names"] = sliced["names"][1:3]
    write(tmp_path / "toy", FORMAT, LAYOUT, {}, sliced, force=False)
    actual = map_columns(open_sealed(tmp_path / "toy", FORMAT), LAYOUT)
    assert (actual["names"].to_pylist(), actual["ids"].tolist()) == (["é", "ab"], [0, 1])
    assert actual["raw"].read_bytes() == b"raw"


def test_strings_that_are_none_are_refused_whoever_sealed_them(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    write(folder, FORMAT, LAYOUT, {}, columns(["some text"], [0]), force=False)
    file = folder / "names.arrow"
    content = file.read_bytes()
    assert content.count(b"some text") == 1
    file.write_bytes(content.replace(b"some text", b"some \xff\xfe\xfdt"))
    forge(folder, {})
    with pytest.raises(StoreError, match=r"names\.arrow cannot be read .*UTF8"):
        map_columns(open_sealed(folder, FORMAT), LAYOUT)


def test_another_type_than_the_layout_says_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    write(folder, FORMAT, LAYOUT, {}, columns(["a"], [0]), force=False)
    for layout, message in [
        ({"ids": "<i8"}, "int32, not int64"),
        ({"raw": STRINGS}, r"raw\.arrow"),
    ]:
        with pytest.raises(StoreError, match=message):
            map_columns(open_sealed(folder, FORMAT), layout)


def test_a_part_is_named_by_what_is_said_of_it_and_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    parts = [({"n": 1}, columns(["a"], [0])), ({"n": 2}, columns(["b"], [1]))]
    write_parts(folder, FORMAT, LAYOUT, {"of": "all"}, parts, force=False)
    values = read_manifest(folder, FORMAT)
    assert (values["of"], [entry["n"] for entry in values["parts"]]) == ("all", [1, 2])
    for entry in values["parts"]:
        name = entry.pop("folder")
        sealed = {
            file.removeprefix(f"{name}/"): msgspec.convert(message, FileSeal)
            for file, message in values["files"].items()
            if file.startswith(name)
        }
        assert sorted(sealed) == ["ids.npy", "names.arrow", "raw.bin"]
        report = msgspec.json.encode([entry, sealed], order="deterministic")
        assert name == hashlib.sha256(report).hexdigest()[:16]
        assert re.fullmatch("[0-9a-f]{16}", name)


def test_parts_are_added_and_equal_rows_are_stored_once(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    one, other = ({"n": 1}, columns(["a"], [0])), ({"n": 2}, columns(["b"], [1]))
    write_parts(folder, FORMAT, LAYOUT, {"of": "all"}, [one], force=False)
    first = parts_of(folder)
    (folder / "left-by-another").mkdir()
    add_parts(folder, FORMAT, LAYOUT, [other, one], after=first)
    there = parts_of(folder)
    assert (len(there), len(set(there)), there[0], there[2]) == (3, 2, first[0], first[0])
    assert {path.name for path in folder.iterdir()} == {"manifest.json", *there}
    sealed = open_sealed(folder, FORMAT)
    assert map_columns(sealed, LAYOUT, there[1])["names"].to_pylist() == ["b"]
    assert read_manifest(folder, FORMAT)["of"] == "all"
    with pytest.raises(StoreError, match="another process"):
        add_parts(folder, FORMAT, LAYOUT, [other], after=first)


def test_a_column_that_cannot_be_written_leaves_the_state_before(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    write_parts(folder, FORMAT, LAYOUT, {}, [({}, columns(["a"], [0]))], force=False)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    broken = columns(["b"], [1])

    def fails(path: Path) -> None:
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        add_parts(folder, FORMAT, LAYOUT, [({}, broken | {"raw": fails})])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
