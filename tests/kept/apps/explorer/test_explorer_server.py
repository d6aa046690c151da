"""The server refuses whatever is not its own page: over loopback, with sockets of the test."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.opening import open_explorer
from kept.apps.explorer.server import CALLS, ExplorerServer, Limits
from kg_loaders import Text, TextKind, Triple, graph_from_records
from tests.kept.hostile_world import HOSTILE, TEXT, served

JSON = {"Content-Type": "application/json"}


def request(
    server: ExplorerServer,
    path: str,
    body: bytes | str | None = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """One request to a path below the token, or to any path that begins with "/"."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    whole = path if path.startswith("/") else f"/{server.token}/{path}"
    way = method or ("GET" if body is None else "POST")
    connection.request(way, whole, body, {**(JSON if body is not None else {}), **(headers or {})})
    reply = connection.getresponse()
    answer = reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()
    connection.close()
    return answer


def question(**fields: Any) -> str:
    return json.dumps({"text": TEXT, **fields})


# ---- what is answered ------------------------------------------------------
def test_the_page_and_every_call(server: ExplorerServer) -> None:
    status, headers, page = request(server, "")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert server.token.encode() not in page
    for name in ("page.css", "page.js"):
        assert request(server, name)[0] == 200
    bodies = {"names": json.dumps({"name": "Paris"}), "read": question(reader="kbert")}
    bodies["correct"] = question(choices=[{"start": 24, "end": 29, "entity": "Q1"}])
    bodies["what-if"] = question(
        reader="kbert", changes=[{"do": "delete", "fact": ["Q1", "P1", "Q2"]}]
    )
    for name in CALLS:
        status, headers, body = request(server, f"call/{name}", bodies.get(name, question()))
        assert status == (422 if name == "used" else 200), (name, body)
        assert headers["content-type"].startswith("application/json")


def test_labels_reach_the_page_as_text(server: ExplorerServer) -> None:
    page = request(server, "")[2].decode()
    data = page.split('<script type="application/json" id="data">')[1]
    assert "<" not in data.split("</script>")[0]
    svg = json.loads(request(server, "call/read", question(reader="colake"))[2])["svg"]
    for label in HOSTILE[:4]:
        assert label not in svg
    assert "&lt;img" in svg


# ---- who is kept out -------------------------------------------------------
@pytest.mark.parametrize(
    "path", ["/", "/x/", "/x/call/link", "//", "/%2e%2e/", "/" + "a" * 43 + "/", "/%C3%A9/"]
)
def test_without_the_token_there_is_nothing(server: ExplorerServer, path: str) -> None:
    for body in (None, question()):
        assert request(server, path, body)[0] == 403


def test_a_path_of_bytes_is_no_token(server: ExplorerServer) -> None:
    host = f"Host: 127.0.0.1:{server.server_port}\r\n\r\n".encode()
    assert b" 403 " in exchange(server, b"GET /\xff\xfe/ HTTP/1.1\r\n" + host).split(b"\r\n")[0]


def test_half_a_token_is_none(server: ExplorerServer) -> None:
    for token in (
        server.token[:-1],
        server.token + "x",
        server.token.lower(),
        server.token + "%00",
    ):
        assert request(server, f"/{token}/")[0] == 403
    assert request(server, f"/{server.token}")[0] == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "[::1]:{port}"],
)
def test_another_host_is_not_answered(server: ExplorerServer, host: str) -> None:
    headers = {"Host": host.format(port=server.server_port)}
    for body in (None, question()):
        status, _, body_ = request(server, "", body, headers)
        assert status == 421
        assert b"Explore" not in body_


def test_two_hosts_or_none_are_not_answered(server: ExplorerServer) -> None:
    port = server.server_port
    for hosts in ("", f"Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"):
        request = f"GET /{server.token}/ HTTP/1.1\r\n{hosts}\r\n"
        assert b" 421 " in exchange(server, request.encode()).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
     {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_another_page_may_not_ask(server: ExplorerServer, headers: dict[str, str]) -> None:
    assert request(server, "call/link", question(), headers)[0] == 403


def test_a_form_of_another_page_is_no_question(server: ExplorerServer) -> None:
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ):
        assert request(server, "call/link", question(), {"Content-Type": kind})[0] == 415


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "page.css/../../server.py", "server.py",
     "./page.css", "page.js%00", "call/../page.css", "call/link/", "call/_graph", "call/__init__",
     "call/about"],
)  # fmt: skip
def test_no_path_names_a_file_or_a_method(server: ExplorerServer, path: str) -> None:
    assert request(server, path)[0] == 404
    assert request(server, path, question())[0] == 404


