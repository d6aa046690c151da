"""CSV in its dialects, Parquet, and ConceptNet's assertions."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders import (
    DamageError,
    DamageReport,
    SourceError,
    TextKind,
    Triple,
    graph_from_records,
    load,
)
from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy
from kg_loaders.errors import BudgetError
from kg_loaders.export import export
from kg_loaders.formats import conceptnet
from kg_loaders.formats.tables import csv_triples, parquet

FACTS = [Triple("a", "r", "b"), Triple("b", "r", "c, d")]


def triples(path: Path, text: str) -> list[Triple]:
    path.write_text(text, newline="")
    return list(csv_triples.read(path, DamageReport()))


@pytest.mark.parametrize(
    "text",
    [
        'a,r,b\nb,r,"c, d"\n',
        "a;r;b\r\nb;r;c, d\r\n",
        "a|r|b\n\nb|r|c, d",
        "subject,predicate,object\na,r,b\nb,r,'c, d'\n".replace("'", '"'),
        'id;Object;Subject;Predicate\n1;b;a;r\n2;"c, d";b;r\n',
        ':START_ID,since,:END_ID,:TYPE\na,1,b,r\nb,2,"c, d",r\n',
        "node1\tlabel\tnode2\na\tr\tb\nb\tr\tc, d\n",
    ],
)
def test_dialects(text: str, tmp_path: Path) -> None:
    assert triples(tmp_path / "x.csv", text) == FACTS
    assert list(load([tmp_path / "x.csv"])[0].entities) == ["a", "b", "c, d"]


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=6)


@settings(deadline=None)
@given(
    st.lists(st.tuples(FIELD, FIELD, FIELD), min_size=1, max_size=8),
    st.sampled_from(csv_triples.DELIMITERS),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_what_csv_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    delimiter: str,
    quoting: int,
) -> None:
    sink = io.StringIO()
    csv.writer(sink, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(sink.getvalue().encode())
    report = DamageReport(DamagePolicy.SKIP)
    actual = list(csv_triples.read(path, report, delimiter=delimiter))
    whole = [row for row in rows if all(row)]
    wanted = [Triple(*row) for row in whole if any(field.strip() for field in row)]
    if rows[0][0].startswith("\ufeff"):  # which is taken for a byte-order mark
        return
    assert actual == wanted
    report.n_triples = len(actual)
    report.check()


def test_faults_of_rows_have_their_places(tmp_path: Path) -> None:
    text = 'a,r,b\na,r\n"two\nlines",r,b\na,,b\n"a"b,r,c\nd,r,e\n"open,r,c\n'
    (tmp_path / "x.csv").write_text(text)
    report = DamageReport(DamagePolicy.SKIP)
    actual = list(csv_triples.read(tmp_path / "x.csv", report))
    assert actual == [Triple("a", "r", "b"), Triple("two\nlines", "r", "b"), Triple("d", "r", "e")]
    report.n_triples = len(actual)
    report.check()
    places = [(r.line, r.byte_offset, r.reason.split(":")[0]) for r in report.rejections]
    assert places == [
        (2, 6, "2 fields instead of 3"), (5, 26, "empty field"), (6, 31, "no CSV"),
        (8, 46, "no CSV"),
    ]  # fmt: skip
    with pytest.raises(DamageError, match=r"x\.csv, line 2 \(byte 6\)"):
        list(csv_triples.read(tmp_path / "x.csv", DamageReport()))
    (tmp_path / "words.csv").write_text("only words\n")
    with pytest.raises(SourceError, match="into three fields"):
        load([tmp_path / "words.csv"])
    with pytest.raises(SourceError, match="delimiter ':' is none of"):
        list(csv_triples.read(tmp_path / "x.csv", DamageReport(), delimiter=":"))


# ---- Parquet -------------------------------------------------------------------------------------
def test_parquet_gives_back_what_was_exported(tmp_path: Path) -> None:
    graph = graph_from_records(Triple(f"e{i % 50}", f"r{i % 3}", f"e{i % 7}") for i in range(400))
    export(graph, tmp_path / "x.parquet")
    again, report = load([tmp_path / "x.parquet"])
    assert again.content_hash == graph.content_hash
    assert (report.units, report.n_lines) == ("rows", graph.n_triples)


def test_columns_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    names = pa.array(["a", None, "b", ""]).dictionary_encode()
    pq.write_table(pa.table({"s": names, "o": [1, 2, 3, 4], "p": ["r"] * 4}), path)
    report = DamageReport(DamagePolicy.SKIP)
    assert list(parquet.read(path, report)) == [Triple("a", "r", "1"), Triple("b", "r", "3")]
    assert [r.line for r in report.rejections] == [2, 4]
    pq.write_table(pa.table({"s": ["a"], "o": [1.5], "p": ["r"]}), path)
    with pytest.raises(SourceError, match="column 'o' holds double"):
        load([path])
    pq.write_table(pa.table({"s": ["a"], "x": ["b"]}), path)
    with pytest.raises(SourceError, match="one of each is needed: head, subject"):
        load([path])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        load([path], policy="skip")


def test_parquet_that_unfolds_too_far(tmp_path: Path) -> None:
    n = 1 << 20
    same = pa.array(["x" * 200]).take(pa.array([0] * n))
    table = pa.table({"head": same, "relation": same, "tail": same})
    pq.write_table(table, tmp_path / "x.parquet", use_dictionary=False, compression="zstd")
    with pytest.raises(BudgetError, match="unfolds to more than 3 times"):
        load([tmp_path / "x.parquet"], budget=ReaderBudget(expansion=3))


# ---- ConceptNet ----------------------------------------------------------------------------------
def test_conceptnet(tmp_path: Path) -> None:
    path = tmp_path / "conceptnet-assertions-5.7.0.csv"
    path.write_text(
        '/a/1\t/r/IsA\t/c/en/guide_dog/n\t/c/en/dog\t{"weight": 2.0, "sources": [{}]}\n'
        '/a/2\t/r/Synonym\t/c/de/hund\t/c/en/dog\t{"weight": 0.5}\n'
        '/a/3\t/r/ExternalURL\t/c/en/dog\thttp://dbpedia.org/resource/Dog\t{"weight": 1.0}\n'
        '/a/4\t/r/dbpedia/genre\t/c/en/dog\t/c/en/animal\t{"weight": 0.2}\n'
    )
    graph, report = load([path])
    assert list(graph.entities) == [
        "/c/de/hund", "/c/en/animal", "/c/en/dog", "/c/en/guide_dog/n",
    ]  # fmt: skip
    assert [graph.label(i) for i in range(4)] == ["hund", "animal", "dog", "guide dog"]
    assert graph.relation_label(graph.relations.id("/r/IsA")) == "is a"
    assert graph.relation_label(graph.relations.id("/r/dbpedia/genre")) == "genre"
    assert report.skipped == {"edge to something outside ConceptNet": 1}
    english, report = load([path], languages=["en"])
    assert "/c/de/hund" not in english.entities
    assert report.skipped["edge in another language"] == 1
    heavy = conceptnet.read(path, DamageReport(), least_weight=1)
    assert [r.relation for r in heavy if isinstance(r, Triple)] == ["/r/IsA"]
    assert graph.entity_texts.of(0, TextKind.LABEL, "de") == [("hund", 0)]
    path.write_text("/a/1\t/r/IsA\t/c/en/dog\t/c/en/animal\t{\n/a/1\t/r/IsA\n\n")
    report = DamageReport(DamagePolicy.SKIP)
    assert list(conceptnet.read(path, report)) == []
    assert list(report.reasons) == [
        "the last field is not a JSON object", "2 fields instead of 5",
    ]  # fmt: skip
    report.check()
