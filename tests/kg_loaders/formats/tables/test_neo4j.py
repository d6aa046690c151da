"""Neo4j's CSV in both of its forms, against records by hand and rows that a CSV writer wrote."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders import DamageReport, Source, SourceError, Text, TextKind, Triple, load
from kg_loaders.formats.tables import neo4j

LABEL, ALIAS, DESCRIPTION, TYPE = TextKind
APOC = """"_id","_labels","aliases","born","description","name","_start","_end","_type","since"
"1",":City:Capital","[""Lutetia"",""City of Light""]","","of France","Paris",,,,
"2","","","1964","","Keanu
""K"", Reeves",,,,
"3",":Nothing","","","","",,,,
,,,,,,"2","1","LIVED_IN","2001"

"""
NODES = "personId:ID(Person),name,born:int,aliases:string[],:LABEL,x:IGNORE\n"
NODES += "1,Keanu Reeves,1964,Neo;The One,Person;Actor,no\n"
EDGES = ":START_ID(Person),role,:END_ID(Movie),:TYPE\n1,Neo,99,ACTED_IN\n"


def read(text: str, tmp_path: Path, policy: str = "stop") -> tuple[list[object], DamageReport]:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())
    graph, report = load([Source(path, "neo4j")], policy=policy)
    assert graph.n_triples == report.n_triples
    return list(neo4j.read(path, DamageReport(report.policy))), report


def test_what_apoc_exports(tmp_path: Path) -> None:
    records, report = read(APOC, tmp_path)
    assert records == [
        Text("1", LABEL, "Paris"),
        Text("1", ALIAS, "Lutetia"),
        Text("1", ALIAS, "City of Light"),
        Text("1", DESCRIPTION, "of France"),
        Text("1", TYPE, "City"),
        Text("1", TYPE, "Capital"),
        Text("2", LABEL, 'Keanu\n"K", Reeves'),
        Text("3", TYPE, "Nothing"),
        Triple("2", "LIVED_IN", "1"),
    ]
    assert report.skipped == {"property born of a node": 1, "property since of a relationship": 1}
    assert (report.n_lines, report.n_comment, report.n_blank) == (6, 1, 1)
    assert report.units == "rows"


def test_what_an_import_takes(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    sources = [Source(tmp_path / name, "neo4j") for name in ("nodes.csv", "edges.csv")]
    graph, report = load(sources)
    ends = [graph.entities.name(int(i)) for i in graph.triples[0, [0, 2]]]
    assert ends == ["Person:1", "Movie:99"]
    assert graph.label(graph.entities.find("Person:1") or 0) == "Keanu Reeves"
    kinds = [(TextKind(int(k)).name) for k in graph.entity_texts.kinds]
    assert sorted(kinds) == ["ALIAS", "ALIAS", "LABEL", "TYPE", "TYPE"]
    assert set(report.skipped) == {"property born of a node", "property role of a relationship"}


@pytest.mark.parametrize(
    ("text", "line_number", "words"),
    [
        ("_id,_labels,name\n1,:A\n", 2, "2 fields instead of 3"),
        ('_id,_labels,name\n1,:A,"x"y\n', 2, "no CSV: "),
        ('_id,_labels,name\n1,:A,x\n2,:A,"y\nz\n', 3, "no CSV: a quoted field does not end"),
        ("_id,_labels,_start,_end,_type\n,,1,,NEAR\n", 2, "neither a node nor a relationship"),
    ],
)
def test_faulty_rows_are_named_and_counted(
    text: str, line_number: int, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=rf"x\.csv, line {line_number} \(byte \d+\): {words}"):
        read(text, tmp_path)
    good = "_id,_labels,name\n7,:A,good\n"
    if "_start" not in text:
        records, report = read(good + text.partition("\n")[2], tmp_path, "skip")
        assert Text("7", LABEL, "good") in records
        assert report.n_rejected == 1 + text.endswith("z\n")  # the line behind an open quote


def test_a_row_whose_line_was_rejected_is_rejected_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'_id,_labels,name\n0,:A,zero\n1,:A,"one\n\xff\nend"\n2,:A,two\n')
    _, report = load([Source(path, "neo4j")], policy="skip")
    assert [r.reason for r in report.rejections][:2] == [
        "not UTF-8",
        "a line of the row was rejected",
    ]
    assert report.n_rejected == 3
    assert report.n_texts == 4  # 'end"' is a row of its own, and takes none with it
    path.write_text('_id,_labels,name\n1,:A,"' + "x\n" * 50)
    report = DamageReport("skip")  # type: ignore[arg-type]
    assert list(neo4j.read(path, report, max_line_bytes=20)) == []
    assert "does not end within 20 bytes" in " ".join(report.reasons)


def test_a_file_of_others_is_refused(tmp_path: Path) -> None:
    for text, words in (("a,b\n1,2\n", "names no columns of Neo4j's"), ("", "is empty")):
        with pytest.raises(SourceError, match=words):
            read(text, tmp_path)


CELLS = st.text(
    st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), min_size=1, max_size=20
)


@given(names=st.lists(CELLS, min_size=1, max_size=5))
def test_any_name_comes_back(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([["_id", "_labels", "name"], *([i, ":T", n] for i, n in enumerate(names))])
    path = tmp_path_factory.mktemp("neo4j") / "x.csv"
    path.write_bytes(sink.getvalue().encode())
    actual = [record for record in neo4j.read(path, DamageReport()) if isinstance(record, Text)]
    assert [text.value for text in actual if text.kind is TextKind.LABEL] == names
