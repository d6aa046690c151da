"""Every code of the report, on graphs made to have it."""

from __future__ import annotations

import json
import re

import pytest

from kg_loaders import DamageReport, KnowledgeGraph, Record, Text, TextKind, Triple, checks
from kg_loaders import graph_from_records as make
from kg_loaders.checks import check, to_json
from kg_loaders.damage import DamagePolicy

BASE: list[Record] = [
    Triple("a", "r", "b"), Triple("b", "s", "c"),
    *(Text(name, TextKind.LABEL, name.upper()) for name in "abc"),
    *(Text(name, TextKind.LABEL, name.upper(), "", 0, True) for name in "rs"),
]  # fmt: skip


def codes(*records: Record, **splits: KnowledgeGraph) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {f.code: (f.n, f.examples) for f in check(make([*BASE, *records]), splits=splits)}


CASES: dict[str, tuple[list[Record], int, tuple[str, ...]]] = {
    "W401": ([Text("lone", TextKind.LABEL, "L")], 1, ("lone",)),
    "W402": ([Triple("a", "r", "mute"), Text("mute", TextKind.ALIAS, "m")], 1, ("mute",)),
    "W403": ([Triple("a", "t", "b")], 1, ("t",)),
    "W404": ([Text("a", TextKind.ALIAS, "b")], 1, ("'b' (2: a, b)",)),
    "W405": ([Triple("a", "s", "a")], 1, ("a s a",)),
    "W407": ([Triple("a", "b", "c"), Text("b", TextKind.LABEL, "B", "", 0, True)], 1, ("b",)),
}


def test_nothing_to_report() -> None:
    assert codes() == {}


@pytest.mark.parametrize("code", CASES)
def test_one_finding(code: str) -> None:
    records, n, examples = CASES[code]
    assert codes(*records) == {code: (n, examples)}


def test_one_entity_may_repeat_its_name() -> None:
    assert codes(Text("a", TextKind.ALIAS, "a"), Text("a", TextKind.LABEL, "A", "de")) == {}


def test_twins() -> None:
    rows: list[Record] = [
        *(Triple(f"x{i}", "r", f"y{i}") for i in range(40)),
        *(Triple(f"y{i}", "inv", f"x{i}") for i in range(41)),
        *(Triple(f"x{i}", "sym", f"x{39 - i}") for i in range(40)),
        *(Triple(f"y{i}", "half", f"x{i}") for i in range(20)),
    ]
    assert codes(*rows)["W406"] == (2, ("inv and r (40 triples)", "sym and sym (40 triples)"))


def test_split_leakage() -> None:
    test = make([Triple("a", "r", "b"), Triple("c", "r", "b"), Triple("a", "r", "new")])
    actual = codes(test=test)
    assert actual == {
        "E201": (1, ("a r b",)), "W501": (1, ("c r b",)), "W502": (1, ("a r new",)),
    }  # fmt: skip
    train = make(BASE)
    same_ids = train.with_triples(train.triples[:1], note="split")
    assert [f.code for f in check(train, splits={"x": same_ids})] == ["E201"]


def test_damage_is_remembered() -> None:
    report = DamageReport(policy=DamagePolicy.SKIP)
    report.n_lines, report.n_duplicates = 9, 2
    report.reject("x.tsv", 3, 7, "empty field", b"a\t\tb")
    actual = {f.code: f for f in check(make(BASE), damage=report)}
    assert actual["E101"].examples == (str(report.rejections[0]),)
    assert actual["E101"].is_error
    assert (actual["W301"].n, actual["W301"].n_asked) == (2, 9)
    assert str(actual["W301"]) == "W301 duplicates: 2 of 9"


def test_json_and_the_table_of_codes(small_graph: KnowledgeGraph) -> None:
    findings = check(small_graph)
    rows = json.loads(to_json(findings))
    assert [row["code"] for row in rows] == [f.code for f in findings] == ["W401", "W404", "W406"]
    table = set(re.findall(r"^\| ([EW]\d{3})", checks.__doc__ or "", re.M))
    assert table == {*CASES, "W406", "E101", "W301", "E201", "W501", "W502"}


def test_a_graph_of_nothing() -> None:
    assert check(make([])) == []
