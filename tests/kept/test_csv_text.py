"""CSV that a spreadsheet takes for what it says; numbers stay numbers."""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kept
from kept.csv_text import STARTS_A_FORMULA, csv_text
from kept.evaluation.audit import as_csv
from kept.evaluation.leakage import LeakCheck

PACKAGES = Path(kept.__file__).parent.parent


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(A1)", "\t=1", "\r=1", "-", "+0x1", "--1"],
)
def test_a_formula_becomes_text(cell: str) -> None:
    (_, (cell_text, number)) = rows_of(csv_text(["name", "n"], [[cell, 1]]))
    assert cell_text == f"'{cell}"
    assert number == "1"
    assert rows_of(csv_text([cell], []))[0] == [f"'{cell}"]


@pytest.mark.parametrize("cell", ["-0.3", "+1.5e-3", "-12 %", "-0.3 [-0.4, -0.1]", "-.5", -0.3, -2])
def test_numbers_stay_numbers(cell: object) -> None:
    assert rows_of(csv_text(["n"], [[cell]]))[1] == [str(cell)]


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=5))
def test_no_cell_begins_a_formula_and_no_other_is_touched(rows: list[list[str]]) -> None:
    read = rows_of(csv_text(["a", "b"], rows))[1:]
    for row, values in zip(rows, read, strict=True):
        for cell, value in zip(row, values, strict=True):
            if value != cell:
                assert cell.startswith(STARTS_A_FORMULA)
                assert value == f"'{cell}"
            elif value.startswith(STARTS_A_FORMULA):
                assert value.strip("+-.").replace(".", "")[0].isdigit()


def test_the_audit_writes_such_csv() -> None:
    check = LeakCheck("pair-in-graph", 10, 1, ("=HYPERLINK(1)",))
    assert "'=HYPERLINK(1)" in as_csv([check], {})


def test_csv_is_written_in_no_other_way() -> None:
    files = [
        file
        for name in ("kept", "kg_loaders", "entity_linking", "experiments")
        for file in (PACKAGES / name).rglob("*.py")
    ]
    assert len(files) > 200
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        if file.name != "csv_text.py":
            assert not calls & {"csv.writer", "csv.DictWriter"}, f"{file}: take kept.csv_text"
