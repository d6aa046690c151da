"""Tables as people have them: joined, exported, in other encodings, with blanks and comments.

Each holds the one fact (Mira, visits, Weir), or that and a second one; nothing of a header, a
comment or a byte-order mark may be in the graph, and every row must be counted.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kg_loaders import DamageReport, KgError, Source, SourceError, load
from kg_loaders.formats import tsv
from kg_loaders.reading.blocks import TripleBlock
from kg_loaders.reading.lines import LineBlock, Span

FACT = ("Mira", "visits", "Weir")
OTHER = ("Tolo", "visits", "Zoë")
CSV = "source,edge,target\nMira,visits,Weir\n"
TSV = CSV.replace(",", "\t")
WIDE = [f"c{number}" for number in range(20_000)]

# name of the file, its bytes, whether the second fact is in it
TABLES = [
    ("x.csv", CSV.encode("utf-16"), False),
    ("x.tsv", TSV.encode("utf-16-be"), None),
    ("x.csv", b"\xfe\xff" + CSV.encode("utf-16-be"), False),
    ("x.csv", CSV.encode("utf-32"), False),
    ("x.tsv", b"\0\0\xfe\xff" + TSV.encode("utf-32-be"), False),
    ("x.csv", ("sep=;\r\n" + CSV.replace(",", ";").replace("\n", "\r\n")).encode("utf-16"), False),
    ("x.csv", ("\ufeffsep=,\n" + CSV).encode(), False),
    ("x.csv", b'"sep=;"\nsource;edge;target\nMira;visits;Weir\n', False),
    ("x.tsv", b"sep=\t\n" + TSV.encode(), False),
    ("x.tsv", ("\ufeffsep=\t\r\n" + TSV.replace("\n", "\r\n")).encode(), False),
    ("x.tsv", b"sep=\t\nMira\tvisits\tWeir\n", False),
    ("x.csv", ("\ufeff\ufeff" + CSV).encode(), False),
    ("x.csv", CSV.replace(",", ", ").encode(), False),
    ("x.csv", CSV.replace(",", "; ").encode(), False),
    ("x.csv", b'source, edge, target\n"Mira", "visits", "Weir"\n', False),
    ("x.csv", ("# edges, of a survey\n" + CSV).encode(), False),
    ("x.csv", ("# a\n#\n\n# b, c\n" + CSV).encode(), False),
    ("x.csv", ("# a\n#" + CSV).encode(), False),
    ("x.csv", ("#curie_map:,,\n#  A: http://a/,,\n" + CSV).encode(), False),
    ("x.csv", (CSV + "# the end\n#,,\n").encode(), False),
    ("x.csv", (CSV + CSV.replace("Mira", "Tolo").replace("Weir", "Zoë")).encode(), True),
    ("x.tsv", (TSV + TSV.replace("Mira", "Tolo").replace("Weir", "Zoë")).encode(), True),
    ("x.tsv", (TSV + "\ufeff" + TSV.replace("Mira", "Tolo").replace("Weir", "Zoë")).encode(), True),
    ("x.csv", (CSV + "\ufeff" + CSV.replace("Mira", "Tolo").replace("Weir", "Zoë")).encode(), True),
    ("x.tsv", (TSV + TSV).replace("\n", "\r\n").encode(), False),
    ("x.tsv", (TSV + "source\tedge\ttarget").encode(), False),
    ("x.csv", (CSV + "source,edge,target").encode(), False),
    ("x.csv", ("\n\n" + CSV + "\n\n").encode(), False),
    ("x.csv", b"source,edge,target,,\nMira,visits,Weir,,\n", False),
    ("x.tsv", b"\tsource\tedge\ttarget\n0\tMira\tvisits\tWeir\n", False),
    ("x.csv", b"Unnamed: 0,source,edge,target\n0,Mira,visits,Weir\n", False),
    ("x.csv", b"target,weight,edge,source\nWeir,1,visits,Mira\n", False),
    ("x.csv", b"source,source,edge,target\nMira,x,visits,Weir\n", False),
    (
        "x.tsv",
        "\t".join([*WIDE, "source", "edge", "target"]).encode()
        + b"\n" + "\t".join([*WIDE, *FACT]).encode(),
        False,
    ),
    (
        "x.csv",
        ",".join(["source", "edge", "target", *WIDE]).encode()
        + b"\n" + ",".join([*FACT, *WIDE]).encode() + b"\n",
        False,
    ),
    ("x.csv", b"source,target,type,label\nMira,Weir,Directed,visits\n", False),
    ("x.csv", b"Source;Target;Type;Id;Label;Weight\nMira;Weir;Directed;0;visits;1\n", False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "has_other"), TABLES)
def test_one_fact(name: str, data: bytes, has_other: bool | None, tmp_path: Path) -> None:
    for suffix, packed in (("", data), (".gz", gzip.compress(data, mtime=0))):
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(packed)
        if has_other is None:
            with pytest.raises(SourceError, match=r"UTF-16 without .* --encoding utf-16-be"):
                load([path])
            graph, report = load([path], encoding="utf-16-be")
        else:
            graph, report = load([path])
        facts = {tuple(fact) for name in graph.entities for fact in graph.facts(name)}
        assert facts == ({FACT, OTHER} if has_other else {FACT})
        assert report.n_rejected == 0
        lines = DamageReport()
        again = list(Source(path).read(lines)) if has_other is not None else []
        assert len({*again}) == len(facts) or has_other is None
        if has_other is not None:
            assert (lines.n_comment, lines.n_skipped) == (report.n_comment, report.n_skipped)


def test_a_repeated_header_in_every_block(tmp_path: Path) -> None:
    """Also where several processes read parts of a file, of which most begin without the header."""
    rows = [f"a{number}\tr\tb{number}" for number in range(40)]
    parts = ["head\trelation\ttail", *rows[:20], "head\trelation\ttail", *rows[20:]]
    path = tmp_path / "x.tsv"
    path.write_text("\n".join([*parts, "head\trelation\ttail"]))
    size = path.stat().st_size
    header = tsv._table(path, DamageReport(), None, "auto", None, 1 << 20).header
    layout = tsv._table(path, DamageReport(), None, "auto", None, 1 << 20).layout
    cut = path.read_bytes().index(b"a20")
    report, triples = DamageReport(), 0
    for span in (Span(0, cut), Span(cut, size, 23)):
        for item in tsv._read_span(
            path, report, span, layout=layout, header=header, max_line_bytes=1 << 20
        ):
            triples += len(item.ends) if isinstance(item, TripleBlock) else 1
    assert triples == 40
    assert (report.n_comment, report.skipped) == (1, {"header that is repeated": 2})
    graph, report = load([path], n_workers=2)
    assert (graph.n_triples, report.n_skipped) == (40, 2)


@pytest.mark.parametrize("text", ["id\tname\nn1\tMira\nid\tname\nn2\tWeir\n"])
def test_a_repeated_header_of_texts(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("n1\tr\tn2\n")
    for name, mark in (("labels.tsv", "\t"), ("labels.csv", ",")):
        (tmp_path / name).write_text(text.replace("\t", mark))
        graph, report = load([tmp_path / "x.tsv", Source(tmp_path / name, "texts")])
        assert list(graph.entities) == ["n1", "n2"]
        assert graph.facts("n1") == [("Mira", "r", "Weir")]
        assert report.skipped == {"header that is repeated": 1}


@pytest.mark.parametrize(
    ("data", "line", "places"),
    [
        (b"h\na\nh\n", b"h", [0, 2]),
        (b"h\r\na\r\nh\r\n", b"h", [0, 2]),
        (b"a\nh", b"h", [1]),
        (b"ah\nha\nhh\n\xef\xbb\xbfh\n", b"h", [3]),
        (b"h\th\nh\n", b"h\th", [0]),
        (b"a\nb\n", b"", []),
    ],
)
def test_lines_equal_to_another(data: bytes, line: bytes, places: list[int]) -> None:
    assert LineBlock(1, 0, data).indices_of(line) == places


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.csv", "Source,Target,Type\na,b,Directed\nb,c,Undirected\n", "'Type' says how edges"),
        ("x.csv", "sep=;\nsource;weight;target\na;1;b\n", "but no relation"),
        ("x.csv", "sep=^\nsource^edge^target\na^r^b\n", r"delimiter '\^' is none of"),
    ],
)
def test_a_table_that_is_refused(name: str, text: str, words: str, tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / name).write_bytes(text.encode(encoding))
        with pytest.raises(SourceError, match=words):
            load([tmp_path / name])


def test_numbers_of_columns_are_likely_a_header(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("0,1,2\nMira,visits,Weir\n")
    assert "looks like a header" in load([tmp_path / "x.csv"])[1].notes[0]
    (tmp_path / "x.csv").write_text("0,1,2\n5,1,7\n")
    assert load([tmp_path / "x.csv"])[1].notes == []


def test_a_remedy_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("Zoë,knows,Mira\n".encode("latin-1"))
    with pytest.raises(KgError) as error:
        load([tmp_path / "x.csv"])
    assert str(error.value).count("mend the line") == 1
    assert "or load with --damage skip" in str(error.value)
