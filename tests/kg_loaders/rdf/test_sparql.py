"""SPARQL over a stored graph: the standard's answers, within limits, and nothing from elsewhere."""

from __future__ import annotations

import io
import random
import socket
from typing import Any

import pyoxigraph as ox
import pytest

from kg_loaders import KgError, KnowledgeGraph, Text, TextKind, Triple, atlas, graph_from_records
from kg_loaders.errors import QueryError
from kg_loaders.rdf import query_process, sparql
from kg_loaders.rdf.query_patterns import reading_of
from kg_loaders.rdf.query_words import words_of
from kg_loaders.rdf.rdflib_graph import to_rdflib
from kg_loaders.rdf.sparql import PREFIXES, QueryLimits, answer, query
from kg_loaders.rdf.statement_lines import statement_lines

RECORDS = [
    Triple("Q90", "P17", "Q142"), Triple("Q90", "P31", "a city"), Triple("http://x/a", "P17", "Q2"),
    Triple("Q142", "P17", "Q142"), Triple("Q1", "P131", "Q2"), Triple("Q2", "P131", "Q3"),
    Triple("Q3", "P131", "Q1"), Triple("Q1", "P31", "Q5"), Triple("http://[", "P17", "urn:kept:Q1"),
    Text("Q90", TextKind.LABEL, "Paris", "en"), Text("Q90", TextKind.ALIAS, "Lutetia", "", 4),
    Text("Q90", TextKind.TYPE, "Q515"), Text("Q142", TextKind.DESCRIPTION, "état", "fr"),
    Text("Q1", TextKind.LABEL, 'two\tcells\nand "lines"\\', "en_US"),
    Text("P17", TextKind.LABEL, "country", "en", 0, True),
]  # fmt: skip
GRAPH = graph_from_records(RECORDS)


def rows(text: str, graph: KnowledgeGraph = GRAPH) -> list[tuple[str, ...]]:
    """The rows of an answer, shortened and sorted."""
    lines = answer(graph, text).data.decode().splitlines()[1:]
    cells = (line.replace("<urn:kept:", "").replace(">", "").split("\t") for line in lines)
    return sorted(tuple(row) for row in cells)


def test_statements_are_those_of_to_rdflib() -> None:
    data = b"".join(statement_lines(GRAPH))
    ours = {str(quad.triple) for quad in ox.parse(data, ox.RdfFormat.N_TRIPLES)}
    text = to_rdflib(GRAPH).serialize(format="nt", encoding="utf-8")
    theirs = {str(quad.triple) for quad in ox.parse(text, ox.RdfFormat.N_TRIPLES)}
    assert ours == theirs
    assert len(ours) == len(RECORDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VALUES ?s { kg:Q1 kg:Q4 kg:Q99 } OPTIONAL { ?s kg:P31 ?t }",
         [("Q1", "Q5"), ("Q4", ""), ("Q99", "")]),
        ("BIND(kg:Q4 AS ?s) OPTIONAL { ?s kg:P31 ?t }", [("Q4", "")]),
        ("kg:Q1 kg:P131* ?x", [("Q1",), ("Q2",), ("Q3",)]),
        ("kg:Q1 kg:P131+ ?x", [("Q1",), ("Q2",), ("Q3",)]),
        ("kg:Q99 kg:P131* ?x", [("Q99",)]),
        ("kg:Q99 kg:P131? ?x", [("Q99",)]),
        ("kg:Q99 kg:P131+ ?x", []),
        ("kg:Q90 kg:P17/kg:P17* ?x", [("Q142",)]),
        ("?x !(^kg:P17) kg:Q90 FILTER isIRI(?x)", [("Q515",), ("a%20city",)]),
        ("kg:Q5 !(^kg:P17) ?x", [("Q1",)]),
        ("GRAPH ?g { ?s kg:P31 ?o }", []),
    ],
)  # fmt: skip
def test_answers_of_the_standard(text: str, expected: list[tuple[str, ...]]) -> None:
    assert rows(f"SELECT * {{ {text} }}") == expected


