"""Outcomes in files: made once, whole, and refused where they are damaged or came from others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kept.errors import CheckpointError
from kept.lab.study.origins import read_stored, require_same_data, stored_with, write_stored
from kept.lab.study.store import RECORDS, RunRecord, append_record, read_records, stored_once
from kg_loaders.disk.writing import claim
from kg_loaders.errors import InUseError

FAULT, REMEDY = "is no outcome", "remove it"


@dataclass(frozen=True)
class Outcome:
    right: list[bool]


def test_an_outcome_is_made_once(tmp_path: Path) -> None:
    path, calls = tmp_path / "cells" / "key.json", list[int]()

    def make() -> Outcome:
        calls.append(1)
        return Outcome([True, False])

    first = stored_once(path, Outcome, make, fault=FAULT, remedy=REMEDY)
    assert stored_once(path, Outcome, make, fault=FAULT, remedy=REMEDY) == first
    assert calls == [1]
    assert not path.with_suffix(".running").exists()


def test_a_value_is_returned_as_it_is_read(tmp_path: Path) -> None:
    """Tuples are lists, numbers of numpy are Python's: on the first call as on later ones."""

    def make() -> dict[str, Any]:
        return {"pair": (1, 2), "mean": np.float64(0.5), "is_right": np.bool_(True)}

    values = [stored_once(tmp_path / "value.json", dict[str, Any], make) for _ in range(2)]
    assert values == [{"pair": [1, 2], "mean": 0.5, "is_right": True}] * 2
    with pytest.raises(TypeError, match="Path is not stored"):
        stored_once(tmp_path / "path.json", dict[str, Any], lambda: {"path": tmp_path})
    assert not (tmp_path / "path.json").exists()


def test_a_damaged_outcome_is_refused_with_its_path_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text('{"right": [tru', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"key\.json is no outcome \(.+\); remove it"):
        stored_once(path, Outcome, lambda: Outcome([]), fault=FAULT, remedy=REMEDY)


def test_an_outcome_that_another_process_makes_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    with claim(path.with_suffix(".running")), pytest.raises(InUseError):
        stored_once(path, Outcome, lambda: Outcome([]), fault=FAULT, remedy=REMEDY)
    assert not path.exists()


def test_a_line_that_was_cut_is_replaced_by_the_next_record(tmp_path: Path) -> None:
    records = [RunRecord(f"run{i}", "e", "kbert", "true", i, {}, {}, {}) for i in range(2)]
    append_record(tmp_path, records[0])
    with (tmp_path / RECORDS).open("ab") as file:
        file.write(b'{"run":"cut')
    assert list(read_records(tmp_path)) == ["run0"]
    append_record(tmp_path, records[1])
    assert read_records(tmp_path) == {record.run: record for record in records}


def test_values_of_another_origin_are_refused(tmp_path: Path) -> None:
    path, origin = tmp_path / "cells" / "row-0.json", {"settings": "a", "data": "b"}
    assert read_stored(path, origin) is None
    assert stored_with(path, origin, lambda: {"right": "01"}) == {"right": "01"}
    assert stored_with(path, origin, lambda: pytest.fail("it is stored")) == {"right": "01"}
    with pytest.raises(CheckpointError, match=r"row-0\.json came of other settings; choose"):
        read_stored(path, {"settings": "c", "data": "b"})
    write_stored(tmp_path / "other.json", {"settings": "a", "data": "c"}, [])
    with pytest.raises(CheckpointError, match="came of different data"):
        require_same_data([path, tmp_path / "other.json"])