@pytest.mark.parametrize(
    "method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "HEAD", "CONNECT"]
)
def test_other_methods_are_not_there(server: ExplorerServer, method: str) -> None:
    assert request(server, "", method=method)[0] == 501


# ---- what is too much, or nonsense -----------------------------------------
@pytest.mark.parametrize(
    "body",
    ["", "null", "[]", "{", "{}", '{"text": ""}', '{"text": 1}', "[" * 30_000, question(more=1),
     question(choices=[{"start": -1, "end": 2, "entity": None}]),
     '{"text": "a\ud800"}'.encode("utf-8", "surrogatepass"), question(changes=[{"do": "drop"}]),
     '{"text": "' + "x" * 2001 + '"}', b"\xff\xfe", '{"text": NaN}'],
)  # fmt: skip
def test_nonsense_is_one_message(server: ExplorerServer, body: str | bytes) -> None:
    status, _, answer = request(server, "call/link", body)
    assert status == 422
    assert "not what the page sends" in json.loads(answer)["error"]


def test_hostile_texts_are_answered_as_text(server: ExplorerServer) -> None:
    for text in (
        *HOSTILE,
        "\ud83d\ude00 Paris",
        "a" * 2000,
        "Paris " * 333,
        "\u0300" * 500,
        "\x00",
    ):
        for name in ("link", "read"):
            status, _, answer = request(
                server, f"call/{name}", json.dumps({"text": text, "reader": "kbert"})
            )
            assert status == 200, (text, answer)


def test_a_body_that_is_too_long_is_not_read(explorer: Explorer) -> None:
    with served(explorer, limits=Limits(body_bytes=100)) as server:
        assert request(server, "call/link", json.dumps({"text": "x" * 200}))[0] == 413
        for length in ("99999999999999999999", "101"):
            head = f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
            assert post(server, head, b"").startswith(b"HTTP/1.1 413")
        for head in ("", "Content-Length: -1\r\n", "Content-Length: x\r\n",
                     "Content-Length: \u00b2\r\n",
                     "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"):  # fmt: skip
            assert post(server, "Content-Type: application/json\r\n" + head, b"").startswith(
                b"HTTP/1.1 411"
            )


def test_an_answer_that_is_too_long_is_not_sent(explorer: Explorer) -> None:
    with served(explorer, limits=Limits(result_bytes=1000)) as server:
        status, _, answer = request(server, "call/read", question(reader="colake"))
        assert status == 422
        assert "more than 1,000" in json.loads(answer)["error"]


def test_long_lines_and_many_headers_are_refused(server: ExplorerServer) -> None:
    host = f"Host: 127.0.0.1:{server.server_port}\r\n"
    long_path = f"GET /{'a' * 70_000} HTTP/1.1\r\n{host}\r\n".encode()
    assert b" 414 " in exchange(server, long_path).split(b"\r\n")[0]
    many = "".join(f"X-{i}: 1\r\n" for i in range(200))
    answer = exchange(server, f"GET /{server.token}/ HTTP/1.1\r\n{host}{many}\r\n".encode())
    assert b" 431 " in answer.split(b"\r\n")[0]
    assert request(server, "")[0] == 200


# ---- who is slow, or many --------------------------------------------------
def test_a_slow_client_is_left(explorer: Explorer) -> None:
    with served(explorer, limits=Limits(receive_seconds=0.5)) as server:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
            try:
                while time.monotonic() - began < 8:  # a byte now and then, for ever
                    client.sendall(b"G")
                    time.sleep(0.1)
                pytest.fail("the server went on listening")
            except OSError:
                assert time.monotonic() - began < 5
        assert request(server, "")[0] == 200


def test_a_body_that_does_not_come_ends_the_connection(explorer: Explorer) -> None:
    with served(explorer, limits=Limits(receive_seconds=0.5)) as server:
        head = "Content-Type: application/json\r\nContent-Length: 50\r\n"
        assert post(server, head, b'{"te').startswith(b"HTTP/1.1 408")
        assert request(server, "")[0] == 200