def test_columns_and_cells() -> None:
    text = "SELECT * { ?s kg:P31 ?b . OPTIONAL { ?s rdfs:label ?k } }"
    answers = {answer(GRAPH, text).data for _ in range(3)}
    assert len(answers) == 1
    lines = answers.pop().decode().split("\n")
    assert lines[0] == "?b\t?k\t?s"
    assert '"two\\tcells\\nand \\"lines\\"\\\\"@en-us' in {
        line.split("\t")[1] for line in lines[1:3]
    }


def test_kinds_of_queries() -> None:
    assert answer(GRAPH, "ASK { kg:Q90 a kg:Q515 }").is_true
    assert not answer(GRAPH, "ASK { kg:Q90 a kg:Q1 }").is_true
    twice = answer(GRAPH, "CONSTRUCT { kg:x kg:y kg:z } WHERE { ?s kg:P17 ?o }")
    assert twice.data == b"<urn:kept:x> <urn:kept:y> <urn:kept:z> .\n", "a graph is a set"
    assert len(query(GRAPH, "DESCRIBE kg:Q90").graph) == 5
    assert query(GRAPH, "ASK { kg:Q90 ?p ?o }").askAnswer is True
    assert b'"bindings":[{' in answer(GRAPH, "SELECT ?p { kg:Q90 ?p ?o }").json()
    with pytest.raises(QueryError, match="the answer is a graph"):
        twice.json()


def test_a_query_about_the_atlas() -> None:
    actual = query(atlas.graph(), "SELECT ?name { kg:Q90 kg:P17 ?c . ?c rdfs:label ?name }")
    assert "France" in {str(row[0]) for row in actual}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT", "not a SPARQL query: line 1"),
        ("SELECT ?x { ?x wdt:P31 ?y }", "a prefix is not declared; known are kg:"),
        ("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", "not a SPARQL query but an update"),
        ("SELECT ?x { SERVICE <http://x/> { ?x ?y ?z } }", "SERVICE queries another endpoint"),
        (
            "SELECT ?x {?x ?y ?z .SERVICE<http://x/>{ ?x ?y ?z } }",
            "SERVICE queries another endpoint",
        ),
        (
            r"SELECT ?x { \u0053ERVICE <http://x/> { ?x ?y ?z } }",
            "SERVICE queries another endpoint",
        ),
        ("SELECT ?x FROM <http://x/> { ?x ?y ?z }", "FROM queries another endpoint"),
        ("SELECT ?x { ?x ?y ?z FILTER EXISTS { SERVICE ?x { ?x ?y ?z } } }", "SERVICE"),
        ("SELECT (<urn:f>(1) AS ?x) {}", "cannot be answered: The custom function"),
        ("SELECT * { FILTER(" + "(" * 50_000 + "1" + ")" * 50_000 + ") }", "nest too deeply"),
        ("SELECT * { kg:Q99 kg:P131* ?x . ?x ?p ?o }", "is not in the graph"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        query(GRAPH, text)


def test_words_of_names_and_texts_are_no_words_of_the_query() -> None:
    text = 'SELECT ?service { ?from kg:SERVICE \'FROM\' , """SERVICE""" , <u:FROM> } # SERVICE'
    assert list(words_of(text)) == ["SELECT"]
    assert list(words_of(r"SELECT * { ?s kg:it\'s ?o . SERVICE ?o {} }")) == ["SELECT", "SERVICE"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"\u0053ERVICE", ["SERVICE"]), (r"\U00000053ERVICE", ["SERVICE"]),
        (r"\U0010FFFF A", ["A"]), (r"\U00110000 A", ["U00110000", "A"]),
        (r"\u0000 A", ["A"]),
    ],
)  # fmt: skip
def test_words_whose_characters_are_numbers_are_read(text: str, words: list[str]) -> None:
    """Else a word that is refused could be written so; a number too large is not a character."""
    assert list(words_of(text)) == words


def test_the_process_reaches_no_other_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql, "_refuse_other_places", lambda text: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        answer(GRAPH, f"SELECT * {{ ?s kg:P31 ?o SERVICE SILENT <{url}> {{ ?s ?p ?o }} }}")
        with pytest.raises(TimeoutError):
            server.accept()


