"""The first rows of a table: what is a comment, a delimiter, a line that is cut."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.tables import start
from kg_loaders.formats.tables.start import (
    TableStart,
    csv_start,
    is_comment,
    start_bytes,
    tab_separated_start,
)

MOST = 1000


def written(folder: Path, data: bytes, name: str = "t") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def tabs(path: Path, most: int = MOST) -> list[tuple[int, list[str]]]:
    return list(tab_separated_start(path, DamageReport(), None, most).rows)


def of_csv(path: Path, delimiter: str | None = None, most: int = MOST) -> TableStart:
    return csv_start(path, DamageReport(), None, most, delimiter)


def test_rows_keep_the_numbers_of_their_lines(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf#made by x\n\na\tb\r\n  \n#id\tname\nc\t\td\n"
    assert tabs(written(tmp_path, data)) == [
        (3, ["a", "b"]), (5, ["#id", "name"]), (6, ["c", "", "d"]),
    ]  # fmt: skip


def test_lines_that_their_reader_would_not_take_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, b"long line\nab\n\xff\xfe\xfd\ncd")
    assert tabs(path, most=5) == [(2, ["ab"]), (4, ["cd"])]
    assert tabs(written(tmp_path, b"12345\n123456\n"), most=5) == [(1, ["12345"])]


def test_a_line_that_is_cut_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "LOOK_BYTES", 8)
    path = written(tmp_path, b"abc\ndef\nghi\n")
    actual, is_whole = start_bytes(path, DamageReport(), None, 8)
    assert (actual, is_whole) == (b"abc\ndef\n", False)
    assert start_bytes(path, DamageReport(), None, 12) == (b"abc\ndef\nghi\n", True)
    assert start_bytes(path, DamageReport(), None, 6) == (b"abc\nde", False)


def test_many_rows_are_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "LOOK_ROWS", 3)
    path = written(tmp_path, b"a,1\nb,2\nc,3\nd,4\n")
    assert len(tabs(path)) == 3
    assert [number for number, _ in of_csv(path).rows] == [1, 2, 3]


def test_packed_files_and_what_is_no_file(tmp_path: Path) -> None:
    packed = written(tmp_path, gzip.compress(b"a\tb\n"), "t.gz")
    assert tabs(packed) == [(1, ["a", "b"])]
    assert tabs(written(tmp_path, gzip.compress(b"a\tb\n" * 99)[:-9], "cut.gz")) in (
        [], [(i, ["a", "b"]) for i in range(1, 100)],
    )  # fmt: skip
    assert tabs(tmp_path / "none") == []
    assert start_bytes(tmp_path, DamageReport()) == (b"", False)
    os.mkfifo(tmp_path / "pipe")
    assert start_bytes(tmp_path / "pipe", DamageReport()) == (b"", False), "it is not waited for"


@pytest.mark.parametrize(
    ("line", "expected"),
    [("# x", True), ("#curie_map:\t\t", True), ("#", True), ("#id\tname", False), ("a #", False)],
)
def test_comments(line: str, expected: bool) -> None:
    assert is_comment(line) is expected


@pytest.mark.parametrize(
    ("data", "delimiter", "first"),
    [
        (b"a;b;c,d\n", ";", ["a", "b", "c,d"]), (b"a,b\n", ",", ["a", "b"]),
        (b"a\tb\n", "\t", ["a", "b"]), (b"a|b\n", "|", ["a", "b"]),
        (b'"a;b",c\n', ",", ["a;b", "c"]), (b"a\n", ",", ["a"]), (b"\n \na;b\n", ";", ["a", "b"]),
    ],
)  # fmt: skip
def test_the_delimiter_is_that_of_most_fields(
    tmp_path: Path, data: bytes, delimiter: str, first: list[str]
) -> None:
    actual = of_csv(written(tmp_path, data))
    assert actual.delimiter == delimiter
    assert actual.fields[0] == first
    assert actual.separator_line == 0


@pytest.mark.parametrize("data", [b"sep=;\na;b,c\n", b'"SEP=;"\r\na;b,c\r\n'])
def test_excels_line_says_the_delimiter(tmp_path: Path, data: bytes) -> None:
    actual = of_csv(written(tmp_path, data))
    assert (actual.delimiter, actual.separator_line) == (";", 1)
    assert actual.rows == [(2, ["a", "b,c"])]
    start = of_csv(written(tmp_path, data), ",")
    assert (start.delimiter, start.separator_line) == (",", 1)


@pytest.mark.parametrize("delimiter", ["::", "x", ""])
def test_other_delimiters_are_refused(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(SourceError, match="is none of"):
        of_csv(written(tmp_path, b"a,b\n"), delimiter)


def test_cells_over_lines_and_rows_without_a_cell(tmp_path: Path) -> None:
    actual = of_csv(written(tmp_path, b'a,"b\nc"\n,\nd,e\n'))
    assert actual.rows == [(1, ["a", "b\nc"]), (4, ["d", "e"])]


def test_an_empty_table_has_no_row(tmp_path: Path) -> None:
    assert of_csv(written(tmp_path, b"")).fields == []
    assert tabs(written(tmp_path, b"")) == []
