"""A graph from a SPARQL endpoint on the loopback interface, which pyoxigraph answers."""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kg_loaders import KnowledgeGraph, SourceError, load
from kg_loaders.budget import ReaderBudget
from kg_loaders.errors import BudgetError, QueryError
from kg_loaders.rdf.endpoint import Endpoint, fetch, remove_pages, require_pages

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
        self.queries, self.agents = list[str](), list[str]()
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
        self.server.queries.append(query)
        self.server.agents.append(self.headers["User-Agent"])
        if self.server.faults:
            code, headers, content = self.server.faults.pop(0)
            self._reply(code, headers, content)
            return
        limit = min(int(re.findall(r"LIMIT (\d+)", query)[-1]), self.server.most_rows)
        query = re.sub(r"LIMIT \d+", f"LIMIT {limit}", query)
        result = self.server.store.query(query)
        assert isinstance(result, ox.QuerySolutions)
        content = result.serialize(format=ox.QueryResultsFormat.JSON)
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
    assert [q.split("LIMIT ")[1] for q in server.queries] == [
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
    server.queries.clear()

    def cut(n_rows: int) -> None:
        if n_rows == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(calm, QUERY, tmp_path / "cut", report=cut, sleep=lambda _: None)
    n_asked = len(server.queries)
    resumed = fetch(calm, QUERY, tmp_path / "cut", sleep=lambda _: None)
    assert resumed.read_bytes() == whole.read_bytes()
    assert "OFFSET 6" in server.queries[n_asked]
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
    with pytest.raises(QueryError, match=r"row 1 is not a statement: .*select a subject"):
        fetch(Endpoint(server.url), swapped, tmp_path / "swapped")
    for url in ("file:///etc/passwd", "ftp://x/", "//x", "http://"):
        with pytest.raises(SourceError, match="is not an address of an endpoint"):
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
    arguments = [
        "kg",
        "build",
        "--sparql",
        server.url,
        "--query",
        str(tmp_path / "q.rq"),
        "-o",
        out,
    ]
    assert CliRunner().invoke(app, arguments).exit_code == 1
    assert server.queries == []


# ---- servers that are broken or hostile ----------------------------------------------------------
def refused(server: Server, folder: Path, **how: Any) -> str:
    """The error, without any wait between tries."""
    options = {"page_rows": 3, "pause": 0, "answer_seconds": 0.5, **how}
    budget = options.pop("budget", None)
    with pytest.raises(SourceError) as error:
        fetch(Endpoint(server.url, **options), QUERY, folder, budget=budget, sleep=lambda _: None)
    assert str(error.value).isprintable()
    return str(error.value)


def page(*subjects: str) -> bytes:
    """An answer of a row per subject; a name that begins with _: is a blank node."""
    rows = [
        {
            "s": {"type": "bnode" if s.startswith("_:") else "uri", "value": s.removeprefix("_:")},
            "p": {"type": "uri", "value": "u:p"},
            "o": {"type": "literal", "value": "x"},
        }
        for s in subjects
    ]
    return json.dumps({"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": rows}}).encode()


@pytest.mark.parametrize(
    "pages",
    [
        [page("u:a", "u:b")] * 9,
        [page("u:a", "u:b"), page("u:b", "u:a")],
        [page("u:a"), page("u:b"), page("u:a")],
        [page("_:b0", "u:a"), page("_:b1", "u:a")],
    ],
)
def test_an_endpoint_that_ignores_offset_is_named(
    server: Server, tmp_path: Path, pages: list[bytes]
) -> None:
    server.faults = [(200, {}, content) for content in pages]
    message = refused(server, tmp_path / "pages")
    assert "rows again for OFFSET" in message
    assert "SELECT DISTINCT" in message
    assert len(server.queries) <= len(pages)


def test_an_endpoint_that_ignores_limit_is_named(server: Server, tmp_path: Path) -> None:
    server.faults = [(200, {}, page(*(f"u:{n}" for n in range(4))))]
    assert "sent more than the 3 rows of LIMIT" in refused(server, tmp_path / "pages")


def test_rows_without_end_are_bounded(server: Server, tmp_path: Path) -> None:
    server.faults = [(200, {}, page(f"u:{n}", f"u:{n}b")) for n in range(50)]
    message = refused(server, tmp_path / "pages", most_rows=10)
    assert "more than 10 rows; if you trust it, take more with --most-rows" in message
    assert len(server.queries) == 6