CROSS = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o . ?q ?r ?s . ?t ?u ?v . ?w ?x ?y }"


@pytest.mark.parametrize(
    ("text", "limits", "words"),
    [
        (f"SELECT (COUNT(*) AS ?z) {CROSS}", QueryLimits(seconds=1), "more than 1 seconds"),
        (f"SELECT * {CROSS}", QueryLimits(rows=10), "more than 10 rows; add LIMIT"),
        (f"CONSTRUCT {{ ?a ?b ?c }} {CROSS}", QueryLimits(rows=2), "more than 2 rows"),
        (f"SELECT * {CROSS} ORDER BY ?a", QueryLimits(memory_bytes=400 << 20), "bytes of memory"),
        (f"SELECT * {CROSS}", QueryLimits(answer_bytes=99), "answer of more than 99 bytes"),
    ],
)
def test_limits(text: str, limits: QueryLimits, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        answer(GRAPH, text, limits=limits)
    with pytest.raises(QueryError, match="give a number above 0"):
        QueryLimits(rows=0)


def test_a_name_that_looks_like_the_iri_of_another() -> None:
    graph = KnowledgeGraph.from_triples(
        [("urn:kept:a", "r", "b"), ("b c", "r", "d"), ("a", "r", "e")]
    )
    assert rows("SELECT ?o { <urn:kept:a> kg:r ?o }", graph) == [("b",), ("e",)]
    assert rows("SELECT ?o { <urn:kept:b%20c> kg:r ?o }", graph) == [("d",)]
    assert issubclass(QueryError, KgError)


# ---- what is loaded ------------------------------------------------------------------------------
NODES = ("kg:Q1", "kg:Q2", "kg:Q90", "kg:Q142", "kg:Q99", "?s", "?o", "?x")
PATHS = (
    "kg:P17", "kg:P131", "kg:P131*", "kg:P131+", "kg:P17?", "^kg:P131", "(kg:P17|kg:P31)",
    "kg:P131/kg:P31", "kg:P131*/kg:P31", "(kg:P17|^kg:P131)*", "!(kg:P17)", "?p", "rdfs:label", "a",
)  # fmt: skip


def generated(random: random.Random, depth: int = 2) -> str:
    """A group of patterns."""
    parts = [
        f"{random.choice(NODES)} {random.choice(PATHS)} {random.choice(NODES)} ."
        for _ in range(random.randint(1, 2))
    ]
    if depth:
        inner = generated(random, depth - 1)
        parts.append(random.choice((
            f"OPTIONAL {{ {inner} }}", f"{{ {inner} }} UNION {{ {generated(random, 0)} }}",
            f"MINUS {{ {inner} }}", f"FILTER NOT EXISTS {{ {inner} }}", "FILTER(isIRI(?o))",
            "VALUES ?x { kg:Q1 UNDEF kg:Q99 }", f"{{ SELECT DISTINCT ?s {{ {inner} }} }}", "",
        )))  # fmt: skip
        random.shuffle(parts)
    return " ".join(parts)


def _rows_of(lines: bytes, text: str) -> list[Any]:
    store = ox.Store()
    store.bulk_load(lines, ox.RdfFormat.N_TRIPLES, lenient=True)
    task = {"query": text, "prefixes": PREFIXES, "rows": 100_000, "answer_bytes": 1 << 28}
    sink = io.BytesIO()
    query_process.answer(store, task, sink)
    return sorted(sink.getvalue().splitlines())


def test_the_part_that_is_loaded_gives_the_answers_of_the_whole() -> None:
    whole, n_smaller = b"".join(statement_lines(GRAPH)), 0
    for seed in range(400):
        text = f"SELECT * {{ {generated(random.Random(seed))} }}"
        reading = reading_of(text, PREFIXES)
        part = b"".join(statement_lines(GRAPH, reading.patterns))
        n_smaller += len(part) < len(whole)
        assert _rows_of(part, text) == _rows_of(whole, text), text
    assert n_smaller > 50, "the test saw parts"
