"""What a file is by its first bytes: read, or named with a next step, whatever it is called."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kg_loaders import FORMATS, KgError, Source, SourceError, TextKind, load
from kg_loaders.build import FORMAT_ALIASES, resolve_format
from kg_loaders.formats.recognition import kind_of

ITEM = {
    "type": "item", "id": "Q7001", "labels": {"en": {"language": "en", "value": "Ada Korr"}},
    "claims": {"P31": [{"rank": "normal", "mainsnak": {
        "snaktype": "value", "property": "P31", "datavalue": {
            "type": "wikibase-entityid", "value": {"entity-type": "item", "id": "Q5"}}}}]},
}  # fmt: skip
OWL = '<?xml version="1.0"?>\n<!-- Prot\u00e9g\u00e9 --><Ontology xmlns="http://www.w3.org/2002/07/owl#"/>'
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

# what no reader here reads: name of a file, its text, what is said, and the next step
NAMED = [
    ("x.owl", "Prefix(:=<http://a/>)\nOntology(<http://a>)", "functional syntax", "robot convert"),
    ("x.owl", "Ontology(<http://a>)", "functional syntax", "robot convert"),
    ("x.ofn", "# made by ROBOT\n\nPrefix(:=<http://a/>)", "functional syntax", "robot convert"),
    ("x.omn", "Prefix: a: <http://a/>\n\nOntology: <http://a>", "Manchester", "robot convert"),
    ("x.owl", OWL, "OWL/XML", "robot convert"),
    ("x.xml", OWL, "OWL/XML", "robot convert"),
    ("x.hdt", "$HDT\x01<http://", "HDT", "hdt2rdf"),
    ("x.gexf", '<gexf xmlns="http://gexf.net/1.3"/>', "GEXF", "GraphML"),
    ("x.gml", "graph [\n  directed 1\n]", "GML", "GraphML"),
    ("x.dot", "digraph G {\n a -> b\n}", "DOT", "GraphML"),
    ("x.txt", "*Vertices 2\n1 a\n", "Pajek", "GraphML"),
    ("x.cypher", "CREATE (a:Person {name: 'x'})", "Cypher", "apoc.export.csv"),
    ("x.txt", "MERGE (a:Person)", "Cypher", "apoc.export.csv"),
    ("x.cypherl", "CREATE INDEX ON :__mg_vertex__(__mg_id__);", "Cypher", "CSV"),
    ("x.cypher", "CREATE RANGE INDEX a FOR (n:A) ON (n.b);", "Cypher", "CSV"),
    ("x.txt", "CREATE CONSTRAINT a FOR (n:A) REQUIRE (n.b) IS UNIQUE;", "Cypher", "CSV"),
    ("schema.cypher", "CREATE NODE TABLE P(id INT64, PRIMARY KEY (id));", "Cypher", "CSV"),
    ("schema.cypher", "CREATE REL TABLE K(FROM P TO P);", "Cypher", "CSV"),
    ("copy.cypher", "COPY P FROM 'p.csv';", "Cypher", "CSV"),
    ("x.txt", "LOAD CSV WITH HEADERS FROM 'a' AS row CREATE (:A)", "Cypher", "CSV"),
    ("schema.tql", "define\n\nperson sub entity,\n  owns name;", "TypeQL", "CSV"),
    ("schema.tql", "define entity person, owns name;", "TypeQL", "CSV"),
    ("data.tql", "# people\ninsert\n$x isa person, has name \"Ada\";", "TypeQL", "CSV"),
    ("x.sql", "-- MySQL dump 10.13\n", "SQL", "CSV"),
    ("x.json", '{"head": {"vars": ["s", "p"]}, "results": {}}', "SPARQL", "kept kg build --sparql"),
    ("x.xml", '<sparql xmlns="http://www.w3.org/2005/sparql-results#"/>', "SPARQL", "--sparql"),
    ("x.json", '{"elements": {"nodes": []}}', "Cytoscape", "GraphML"),
    ("x.json", '{"http://a": {"http://b": [{"value": "c", "type": "uri"}]}}', "RDF/JSON", "riot"),
    ("x.json", '{"type": "FeatureCollection", "features": []}', "GeoJSON", "CSV"),
    ("x.tsv", "<!DOCTYPE html>\n<html><body>Log in</body></html>", "a web page", "fetch"),
    ("x.nt", "<html>\n<head>", "a web page", "fetch"),
    ("x.csv", "version https://git-lfs.github.com/spec/v1\noid 1", "Git LFS", "git lfs pull"),
    ("x.xml", "<mediawiki/>", "a dump of a wiki's pages", "Wikidata"),
    ("x.xml", "<DescriptorRecordSet/>", "MeSH", "mesh.nt.gz"),
    ("data.txt", "  1 This software and database is being provided", "WordNet", "the folder"),
]  # fmt: skip
BYTES = [
    ("x.csv", b"PK\x03\x04rest", "a zip archive", r"mv .*x\.csv .*x\.csv\.zip"),
    ("x.xlsx", b"PK\x03\x04rest", "a zip archive", "CSV UTF-8"),
    ("x.tsv", gzip.compress(b"a\tr\tb", mtime=0), "gzip data", r"mv .*x\.tsv .*x\.tsv\.gz"),
    ("x.nt", bz2.compress(b"<a:a> <a:b> <a:c> ."), "bzip2 data", r"\.bz2"),
    ("x.tsv", b"\xfd7zXZ\0rest", "xz data", r"mv .*x\.tsv\.xz"),
    ("x.db", b"SQLite format 3\0rest", "an SQLite database", "sqlite3"),
    ("x.pkl", b"\x80\x04\x95rest", "a Python pickle", "TSV"),
    ("x.csv", b"%PDF-1.7", "a PDF", "data"),
    ("x.dat", bytes(range(256)) * 2 + bytes(200), "binary data", "TSV"),
    ("x.h5", b"\x89HDF\r\n\x1a\n", "HDF5", "CSV"),
]


@pytest.mark.parametrize(("name", "text", "kind", "step"), NAMED)
def test_text_that_is_named(name: str, text: str, kind: str, step: str, tmp_path: Path) -> None:
    _is_named(tmp_path / name, text.encode(), kind, step)
    _is_named(tmp_path / name, b"\xef\xbb\xbf" + text.encode(), kind, step)


@pytest.mark.parametrize(("name", "data", "kind", "step"), BYTES)
def test_bytes_that_are_named(name: str, data: bytes, kind: str, step: str, tmp_path: Path) -> None:
    _is_named(tmp_path / name, data, kind, step)


def _is_named(path: Path, data: bytes, kind: str, step: str) -> None:
    path.write_bytes(data)
    for policy in ("stop", "skip"):
        with pytest.raises(
            SourceError, match=rf"is .*{kind}.*, which kept does not read; .*{step}"
        ):
            load([path], policy=policy)


TURTLE = "@prefix a: <http://a/> .\na:a a:r a:b ."
JSON_LD = '{"@context": {"@vocab": "http://a/"}, "@id": "http://a/a", "r": {"@id": "http://a/b"}}'
READ = [
    ("x.owl", TURTLE, "rdf", "ttl"),
    ("x.rdf", "# a comment\nPREFIX a: <http://a/>\na:a a:r a:b .", "rdf", "ttl"),
    ("x.xml", "@base <http://a/> .\n<a> <r> <b> .", "rdf", "ttl"),
    ("x.txt", "<http://a/a> <http://a/r> <http://a/b> .\n", "rdf", "nt"),
    ("x.tsv", "<http://a/a>\t<http://a/r>\t<http://a/b> .\n", "rdf", "nt"),
    ("x.owl", '<http://a/a> <http://a/r> "b"@en .\n<http://a/a> <http://a/r> <u:b> .', "rdf", "nt"),
    ("x.dat", "<u:a> <u:r> <u:b> <u:g> .\n", "rdf", "nq"),
    ("x.json", JSON_LD, "rdf", "jsonld"),
    ("x.json", f"[{JSON_LD}]", "rdf", "jsonld"),
    ("x.json", '{"@graph": []}', "rdf", "jsonld"),
    ("x.ttl", f'<?xml version="1.0"?><rdf:RDF xmlns:rdf="{RDF}"/>', "rdf", "rdf"),
    ("x.nt", TURTLE, "rdf", None),  # Turtle and N-Triples begin alike: the name decides
    ("x.ttl", "<u:a> <u:r> <u:b> .", "rdf", None),
    ("x.n3", TURTLE, "rdf", None),
    ("x.json", json.dumps({"entities": {"Q7001": ITEM}, "success": 1}), "wikidata", None),
    ("x.json", json.dumps([ITEM, ITEM]), "wikidata", None),
    ("x.txt", json.dumps(ITEM), "wikidata", None),
    ("x.json", json.dumps(ITEM, indent=1), "wikidata", None),
    ("x.json", '[["a", "r", "b"]]', "json", None),
    ("x.json", '[{"head": "a", "relation": "r", "tail": "b"}]', "json", None),
    ("x.json", '{"nodes": [], "links": []}', "json", None),
    ("x.json", '{"head": "a", "relation": "r", "tail": "b"}\n{"id": "a"}\n', "jsonl", None),
    ("x.json", '{"graph_dict": {}}', "llamaindex", None),
    ("x.json", '{"nodes": [], "relationships": [{"start_node_id": "1"}]}', "neo4j-graphrag", None),
    ("x.xml", '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"/>', "graphml", None),
    ("x.xml", '<TriX xmlns="http://www.w3.org/2004/03/trix/trix-1/"/>', "rdf", "trix"),
    ("x.tsv", "a\tr\tb\n", "tsv", None),
    ("x.csv", "create index,r,b\n", "csv", None),
    ("x.tsv", "insert\tsub\tb\n", "tsv", None),
    ("x.tsv", "define\towns\tb\n", "tsv", None),
    ("x.csv", "/a/[/r/IsA/,/c/en/a/,/c/en/b/]\t/r/IsA\t/c/en/a\t/c/en/b\t{}\n", "conceptnet", None),
    ("x.json", '{"graph": {"nodes": {"a": {"label": "A"}}, "edges": []}}', "json", None),
    ("x.json", '{"graphs": [{"nodes": [{"id": "a"}], "edges": []}]}', "json", None),
    ("x.csv", "graph,r,b\n", "csv", None),
    ("x.tsv", "<http://a/a>\t<http://a/r>\t<http://a/b>\n", "tsv", None),
    ("x.tsv", "{\tr\tb\n", "tsv", None),
    ("x.csv", "[a],r,b\n", "csv", None),
]


@pytest.mark.parametrize(("name", "text", "format", "syntax"), READ)
def test_what_is_read(
    name: str, text: str, format: str, syntax: str | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    assert resolve_format(tmp_path / name) == (format, {"format": syntax} if syntax else {})
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert resolve_format(packed) == (format, {"format": syntax} if syntax else {})


def test_parquet_of_another_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": ["a"], "p": ["r"], "o": ["b"]}), tmp_path / "x.csv")
    assert load([tmp_path / "x.csv"])[0].facts("a") == [("a", "r", "b")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("format-version: 1.2\n[Term]\nid: A:1\n", "obo"),
        ("! comment\nformat-version: 1.4\n", "obo"),
        ("data-version: 2\nformat-version: 1.2\n", "obo"),
        ("[Term]\nid: A:1\n", "obo"),
        ('<?xml version="1.0"?>\n<!DOCTYPE LexicalResource SYSTEM "a.dtd">\n<LexicalResource/>',
         "wnlmf"),
        ("C0000005|ENG|P|L0000005|PF|S0007492|Y|A26634265||M0019694|D012711|\n", "umls"),
        ("C0000039|A0|AUI|SY|C0000039|A1|AUI||R1||MSH|MSH|||N||\n", "umls"),
    ],
)  # fmt: skip
def test_readers_of_other_branches_have_their_names(text: str, kind: str, tmp_path: Path) -> None:
    actual = kind_of(text.encode())
    assert actual is not None
    assert actual.format == kind
    path = tmp_path / "x.txt"
    path.write_text(text)
    if kind in FORMATS:
        assert resolve_format(path)[0] == kind
    else:
        with pytest.raises(SourceError, match="which kept does not read; "):
            resolve_format(path)


@pytest.mark.parametrize("name", FORMAT_ALIASES)
def test_every_other_name_of_a_format_is_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.bin").touch()
    for spelling in (name, name.upper()):
        assert Source(tmp_path / "x.bin", spelling).format_name in FORMATS


def test_the_names_in_messages_are_names_of_formats(tmp_path: Path) -> None:
    from kg_loaders.rdf.reader import SUFFIXES

    assert {*SUFFIXES} <= {*FORMATS, *FORMAT_ALIASES}
    (tmp_path / "x.json").write_text(TURTLE)
    for name in ("turtle", "ttl", "trig"):
        assert load([Source(tmp_path / "x.json", name)])[0].n_triples == 1
    assert load([Source(tmp_path / "x.json", "rdf")])[0].n_triples == 1


def test_a_parser_that_fails_leaves_the_word_to_the_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(TURTLE)
    for name, words in (("jsonl", "looks like Turtle: read it with --format ttl"),):
        with pytest.raises(KgError, match=words):
            load([Source(tmp_path / "x.json", name)])
    (tmp_path / "x.json").write_text("Ontology(<http://a>)")
    with pytest.raises(KgError, match="looks like an ontology in OWL functional syntax: convert"):
        load([Source(tmp_path / "x.json", "graphml")])


def test_reasons_of_nothing_are_said(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"type": "lexeme", "id": "L1"}\n{"id": ""}\n')
    with pytest.raises(SourceError, match="skipped: lexeme: 1; entity without an id: 1"):
        load([Source(tmp_path / "x.json", "wikidata")])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"entities": {"Q7001": ITEM}}),
        json.dumps({"entities": {"Q7001": ITEM}, "success": 1}, indent=2),
        json.dumps({"success": 1, "entities": {"Q7001": ITEM}}),
        json.dumps({"entities": [ITEM]}),
        json.dumps([ITEM]),
        json.dumps([ITEM], indent=1),
        json.dumps(ITEM),
        json.dumps(ITEM, indent=4),
        "\ufeff" + json.dumps([ITEM]),
        "[\n" + json.dumps(ITEM) + "\n]\n",
        "[" + json.dumps(ITEM) + ",\n" + json.dumps(ITEM) + "\n]",
    ],
)
def test_wikidata_in_any_layout(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    graph, report = load([Source(tmp_path / "x.json", "wikidata")])
    assert graph.facts("Q7001") == [("Ada Korr", "P31", "Q5")]
    assert report.n_rejected == 0
    assert load([tmp_path / "x.json"])[0].content_hash == graph.content_hash


def test_wikidata_documents_name_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"entities": {"Q7001": ITEM, "Q2": 7}}))
    with pytest.raises(KgError, match=r"line 2 .*not an entity in JSON"):
        load([path])
    graph, report = load([path], policy="skip")
    assert (graph.n_triples, report.n_rejected) == (1, 1)
    path.write_text(json.dumps({"entities": {"Q7001": ITEM}})[:-3])
    with pytest.raises(SourceError, match="is not JSON of entities"):
        load([path], policy="skip")


# ---- triples and nodes in JSON -------------------------------------------------------------------
@pytest.mark.parametrize(
    "document",
    [
        [["a", "r", "b"]],
        [{"subject": "a", "predicate": "r", "object": "b"}],
        [{"source": "a", "edge": "r", "target": "b", "weight": 1}],
        {"triples": [["a", "r", "b"]]},
        {"facts": [{"head": "a", "relation": "r", "tail": "b"}], "version": 2},
        {
            "nodes": [{"id": "a"}, {"id": "b"}],
            "links": [{"source": "a", "target": "b", "key": "r"}],
        },
        {"directed": True, "edges": [{"from": "a", "to": "b", "label": "r"}], "nodes": []},
        [{"type": "relationship", "label": "r", "start": {"id": "a"}, "end": {"id": "b"}}],
        {
            "directed": True,
            "graph": {},
            "nodes": [],
            "links": [{"source": "a", "target": "b", "key": "r"}],
        },
        {
            "graph": {
                "nodes": {"a": {}, "b": {}},
                "edges": [{"source": "a", "target": "b", "relation": "r"}],
            }
        },
        {
            "graphs": [
                {"edges": [{"source": "a", "target": "b", "relation": "r"}]},
                {"nodes": {"c": {"label": "C"}}},
            ]
        },
        {"graphs": [{"id": "o", "edges": [{"sub": "a", "pred": "r", "obj": "b"}]}]},
        {
            "nodes": [{"key": "c", "attributes": {"label": "C"}}],
            "edges": [{"key": "e", "source": "a", "target": "b", "attributes": {"label": "r"}}],
        },
        [{"source": {"id": "a", "x": 1}, "target": {"id": "b"}, "properties": {"relation": "r"}}],
    ],
)
def test_triples_in_json(document: object, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(document))
    assert load([tmp_path / "x.json"])[0].facts("a") == [("a", "r", "b")]


def test_nodes_of_graphs_in_json(tmp_path: Path) -> None:
    """OBO Graphs, Graphology, and JSON Graph Format, whose nodes are written by their ids."""
    documents = [
        {"graphs": [{"nodes": [{"id": "a", "lbl": "Ada"}], "edges": []}]},
        {"nodes": [{"key": "a", "attributes": {"label": "Ada"}}], "edges": []},
        {"graph": {"nodes": {"a": {"label": "Ada", "metadata": {"kind": "P"}}}, "edges": []}},
    ]
    for document in documents:
        (tmp_path / "x.json").write_text(json.dumps(document))
        graph, _ = load([tmp_path / "x.json"])
        assert (list(graph.entities), graph.label(0)) == (["a"], "Ada")
    assert [name for name, _ in graph.entity_texts.of(0, TextKind.TYPE)] == ["P"]


def test_json_without_triples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for document, words in (
        ([["a", "r"]], "neither a triple nor a node"),
        ([["a", None, "b"]], "neither a triple nor a node"),
        ([["a", "r", ["b"]]], "neither a triple nor a node"),
        ({"x": 1}, "holds no list of triples or nodes"),
        ([], "no triple and no text"),
    ):
        path.write_text(json.dumps(document))
        with pytest.raises(KgError, match=words):
            load([Source(path, "json")])


def test_lines_of_json_have_the_names_of_other_formats(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"subject": "a", "predicate": "r", "object": "b"}\n{"node_id": "a", "name": "A"}\n'
        '{"id": "b", "synonyms": ["B", "Bee"], "category": "letter"}\n'
    )
    graph, report = load([path])
    assert graph.facts("a") == [("A", "r", "b")]
    assert report.n_texts == 4
    path.write_text('{"id": "a", "lable": "A"}\n')
    with pytest.raises(KgError, match="unknown field `lable`"):
        load([path])
