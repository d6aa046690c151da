"""TSV triples and texts: columns, rejections, and write→read identity."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kg_loaders import (
    DamageReport,
    KgError,
    SourceError,
    TextKind,
    Triple,
    graph_from_records,
    load,
)
from kg_loaders.damage import DamagePolicy
from kg_loaders.formats.tsv import ORDERS, read, read_texts, write

NAMES = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1))
@example([("\ufeffa", "\ufeff", "\ufeff")])
@example([("#", " ", "\u2028\x85\x1c")])
@example([('"a', "'", '""')])
@example([("\0", "a\0b", "\0\0")])
def test_write_then_read_is_the_identity(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("tsv") / "x.tsv"
    graph = graph_from_records(Triple(*row) for row in rows)
    assert write(graph, path) == len(set(rows))
    assert sorted(read(path, DamageReport())) == sorted(set(rows))
    assert load([path])[0].content_hash == graph.content_hash


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\rb", ""])
def test_names_that_no_line_can_hold(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="cannot be written to a TSV file"):
        write(graph_from_records([Triple("a", name, "b")]), tmp_path / "x.tsv")


@pytest.mark.parametrize("order", ORDERS)
def test_orders(tmp_path: Path, order: str) -> None:
    (tmp_path / "x").write_text("\t".join(order))
    assert list(read(tmp_path / "x", DamageReport(), order=order)) == [Triple("h", "r", "t")]


def test_wrong_options(tmp_path: Path) -> None:
    with pytest.raises(KgError, match="'hhr' is none of"):
        list(read(tmp_path / "x", DamageReport(), order="hhr"))
    with pytest.raises(KgError, match="must be one of label, alias"):
        list(read_texts(tmp_path / "x", DamageReport(), columns=["name"]))


def test_texts(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(
        "id\talias\tcount\n"
        "a\tx\t3\tsource\nb\ty\nc\t \n# comment\n\n"
        "a\tz\tmany\tsource\n\tx\nb\nc\t1\t2\t3\t4\nd\t\nb\tq\t99999999999\n"
    )
    report = DamageReport(policy=DamagePolicy.SKIP)
    texts = list(
        read_texts(
            tmp_path / "x", report, columns=("alias", "count", "-"), language="de", header=True
        )
    )
    assert [(t.node, t.value, t.frequency, t.language, t.kind) for t in texts] == [
        ("a", "x", 3, "de", TextKind.ALIAS), ("b", "y", 0, "de", TextKind.ALIAS),
        ("c", " ", 0, "de", TextKind.ALIAS),
    ]  # fmt: skip
    assert report.reasons == {
        "count is not a number from 0 to 2147483647": 1,
        "count is not a number from 0 to 2147483647; a file of triples is given without "
        "--aliases": 1,
        "empty field": 1,
        "1 field instead of 2 to 4": 1,
        "5 fields instead of 2 to 4": 1,
    }
    assert (report.n_comment, report.n_blank, report.n_skipped, report.n_lines) == (2, 1, 1, 12)


def test_a_description_with_a_label(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\tA\tan a\nb\t\tonly described\n")
    report = DamageReport()
    texts = list(read_texts(tmp_path / "x", report, is_relation=True))
    assert [(t.node, t.kind, t.value, t.is_relation) for t in texts] == [
        ("a", TextKind.LABEL, "A", True), ("a", TextKind.DESCRIPTION, "an a", True),
        ("b", TextKind.DESCRIPTION, "only described", True),
    ]  # fmt: skip
    assert report.n_further == 1


def test_counts_end_where_31_bits_do(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(f"a\tx\t{2**31 - 1}\na\ty\t{2**31}\n")
    report = DamageReport(policy=DamagePolicy.SKIP)
    (text,) = read_texts(tmp_path / "x", report, columns=("alias", "count"))
    assert (text.value, text.frequency) == ("x", 2**31 - 1)
    assert report.reasons == {"count is not a number from 0 to 2147483647": 1}


def test_a_line_of_blanks_is_blank(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\tr\tb\n  \n\n")
    report = DamageReport()
    assert list(read(tmp_path / "x", report)) == [Triple("a", "r", "b")]
    assert (report.n_blank, report.reasons) == (2, {})


COMMAS = "; the line looks comma-separated: name the file .csv, or put TABs between its columns"
NAMES = "; a file of identifiers and names is given with --labels"
BLANKS = (
    "; blanks are between its columns (a copy from a page often has them): put one TAB in their "
    "place"
)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,r", "1 field instead of 3"),
        ("a,r,b", f"1 field instead of 3{COMMAS}"),
        ("Ada Berg    works as    pilot", f"1 field instead of 3{BLANKS}"),
        ("Ada Berg    works as", "1 field instead of 3"),
        ("Ada works as pilot", "1 field instead of 3"),
        ("a\tr,b", f"2 fields instead of 3{NAMES}"),
        ("a\tr,b,c,d", f"2 fields instead of 3{NAMES}"),
        ("a\tr\tb\tc", "4 fields instead of 3"),
        ("a\t\tb", "empty field"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_line(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "x").write_text(f"{line}\n")
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert list(read(tmp_path / "x", report)) == []
    assert report.reasons == {reason: 1}


def test_only_a_name_that_begins_with_a_byte_order_mark_needs_one(tmp_path: Path) -> None:
    for name, expected in (("a\ufeff", "a\ufeff\tr\tb\n"), ("\ufeffa", "\ufeff\ufeffa\tr\tb\n")):
        write(graph_from_records([Triple(name, "r", "b")]), tmp_path / "x.tsv", force=True)
        assert (tmp_path / "x.tsv").read_text(encoding="utf-8") == expected
