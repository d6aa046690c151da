"""Headers of tables: known by name, half-known and refused, likely and noted, or none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kg_loaders import DamageReport, KgError, Source, SourceError, Text, TextKind, Triple, load
from kg_loaders.formats import tsv
from kg_loaders.formats.tables import csv_triples
from kg_loaders.formats.tables.layout import looks_like_header
from kg_loaders.formats.tables.values import yago_value
from kg_loaders.reading.blocks import TripleBlock

LABEL, ALIAS, DESCRIPTION, TYPE = TextKind
FACT = Triple("Mira", "visits", "Weir")


def records(path: Path, **options: object) -> tuple[list[object], DamageReport]:
    """What a file holds, in blocks and line by line, which must be the same."""
    report, again = DamageReport(), DamageReport()
    source = Source(path, options=options)
    rows: list[object] = []
    for item in source.read_in_blocks(report):
        rows += item.records() if isinstance(item, TripleBlock) else [item]
    assert sorted(map(repr, rows)) == sorted(map(repr, source.read(again)))
    assert report.counts() == again.counts()
    assert report.notes == again.notes
    return rows, report


# names of head, relation and tail, in the order of the columns "Mira visits Weir"
HEADERS = [
    "head relation tail", "subject predicate object", "source edge target",
    "source metaedge target", "from relationship to", "h r t", "s p o", "node1 label node2",
    "start type end", "subj pred obj", "subject_id predicate_id object_id",
    "sourceId relationType targetId", "Head Relation Tail", "HEAD RELATION TAIL",
    "#subject predicate object", "src rel dst", "entity1 relation entity2",
    "head_entity relation tail_entity", "node_1 edge node_2", "e1 rel e2",
    "Subject predicate_name Object", "source_node edge_type target_node",
    "from_id property to_id", "arg1 rel arg2", "subject-id predicate-id object-id",
    "source interaction target",
]  # fmt: skip


@pytest.mark.parametrize("names", HEADERS)
@pytest.mark.parametrize("mark", ["\t", ",", ";"])
def test_columns_are_known_by_name(names: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / ("x.tsv" if mark == "\t" else "x.csv")
    path.write_text(names.replace(" ", mark) + "\n" + mark.join(FACT) + "\n")
    rows, report = records(path)
    assert rows == [FACT]
    assert report.n_comment == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_names_win_over_places(order: tuple[int, int, int], tmp_path: Path) -> None:
    for name, mark in (("x.tsv", "\t"), ("x.csv", "|")):
        table = [("subject", "predicate", "object"), FACT]
        text = "\n".join(mark.join(row[column] for column in order) for row in table)
        (tmp_path / name).write_text(text)
        assert records(tmp_path / name)[0] == [FACT]
    columns = ("source", "edge", "target")
    table_ = pa.table({columns[column]: [FACT[column]] for column in order})
    pq.write_table(table_, tmp_path / "x.parquet")
    assert records(tmp_path / "x.parquet")[0] == [FACT]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            "source weight target",
            "the head \\('source'\\) and the tail \\('target'\\) but no relation",
        ),
        ("subject predicate note", "the relation \\('predicate'\\) but no tail"),
        ("person relation place", "the relation \\('relation'\\) but no head and no tail"),
        ("what predicate_id object_id", "but no head"),
        ("source target", "but no relation"),
        ("head tail year source_db", "but no relation"),
        ("from to since", "but no relation"),
        ("id qualifier rank note", "names no column of a head"),
    ],
)
def test_half_a_header_is_refused(names: str, words: str, tmp_path: Path) -> None:
    for name, mark in (("x.tsv", "\t"), ("x.csv", ",")):
        n = names.count(" ") + 1
        row = mark.join(f"Cell{i}" for i in range(n))
        (tmp_path / name).write_text(f"{names.replace(' ', mark)}\n{row}\n")
        with pytest.raises(SourceError, match=words) as error:
            load([tmp_path / name])
        assert "--order" in str(error.value)
        assert "--header no" in str(error.value)
    if n == 3:
        columns = names.replace(" ", ",")
        assert records(tmp_path / "x.tsv", order=columns)[0] == [Triple("Cell0", "Cell1", "Cell2")]
        assert len(records(tmp_path / "x.tsv", header="no")[0]) == 2


@pytest.mark.parametrize(
    "names",
    [
        "vessel property value", "name attribute value", "item property value",
        "subject predicate value", "Gene Attribute-Name AttributeValue", "Q key value",
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_long_table_names_its_heads_freely(
    names: str, order: tuple[int, int, int], tmp_path: Path
) -> None:
    columns = [names.split()[column] for column in order]
    row = [FACT[column] for column in order]
    for name, mark in (("x.tsv", "\t"), ("x.csv", ";")):
        (tmp_path / name).write_text(f"{mark.join(columns)}\n{mark.join(row)}\n")
        rows, report = records(tmp_path / name)
        assert rows == [FACT]
        assert any("--header no" in note for note in report.notes)
        assert len(records(tmp_path / name, header="no")[0]) == 2
    pq.write_table(pa.table([[cell] for cell in row], names=columns), tmp_path / "x.parquet")
    assert records(tmp_path / "x.parquet")[0] == [FACT]


def test_property_and_value_of_a_fact_are_no_header(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("land\tproperty\tvalue\nwater\tproperty\tprice\n")
    assert len(records(tmp_path / "x.tsv")[0]) == 2


@pytest.mark.parametrize(
    "text",
    [
        "source\tof\triver\nsource\tof\tlake\n",  # a value of the first row comes again
        "label\ttype\tproperty\nrelation\ttype\tlabel\n",
        "Q1\tlabel\tParis\nQ2\tlabel\tLyon\n",
        "from\tpart_of\tgrammar\nto\tpart_of\tgrammar\n",
        "entity\ttype\tx\nobject\ttype\ty\n",
        "h\tr\tt",
    ],
)
def test_facts_about_such_words_are_facts(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(text)
    rows, report = records(tmp_path / "x.tsv")
    assert rows == [Triple(*line.split("\t")) for line in text.splitlines()]
    assert report.n_comment == 0


@pytest.mark.parametrize(
    ("text", "is_likely"),
    [
        ("gene;does;drug\nHGNC:5;binds;D:1\nHGNC:7;binds;D:2\n", True),
        ("Node A;Verb name;Node B\nMira;visits;Weir\n", True),
        ("node one;connects;node two\nMira;visits;Weir\n", True),
        ("protein a,how,protein b\nP12,ppi,P13\nP14,ppi,P15\n", True),
        ("Mira;visits;Weir\nTolo;knows;Veko\n", False),
        ("Mira;visits;Weir\nTolo;visits;Veko\n", False),
        ("water;freezes;ice\nice;melts;water\n", False),
        ("Q1;P31;Q5\nQ2;P31;Q6\n", False),
        ("concept:city:weir;lies in;concept:land:ost\nconcept:city:mill;near;concept:x:y\n", False),
    ],
)
def test_a_likely_header_is_noted(text: str, is_likely: bool, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    rows, report = records(tmp_path / "x.csv")
    assert len(rows) == text.count("\n"), "it is a fact until someone says that it is none"
    assert any("looks like a header" in note for note in report.notes) == is_likely
    rows = [line.replace(",", ";").split(";") for line in text.splitlines()]
    assert looks_like_header(rows) == is_likely
    assert len(records(tmp_path / "x.csv", header="yes")[0]) == text.count("\n") - 1


# ---- tables of others ----------------------------------------------------------------------------
def test_hetionet(tmp_path: Path) -> None:
    (tmp_path / "edges.sif").write_text("source\tmetaedge\ttarget\nGene::1\tGiG\tGene::2\n")
    (tmp_path / "nodes.tsv").write_text("id\tname\tkind\nGene::1\tSOCS3\tGene\nGene::2\tA\tGene\n")
    graph, report = load([Source(tmp_path / "edges.sif", "tsv"), tmp_path / "nodes.tsv"])
    assert list(graph.entities) == ["Gene::1", "Gene::2"]
    assert graph.facts("Gene::1") == [("SOCS3", "GiG", "A")]
    assert graph.entity_texts.of(0, TYPE) == [("Gene", 0)]
    assert report.n_comment == 2


def test_sssom(tmp_path: Path) -> None:
    (tmp_path / "x.sssom.tsv").write_text(
        "#curie_map:\n#  A: http://a/\t\t\t\t\n"
        "subject_id\tsubject_label\tpredicate_id\tpredicate_modifier\tobject_id\tobject_label\n"
        "A:1\tfever\tskos:exactMatch\t\tB:2\tpyrexia\nA:1\tfever\tskos:exactMatch\tNot\tB:3\tcold\n"
    )
    rows, report = records(tmp_path / "x.sssom.tsv")
    assert rows == [
        Triple("A:1", "skos:exactMatch", "B:2"),
        Text("A:1", LABEL, "fever"),
        Text("B:2", LABEL, "pyrexia"),
    ]
    assert report.n_comment == 3
    assert report.skipped == {"statement that is denied": 1}


def test_kgtk(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(
        "id\tnode1\tlabel\tnode2\tnode1;label\n"
        "e1\tQ42\tP31\tQ5\t'Ada Korr'@en\ne2\tQ42\talias\t'The \\'Weir\\''@de\t\n"
        "e3\tQ42\tP569\t^1952-03-11T00:00:00Z/11\t\ne4\tQ42\tP2048\t+1.8Q11573\t\n"
        'e5\tQ42\tP625\t@45.0/5.0\t\ne6\tQ42\tP1\t"text"\t\n'
    )
    rows, report = records(tmp_path / "x.tsv")
    assert rows == [
        Triple("Q42", "P31", "Q5"),
        Text("Q42", LABEL, "Ada Korr", "en"),
        Text("Q42", ALIAS, "The 'Weir'", "de"),
    ]
    assert report.n_skipped == 4


def test_primekg(tmp_path: Path) -> None:
    (tmp_path / "kg.csv").write_text(
        "relation,display_relation,x_index,x_id,x_type,x_name,x_source,"
        "y_index,y_id,y_type,y_name,y_source\n"
        "ppi,ppi,0,9796,gene/protein,PHYHIP,NCBI,8889,56992,gene/protein,KIF15,NCBI\n"
        "has,has,0,9796,gene/protein,PHYHIP,NCBI,7,9796,effect/phenotype,Itch,HPO\n"
    )
    rows, report = records(tmp_path / "kg.csv")
    assert [row for row in rows if isinstance(row, Triple)] == [
        Triple("NCBI:9796", "ppi", "NCBI:56992"),
        Triple("NCBI:9796", "has", "HPO:9796"),  # one number, two things
    ]
    assert Text("HPO:9796", LABEL, "Itch") in rows
    assert sum(row == Text("NCBI:9796", LABEL, "PHYHIP") for row in rows) == 1
    assert "display_relation" in report.notes[0]
    (tmp_path / "nodes.csv").write_text(
        "node_index,node_id,node_type,node_name,node_source\n0,9796,gene/protein,PHYHIP,NCBI\n"
    )
    assert records(tmp_path / "nodes.csv")[0] == [
        Text("NCBI:9796", LABEL, "PHYHIP"),
        Text("NCBI:9796", TYPE, "gene/protein"),
    ]


def test_kgx(tmp_path: Path) -> None:
    (tmp_path / "edges.tsv").write_text(
        "id\tsubject\tpredicate\tobject\trelation\tnegated\n"
        "e1\tA:1\tbiolink:treats\tB:2\tRO:1\tfalse\ne2\tA:1\tbiolink:treats\tB:3\tRO:1\ttrue\n"
    )
    rows, report = records(tmp_path / "edges.tsv")
    assert rows == [Triple("A:1", "biolink:treats", "B:2")]
    assert report.skipped == {"statement that is denied": 1}
    (tmp_path / "nodes.tsv").write_text(
        "id\tcategory\tname\tdescription\tsynonym\n"
        "A:1\tbiolink:Drug|biolink:Thing\taspirin\ta drug\tASA|acetyl\n"
    )
    assert records(tmp_path / "nodes.tsv")[0] == [
        Text("A:1", LABEL, "aspirin"),
        Text("A:1", ALIAS, "ASA"),
        Text("A:1", ALIAS, "acetyl"),
        Text("A:1", DESCRIPTION, "a drug"),
        Text("A:1", TYPE, "biolink:Drug"),
        Text("A:1", TYPE, "biolink:Thing"),
    ]


def test_tables_without_a_header_known_by_their_shape(tmp_path: Path) -> None:
    (tmp_path / "train_sample.csv").write_text(
        "NCBIGENE:1\tGENE_PATHWAY\tKEGG:2\t900\t1\tSTRING\nGO:1\tIS_A\tGO:2\t\t1\tGO\n"
    )
    rows, report = records(tmp_path / "train_sample.csv")
    assert rows == [Triple("NCBIGENE:1", "GENE_PATHWAY", "KEGG:2"), Triple("GO:1", "IS_A", "GO:2")]
    assert "OpenBioLink" in report.notes[0]
    (tmp_path / "yagoFacts.tsv").write_text(
        '<id_1>\t<Ada>\t<wasBornIn>\t<Weir>\t\n<id_2>\t<Ada>\trdfs:label\t"Ada Korr"@eng\t\n'
        '<id_3>\t<Ada>\t<hasHeight>\t"1.8"^^<m>\t1.8\n'
    )
    rows, report = records(tmp_path / "yagoFacts.tsv")
    assert rows == [Triple("Ada", "wasBornIn", "Weir"), Text("Ada", LABEL, "Ada Korr", "eng")]
    assert report.n_skipped == 1


def test_tables_of_neo4j_in_csv_and_tsv(tmp_path: Path) -> None:
    for name, mark in (("x.csv", ","), ("y.csv", ";"), ("x.tsv", "\t")):
        path = tmp_path / name
        path.write_text(":ID,name,:LABEL\nn1,Mira,Person\n".replace(",", mark))
        assert records(path)[0] == [Text("n1", LABEL, "Mira"), Text("n1", TYPE, "Person")]
        path.write_text(":START_ID(P),:TYPE,:END_ID(M)\nn1,SAW,n2\n".replace(",", mark))
        assert records(path)[0] == [Triple("P:n1", "SAW", "M:n2")]


# ---- what is said of a table ---------------------------------------------------------------------
def test_order_and_header_of_every_table(tmp_path: Path) -> None:
    rows = [("von", "nach", "seit", "art"), ("Mira", "Weir", "1990", "visits")]
    for name, mark in (("x.tsv", "\t"), ("x.csv", ",")):
        (tmp_path / name).write_text("\n".join(mark.join(row) for row in rows))
    pq.write_table(pa.table({n: [c] for n, c in zip(*rows, strict=True)}), tmp_path / "x.parquet")
    for name in ("x.tsv", "x.csv", "x.parquet"):
        path = tmp_path / name
        for options in (
            {"order": "von,art,nach"}, {"order": "VON, Art ,nach"},
            {"order": "ht-r", "header": "yes"},
        ):  # fmt: skip
            assert records(path, **options)[0] == [FACT]
            graph, _ = load([path], **options)  # type: ignore[arg-type]
            assert graph.facts("Mira") == [FACT]
        with pytest.raises(KgError, match="has no column 'zu'"):
            load([path], order="von,art,zu")
        with pytest.raises(KgError, match="order 'hh' is none of"):
            load([path], order="hh")
        with pytest.raises(KgError, match="header 'perhaps' is none of"):
            load([path], header="perhaps")
    assert records(tmp_path / "x.tsv", order="ht-r", header="no")[0][0] == Triple(
        "von", "art", "nach"
    )
    with pytest.raises(SourceError, match="names columns, and without a header"):
        load([tmp_path / "x.tsv"], order="von,art,nach", header="no")


def test_a_row_of_more_columns_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("Mira\tvisits\tWeir\t0.5\n")
    with pytest.raises(KgError, match=r"4 fields instead of 3.*--order hrt-[,) ]"):
        load([tmp_path / "x.tsv"])
    assert records(tmp_path / "x.tsv", order="hrt-")[0] == [FACT]


WIDE = """\
name,works as,lives in,manager
Anna Berg,welder,Rome,Lea Holt
Lea Holt,auditor|singer,Oslo,
"""


@pytest.mark.parametrize("mark", ["\t", ","])
def test_a_table_of_entities_is_refused_until_it_is_said_to_be_one(
    mark: str, tmp_path: Path
) -> None:
    path = tmp_path / ("x.tsv" if mark == "\t" else "x.csv")
    path.write_text(WIDE.replace(",", mark))
    with pytest.raises(SourceError, match="--header wide if each row is an entity"):
        records(path)
    rows, report = records(path, header="wide")
    assert rows == [
        Triple("Anna Berg", "works as", "welder"),
        Triple("Anna Berg", "lives in", "Rome"),
        Triple("Anna Berg", "manager", "Lea Holt"),
        Triple("Lea Holt", "works as", "auditor"),
        Triple("Lea Holt", "works as", "singer"),
        Triple("Lea Holt", "lives in", "Oslo"),
    ]
    assert (report.n_comment, report.n_further) == (1, 4)


def test_a_wide_table_with_identifiers_has_names_too(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,name,lives in,manager\np1,Anna,Rome,p2\np2,Lea,,\n")
    rows, report = records(path)
    assert rows == [Text("p1", LABEL, "Anna"), Text("p2", LABEL, "Lea")]
    assert "--header wide reads each as a relation" in report.notes[0]
    rows, _ = records(path, header="wide")
    assert rows == [
        Triple("p1", "lives in", "Rome"), Triple("p1", "manager", "p2"),
        Text("p1", LABEL, "Anna"), Text("p2", LABEL, "Lea"),
    ]  # fmt: skip
    three = tmp_path / "three.tsv"
    three.write_text("name\tjob\ttown\nBo\tpilot\tOslo\n")
    assert records(three, header="wide")[0] == [
        Triple("Bo", "job", "pilot"),
        Triple("Bo", "town", "Oslo"),
    ]
    path.write_text("id,name,lives in,manager\n,Bo,Oslo,\n")
    with pytest.raises(KgError, match="empty field: ',Bo,Oslo,'; mend the line"):
        records(path, header="wide")


@pytest.mark.parametrize("header", ["a,b,a,c", "a,b,,c", "name"])
def test_a_wide_header_without_names_of_relations_is_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n1,2,3,4\n")
    with pytest.raises(SourceError, match=r"has a name twice|names no relation|but no relation"):
        records(path, header="wide")


def test_an_option_that_no_source_takes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.nt").write_text("<a:a> <a:b> <a:c> .\n")
    with pytest.raises(SourceError, match="order is an option of tables"):
        load([tmp_path / "x.nt"], order="hrt")
    (tmp_path / "x.tsv").write_text("b\tr\ta\n")
    graph, _ = load([tmp_path / "x.nt", tmp_path / "x.tsv"], order="trh")
    assert graph.facts("a") == [("a", "r", "b")]


def test_the_line_readers_agree_on_a_header_in_any_block(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    for before in ("", "\n\n", "# a comment\n", "\ufeff"):
        path.write_text(before + "source\tedge\ttarget\r\n" + "Mira\tvisits\tWeir\r\n" * 3)
        rows, report = records(path)
        assert rows == [FACT] * 3
        assert report.n_rejected == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_excels_unicode_text(encoding: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    text = f"{mark}head\trelation\ttail\r\nMüller\tvisits\tWeir\r\n"
    for name in ("x.csv", "x.tsv"):
        (tmp_path / name).write_bytes(text.encode(encoding))
        assert records(tmp_path / name)[0] == [Triple("Müller", "visits", "Weir")]


def test_latin_1_is_named_and_converted(tmp_path: Path) -> None:
    for name, mark in (("x.tsv", "\t"), ("x.csv", ";")):
        (tmp_path / name).write_bytes(f"Müller{mark}visits{mark}Weir\n".encode("latin-1"))
        with pytest.raises(KgError, match=r"not UTF-8.*--encoding latin-1"):
            load([tmp_path / name])
        graph, _ = load([tmp_path / name], encoding="latin-1")
        assert graph.facts("Müller") == [("Müller", "visits", "Weir")]
        with pytest.raises(KgError, match="encoding 'nothing' is not known"):
            load([tmp_path / name], encoding="nothing")
    (tmp_path / "x.nt").write_bytes(b"<a:a> <a:b> <a:\xfc> .\n")
    with pytest.raises(KgError) as error:
        load([tmp_path / "x.nt"])
    assert "--encoding" not in str(error.value), "N-Triples take no encoding"


def test_excels_first_line_names_the_delimiter(tmp_path: Path) -> None:
    for mark in (";", "|", ",", "\t"):
        for first in (f"sep={mark}", f"SEP={mark}", f'"sep={mark}"'):
            text = f"{first}\r\nhead{mark}relation{mark}tail\r\nMira{mark}visits{mark}Weir\r\n"
            (tmp_path / "x.csv").write_text(text, newline="")
            rows, report = records(tmp_path / "x.csv")
            assert rows == [FACT]
            assert report.n_comment == 2
    (tmp_path / "x.csv").write_text("sep=:\na:b:c\n")
    with pytest.raises(SourceError, match="delimiter ':' is none of"):
        load([tmp_path / "x.csv"])


# ---- tables of texts -----------------------------------------------------------------------------
def texts(path: Path, columns: tuple[str, ...], **options: object) -> list[tuple[object, ...]]:
    report, again = DamageReport(), DamageReport()
    rows: list[Text] = []
    for item in tsv.read_texts_in_blocks(path, report, columns=columns, **options):  # type: ignore[arg-type]
        rows += item.records() if hasattr(item, "records") else [item]
    other = list(tsv.read_texts(path, again, columns=columns, **options))  # type: ignore[arg-type]
    assert sorted(map(repr, rows)) == sorted(map(repr, other))
    assert report.counts() == again.counts()
    return sorted((row.node, row.kind, row.value, row.frequency) for row in rows)


LABELS, ALIASES = ("label", "description"), ("alias", "count")


@pytest.mark.parametrize(
    ("header", "row", "columns", "expected"),
    [
        ("id name", "n1 Mira", LABELS, [("n1", LABEL, "Mira", 0)]),
        ("id name kind", "n1 Mira Person", LABELS,
         [("n1", LABEL, "Mira", 0), ("n1", TYPE, "Person", 0)]),
        ("name id", "Mira n1", LABELS, [("n1", LABEL, "Mira", 0)]),
        ("qid label description", "n1 Mira aWeir", LABELS,
         [("n1", LABEL, "Mira", 0), ("n1", DESCRIPTION, "aWeir", 0)]),
        ("entity_id title year", "n1 Mira 1990", LABELS, [("n1", LABEL, "Mira", 0)]),
        ("id alias count", "n1 Mira 3", ALIASES, [("n1", ALIAS, "Mira", 3)]),
        ("id name", "n1 Mira", ALIASES, [("n1", ALIAS, "Mira", 0)]),
        ("id synonym", "n1 Mira", ALIASES, [("n1", ALIAS, "Mira", 0)]),
        ("curie class", "n1 Person", ("type",), [("n1", TYPE, "Person", 0)]),
        ("id label", "n1 Person", ("type",), [("n1", TYPE, "Person", 0)]),
        ("entity type", "n1 Person", ("type",), [("n1", TYPE, "Person", 0)]),
        ("id definition", "n1 aWeir", ("description",), [("n1", DESCRIPTION, "aWeir", 0)]),
        ("identifier text", "n1 aWeir", ("description",), [("n1", DESCRIPTION, "aWeir", 0)]),
        ("relation label", "n1 near", LABELS, [("n1", LABEL, "near", 0)]),
        ("Q1 name", "Q2 label", LABELS, [("Q1", LABEL, "name", 0), ("Q2", LABEL, "label", 0)]),
        ("name name", "id id", LABELS, [("id", LABEL, "id", 0), ("name", LABEL, "name", 0)]),
    ],
)  # fmt: skip
def test_headers_of_texts(
    header: str, row: str, columns: tuple[str, ...], expected: list[object], tmp_path: Path
) -> None:
    for name, mark in (("x.tsv", "\t"), ("x.csv", ",")):
        (tmp_path / name).write_text(f"{header}\n{row}\n".replace(" ", mark))
        assert texts(tmp_path / name, columns) == expected


def test_a_header_of_texts_that_names_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("id\tbirth\nn1\tMira\n")
    with pytest.raises(SourceError, match=r"identifier \('id'\) but none of the texts"):
        texts(tmp_path / "x.tsv", LABELS)
    assert texts(tmp_path / "x.tsv", LABELS, header="yes") == [("n1", LABEL, "Mira", 0)]
    assert len(texts(tmp_path / "x.tsv", LABELS, header="no")) == 2


def test_csv_reads_texts_of_quoted_fields(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('id,name,description\nn1,"Weir, the","two\nlines"\n')
    assert texts(tmp_path / "x.csv", LABELS) == [
        ("n1", LABEL, "Weir, the", 0),
        ("n1", DESCRIPTION, "two\nlines", 0),
    ]


def test_the_same_words_for_one_column_in_tsv_and_csv(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tr\tb\n")
    assert list(tsv.read(tmp_path / "x.tsv", DamageReport(), order="trh")) == [
        Triple("b", "r", "a")
    ]
    assert list(csv_triples.read(tmp_path / "x.tsv", DamageReport(), order="trh")) == [
        Triple("b", "r", "a")
    ]


def test_names_of_yago_lose_their_brackets_where_there_is_a_name() -> None:
    assert [yago_value(cell) for cell in ("<x>", "<xy>", "<>", "x>", "<x")] == [
        "x", "xy", "<>", "x>", "<x",
    ]  # fmt: skip