@pytest.mark.parametrize("code", [301, 302, 303])
def test_a_redirect_that_loses_the_query_is_named(
    server: Server, tmp_path: Path, code: int
) -> None:
    server.faults = [(code, {"Location": f"{server.url}2"}, b"")]
    message = refused(server, tmp_path / "pages")
    assert f"with {code}, which loses the query; name that address: --sparql {server.url}2" in (
        message
    )
    assert len(server.queries) == 1


@pytest.mark.parametrize("code", [307, 308])
def test_a_redirect_that_keeps_the_query_is_followed(
    server: Server, tmp_path: Path, code: int
) -> None:
    whole = fetch(Endpoint(server.url), QUERY, tmp_path / "whole", sleep=lambda _: None)
    server.faults = [(code, {"Location": f"{server.url}2"}, b"")]
    other = fetch(Endpoint(server.url), QUERY, tmp_path / "other", sleep=lambda _: None)
    assert other.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("code", "target"),
    [
        (307, "ftp://127.0.0.1/x"), (302, "ftp://127.0.0.1/x"), (307, "file:///etc/passwd"),
        (307, "gopher://a/"), (302, "data:text/plain,x"), (308, "javascript:1"),
        (307, ""), (302, "http://"), (307, "http://\x1b[31m/"),
    ],
)  # fmt: skip
def test_a_redirect_elsewhere_is_not_followed(
    server: Server, tmp_path: Path, code: int, target: str
) -> None:
    server.faults = [(code, {"Location": target}, b"")] * 20
    message = refused(server, tmp_path / "pages")
    assert re.search("redirect|refused the query: 30[278]|did not answer 6 times", message, re.I)


def test_redirects_in_a_circle_end(server: Server, tmp_path: Path) -> None:
    server.faults = [(307, {"Location": server.url}, b"")] * 50
    assert "refused the query: 307" in refused(server, tmp_path / "pages")
    assert len(server.queries) < 15


class Slow(socketserver.StreamRequestHandler):
    """Sends its text over and over, a little at a time, for as long as somebody listens."""

    start = b"HTTP/1.1 200 OK\r\nContent-Type: application/sparql-results+json\r\n\r\n"

    def handle(self) -> None:
        """Answer with what the server holds."""
        assert isinstance(self.server, Drip)
        with contextlib.suppress(OSError):
            self.wfile.write(self.server.start)
            for _ in range(1_000_000):
                self.wfile.write(self.server.more)
                self.wfile.flush()
                time.sleep(self.server.pause)


class Drip(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, start: bytes, more: bytes, pause: float) -> None:
        super().__init__(("127.0.0.1", 0), Slow)
        self.start, self.more, self.pause = start, more, pause
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"


@pytest.mark.parametrize(
    ("start", "more", "pause", "words"),
    [
        (Slow.start, b" ", 0.02, "did not send a whole answer in 0.5 seconds.*--page-rows"),
        (b"HTTP/1.1 200 OK\r\n", b"X", 0.02, "did not send a whole answer"),
        (b"", b"H", 0.02, "did not send a whole answer"),
        (b"HTTP/1.1 400 No\r\n\r\n", b"x", 0.02, "refused the query: 400"),
        (Slow.start, b"[" * 65536, 0, "the limit document_bytes is 1000000"),
        (Slow.start.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"),
         b"10000\r\n" + b" " * 65536 + b"\r\n", 0, "the limit document_bytes is 1000000"),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 999, 0, "did not answer 6 times.*headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9x\r\n\r\n", b" ", 0.02, "a whole answer in"),
        (b"\x1b[31mno http\r\n", b"\x1b", 0, "did not answer 6 times"),
    ],
)  # fmt: skip
def test_drips_and_floods_are_bounded(
    tmp_path: Path, start: bytes, more: bytes, pause: float, words: str
) -> None:
    with Drip(start, more, pause) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        started = time.monotonic()
        budget = ReaderBudget(document_bytes=1_000_000)
        message = refused(running, tmp_path / "pages", budget=budget)  # type: ignore[arg-type]
        assert re.search(words, message)
        assert time.monotonic() - started < 20
        running.shutdown()
