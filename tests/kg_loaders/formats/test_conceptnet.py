"""Assertions of ConceptNet: what is read, what is left out and counted, what is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.formats.conceptnet import read
from kg_loaders.records import Text, TextKind, Triple

LABEL = TextKind.LABEL


def line(relation: str, head: str, tail: str, facts: str = '{"weight": 2.0}') -> str:
    return f"/a/x\t{relation}\t{head}\t{tail}\t{facts}\n"


def loaded(tmp_path: Path, *lines: str, **options: Any) -> tuple[list[Any], DamageReport]:
    path, report = tmp_path / "assertions.csv", DamageReport(DamagePolicy.SKIP)
    path.write_text("".join(lines), encoding="utf-8")
    return list(read(path, report, **options)), report


def test_nodes_and_relations_are_labelled_once(tmp_path: Path) -> None:
    records, report = loaded(
        tmp_path,
        line("/r/IsA", "/c/en/hot_dog/n", "/c/en/food"),
        line("/r/IsA", "/c/en/food", "/c/fr/mets"),
        line("/r/dbpedia/genreOf", "/c/en/food", "/c/en/food"),
    )
    assert records == [
        Triple("/c/en/hot_dog/n", "/r/IsA", "/c/en/food"),
        Text("/r/IsA", LABEL, "is a", "en", 0, True),
        Text("/c/en/hot_dog/n", LABEL, "hot dog", "en"), Text("/c/en/food", LABEL, "food", "en"),
        Triple("/c/en/food", "/r/IsA", "/c/fr/mets"), Text("/c/fr/mets", LABEL, "mets", "fr"),
        Triple("/c/en/food", "/r/dbpedia/genreOf", "/c/en/food"),
        Text("/r/dbpedia/genreOf", LABEL, "genre of", "en", 0, True),
    ]  # fmt: skip
    assert (report.n_further, report.n_rejected, report.skipped) == (5, 0, {})


def test_what_is_left_out_is_counted_by_its_reason(tmp_path: Path) -> None:
    records, report = loaded(
        tmp_path,
        line("/r/IsA", "/c/en/a", "http://x.org/b"),
        line("/r/IsA", "/c/en/a", "/c/fr/b"), line("/r/IsA", "/c/fr/a", "/c/en/b"),
        line("/r/IsA", "/c/en/a", "/c/en/b", '{"weight": 0.9}'),
        line("/r/IsA", "/c/en/a", "/c/en/c", '{"weight": 1.5}'),
        line("/r/IsA", "/c/en/a", "/c/en/d", "{}"),
        languages=["en"], least_weight=1.0,
    )  # fmt: skip
    assert [r.tail for r in records if isinstance(r, Triple)] == ["/c/en/c", "/c/en/d"]
    assert report.skipped == {
        "edge to something outside ConceptNet": 1, "edge in another language": 2,
        "edge of less weight": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("faulty", "reason"),
    [
        (line("IsA", "/c/en/a", "/c/en/b"), "no relation, or no node before it"),
        (line("/r/IsA", "/c/en", "/c/en/b"), "no relation, or no node before it"),
        (line("/r/IsA", "http://x.org/a", "/c/en/b"), "no relation, or no node before it"),
        (line("/r/IsA", "/c/en/a", "/c/en/b", "nothing"), "the last field is not a JSON object"),
        ("/a/x\t/r/IsA\t/c/en/a\n", "3 fields instead of 5"),
        ("\t\n", "2 fields instead of 5"),
    ],
)
def test_faulty_lines_are_rejected(tmp_path: Path, faulty: str, reason: str) -> None:
    records, report = loaded(tmp_path, line("/r/IsA", "/c/en/a", "/c/en/b"), faulty)
    assert len(records) == 4
    ((rejection),) = report.rejections
    assert (rejection.line, rejection.reason) == (2, reason)


def test_lines_of_blanks_are_blank(tmp_path: Path) -> None:
    records, report = loaded(tmp_path, "\n", "   \n", line("/r/IsA", "/c/en/a", "/c/en/b"))
    assert len(records) == 4
    assert (report.n_blank, report.n_rejected) == (2, 0)