def test_connections_that_say_nothing_do_not_keep_others_out(explorer: Explorer) -> None:
    limits = Limits(receive_seconds=0.5, n_connections=3)
    with served(explorer, limits=limits) as server:
        address = ("127.0.0.1", server.server_port)
        silent = [socket.create_connection(address, timeout=10) for _ in range(12)]
        time.sleep(1.5)
        assert request(server, "")[0] == 200
        for client in silent:
            client.close()


def test_a_question_that_takes_too_long_is_told_and_others_wait(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(Explorer, "link", lambda *_: release.wait(20) or {})
    limits = Limits(answer_seconds=0.3, n_waiting=1)
    with served(explorer, limits=limits) as server:
        assert request(server, "call/link", question())[0] == 504
        assert request(server, "call/names", '{"name": "Paris"}')[0] == 503
        release.set()
        end = time.monotonic() + 5
        while request(server, "call/names", '{"name": "Paris"}')[0] != 200:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_fault_inside_is_one_message(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("at <b>home</b>")

    monkeypatch.setattr(Explorer, "link", fails)
    with served(explorer) as server:
        status, headers, answer = request(server, "call/link", question())
        assert (status, headers["content-type"]) == (500, "application/json; charset=utf-8")
        assert "ZeroDivisionError: at <b>home</b>" in json.loads(answer)["error"]


def test_it_listens_on_loopback_alone(server: ExplorerServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    assert len(server.token) >= 43


# ---- sockets ---------------------------------------------------------------
def post(server: ExplorerServer, head: str, body: bytes) -> bytes:
    """A question as bytes, with headers of the test's own."""
    line = f"POST /{server.token}/call/link HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
    return exchange(server, (line + head + "\r\n").encode("latin-1") + body)


def exchange(server: ExplorerServer, request: bytes) -> bytes:
    """All that comes back for some bytes."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as client:
        parts = []
        try:
            client.sendall(request)
            while part := client.recv(1 << 16):
                parts.append(part)
        except ConnectionResetError:
            assert parts, "nothing came back"
        return b"".join(parts)


# ---- labels without measure ------------------------------------------------
@pytest.mark.parametrize("letter", ["W", "i", "\u0301", "\u4e2d", "<"])
def test_a_label_without_measure_is_cut(letter: str, hostile: Path, tmp_path: Path) -> None:
    long = letter * 300_000
    records = [Triple("Q1", "P1", "Q2"), Triple("Q1", "P1", "Q3")]
    names = {"Q1": "Paris", "Q2": long, "Q3": "Seine"}
    texts = [Text(entity, TextKind.LABEL, name) for entity, name in names.items()]
    described = Text("Q1", TextKind.DESCRIPTION, long)
    graph_from_records([*records, *texts, described]).save(tmp_path / "kg")
    explorer = open_explorer(tmp_path / "kg", (), tokenizer=str(hostile / "tokenizer"))
    with served(explorer, ["Paris."]) as server:
        assert len(request(server, "")[2]) < 100_000
        for name in ("link", "read"):
            for reader in ("kbert", "knowbert", "colake"):
                began = time.monotonic()
                body = json.dumps({"text": "Paris and Seine.", "reader": reader})
                status, _, answer = request(server, f"call/{name}", body)
                assert (status, len(answer) < 9_000_000) == (200, True), answer[:200]
                assert time.monotonic() - began < 20


# ---- the command -----------------------------------------------------------
@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(hostile: Path, tmp_path: Path) -> None:
    line = ["explore", "--kg", str(hostile / "kg"), "--tokenizer", str(hostile / "tokenizer")]
    with subprocess.Popen(
        [sys.executable, "-m", "kept", *line, "--text", TEXT, "--gold", str(tmp_path / "gold")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as command:  # fmt: skip
        assert command.stdout is not None
        url = command.stdout.readline().strip()
        with urllib.request.urlopen(url, timeout=20) as page:
            assert b"kept explore" in page.read()
        command.terminate()  # a job in the background may have been started deaf to Ctrl-C
        try:
            assert command.wait(60) == 0
        finally:
            command.kill()
        assert "ended" in command.stdout.read()
