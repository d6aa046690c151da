"""A graph from a SPARQL endpoint on the loopback interface, which pyoxigraph answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from kept.cli import app
from kg_loaders import KnowledgeGraph, SourceError, load
from kg_loaders.errors import BudgetError, QueryError
from kg_loaders.rdf.endpoint import Endpoint, fetch, remove_pages, require_pages
from kg_loaders.reading.budget import ReaderBudget

TURTLE = """
@prefix w: <http://w/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
w:Paris w:country w:France ; rdfs:label "Paris"@en , "París"@es .
w:Lyon w:country w:France ; rdfs:label "Lyon \\"the second\\"\\n"@en .
w:Rome w:country w:Italy . w:country rdfs:label "country"@en .
w:Nowhere w:near [] .
"""
QUERY = "SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?p ?o"
N_ROWS = 8


class Server(ThreadingHTTPServer):
    """Answers queries; `most_rows` caps a page, `faults` are answered first, `asked` is heard."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = ox.Store()
        self.store.load(TURTLE.encode(), ox.RdfFormat.TURTLE)
        self.asked, self.agents = list[str](), list[str]()
        self.faults = list[tuple[int, dict[str, str], bytes]]()
        self.most_rows = 1000

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/sparql"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        query = parse_qs(body.decode())["query"][0]
        self.server.asked.append(query)
        self.server.agents.append(self.headers["User-Agent"])
        if self.server.faults:
            code, headers, content = self.server.faults.pop(0)
            self._reply(code, headers, content)
            return
        limit = min(int(re.findall(r"LIMIT (\d+)", query)[-1]), self.server.most_rows)
        query = re.sub(r"LIMIT \d+", f"LIMIT {limit}", query)
        found = self.server.store.query(query)
        assert isinstance(found, ox.QuerySolutions)
        content = found.serialize(format=ox.QueryResultsFormat.JSON)
        assert content is not None
        self._reply(200, {"Content-Type": "application/sparql-results+json"}, content)

    def _reply(self, code: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(code)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def test_it_is_the_graph_of_the_same_triples_in_a_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.ttl").write_text(TURTLE)
    expected, _ = load([tmp_path / "x.ttl"])
    (tmp_path / "q.rq").write_text(QUERY)
    waited = ["--page-rows", "3", "--pause", "0", "--contact", "me@example.org"]
    command = ["kg", "build", "--sparql", server.url, "--query", str(tmp_path / "q.rq")]
    done = CliRunner().invoke(app, [*command, *waited, "-o", str(tmp_path / "kg")])
    assert done.exit_code == 0, done.output
    graph = KnowledgeGraph.open(tmp_path / "kg")
    assert graph.content_hash == expected.content_hash
    assert list(graph.manifest.sources) == ["127.0.0.1.nt"]
    assert [q.split("LIMIT ")[1] for q in server.asked] == [
        f"3 OFFSET {offset}" for offset in (0, 3, 6, N_ROWS)
    ]
    assert set(server.agents) == {"kept (me@example.org)"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kg", "q.rq", "x.ttl"]


def test_a_server_may_answer_with_fewer_rows(server: Server, tmp_path: Path) -> None:
    whole = fetch(Endpoint(server.url), QUERY, tmp_path / "whole", sleep=lambda _: None)
    server.most_rows = 2
    capped = fetch(Endpoint(server.url), QUERY, tmp_path / "capped", sleep=lambda _: None)
    assert capped.read_bytes() == whole.read_bytes()
    assert len(whole.read_text().splitlines()) == N_ROWS
    remove_pages(tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_a_reading_that_was_cut_goes_on_behind_the_last_page(
    server: Server, tmp_path: Path
) -> None:
    calm = Endpoint(server.url, page_rows=3, pause=0)
    whole = fetch(calm, QUERY, tmp_path / "whole", sleep=lambda _: None)
    server.asked.clear()

    def cut(n_rows: int) -> None:
        if n_rows == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(calm, QUERY, tmp_path / "cut", tell=cut, sleep=lambda _: None)
    n_asked = len(server.asked)
    resumed = fetch(calm, QUERY, tmp_path / "cut", sleep=lambda _: None)
    assert resumed.read_bytes() == whole.read_bytes()
    assert "OFFSET 6" in server.asked[n_asked]
    with pytest.raises(SourceError, match="to another query; remove it, or name another folder"):
        fetch(calm, QUERY + " ", tmp_path / "cut")


def test_a_busy_server_is_asked_again_after_the_time_it_names(
    server: Server, tmp_path: Path
) -> None:
    server.faults = [
        (429, {"Retry-After": "7"}, b"slow down"),
        (503, {"Retry-After": "99999999"}, b""),
        (500, {}, b""),
        (200, {"Content-Length": "500"}, b"{"),  # cut
    ]
    waits: list[float] = []

    fetch(Endpoint(server.url, pause=0.5), QUERY, tmp_path / "pages", sleep=waits.append)
    assert waits == [7.0, 300.0, 4.0, 8.0, 0.5]
    server.faults = [(503, {}, b"")] * 99
    with pytest.raises(SourceError, match=r"did not answer 6 times .*503.*goes on"):
        fetch(Endpoint(server.url), QUERY, tmp_path / "other", sleep=lambda _: None)


def test_faults_of_the_endpoint_are_told(server: Server, tmp_path: Path) -> None:
    for fault, error, words in (
        ((400, {}, b"Parse error at line 1"), SourceError, "refused the query: 400.*Parse error"),
        ((200, {}, b"<html>"), SourceError, "no SPARQL results in JSON"),
        ((200, {}, b'{"head":{},"boolean":true}'), QueryError, "three variables"),
    ):
        server.faults = [fault]  # type: ignore[list-item]
        with pytest.raises(error, match=words):
            fetch(Endpoint(server.url), QUERY, tmp_path / "pages", sleep=lambda _: None)
    small = ReaderBudget(document_bytes=100)
    with pytest.raises(BudgetError, match="document_bytes"):
        fetch(Endpoint(server.url), QUERY, tmp_path / "pages", budget=small)
    swapped = "SELECT ?o ?p ?s { ?s ?p ?o FILTER isLiteral(?o) } ORDER BY ?s ?p ?o"
    with pytest.raises(QueryError, match=r"row 1 is no statement: .*select a subject"):
        fetch(Endpoint(server.url), swapped, tmp_path / "swapped")
    for url in ("file:///etc/passwd", "ftp://x/", "//x", "http://"):
        with pytest.raises(SourceError, match="is no address of an endpoint"):
            Endpoint(url)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o } ORDER BY ?s", "must be a SELECT"),
        ("SELECT ?s ?p ?o { ?s ?p ?o }", "no ORDER BY"),
        ("SELECT ?s ?p ?o { { SELECT * { ?s ?p ?o } ORDER BY ?s LIMIT 9 } }", "no ORDER BY"),
        ("SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s LIMIT 5", "leave LIMIT out"),
        ("SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s VALUES ?s { <u:a> }", "leave VALUES out"),
        ("SELECT ?s ?p ?o { ?s ?p ?o ORDER BY ?s", "braces"),
    ],
)
def test_what_cannot_be_asked_in_pages_is_refused(query: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        require_pages(query)


def test_words_in_names_texts_and_comments_are_no_words_of_the_query() -> None:
    require_pages(
        "PREFIX w: <http://w/LIMIT#> # LIMIT 5 {\nPREFIX x: <x:>\nselect ?s ?p ?o where "
        '{ ?s ?p ?o filter(?o != "} LIMIT \\" 3" && ?s != <http://w/#OFFSET>) } order  by ?s'
    )


def test_an_endpoint_needs_a_query_and_an_output_that_may_be_written(
    server: Server, tmp_path: Path
) -> None:
    out = str(tmp_path / "kg")
    alone = CliRunner().invoke(app, ["kg", "build", "--sparql", server.url, "-o", out])
    assert "an endpoint needs a query" in alone.output
    nothing = CliRunner().invoke(app, ["kg", "build", "-o", out])
    assert "nothing to read" in nothing.output
    (tmp_path / "kg").mkdir()
    (tmp_path / "kg" / "mine").touch()
    (tmp_path / "q.rq").write_text(QUERY)
    asked = ["kg", "build", "--sparql", server.url, "--query", str(tmp_path / "q.rq"), "-o", out]
    assert CliRunner().invoke(app, asked).exit_code == 1
    assert server.asked == []
