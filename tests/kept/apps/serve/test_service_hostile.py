"""Hostile requests: none is answered as if it were a question, none harms the next."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kept.apps.serve.limits import MAX_TEXT, MAX_TEXTS, Limits
from kept.apps.serve.server import require_address
from kept.apps.serve.service import Service
from kept.errors import ConfigError
from tests.kept.served import TOKEN, running

GOOD = {"texts": ["Paris"]}


@pytest.fixture(autouse=True)
def _answers_afterwards(served: Any) -> Iterator[None]:
    yield
    assert served.request("/link", GOOD)[0] == 200


@pytest.mark.parametrize(
    "path", ["/link", "/predict", "/ask", "/facts", "/metrics", "/nothing", "/docs/../link", "//"]
)
@pytest.mark.parametrize(
    "authorization", ["", "Bearer ", f"bearer {TOKEN}", f"Bearer {TOKEN}x", TOKEN]
)
def test_without_the_token_there_is_nothing(served: Any, path: str, authorization: str) -> None:
    status, headers, answer = served.request(path, GOOD, Authorization=authorization)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in answer["error"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", ""])
def test_another_host_is_not_answered(served: Any, host: str) -> None:
    assert served.request("/link", GOOD, Host=host)[0] in (400, 421)


def test_a_page_of_a_browser_may_not_ask(served: Any) -> None:
    assert served.request("/link", GOOD, Origin="http://evil.example")[0] == 403
    assert served.request("/link", GOOD, Sec_Fetch_Site="cross-site")[0] == 403
    assert served.request("/link", GOOD, Content_Type="text/plain")[0] == 415
    _, headers, _ = served.request("/link", GOOD)
    assert not [name for name in headers if name.startswith("access-control")]
    assert served.request("/link", method="OPTIONS")[0] == 405


FAULTY: list[Any] = [
    {}, {"texts": []}, {"texts": [""]}, {"texts": ["x" * (MAX_TEXT + 1)]},
    {"texts": ["x"] * (MAX_TEXTS + 1)}, {"texts": "Paris"}, {"texts": [1]}, {"texts": [None]},
    {"texts": ["x"], "more": 1}, [], None, "Paris", 1e999,
]  # fmt: skip


@pytest.mark.parametrize("question", FAULTY, ids=range(len(FAULTY)))
def test_faulty_questions_are_told_without_repeating_them(served: Any, question: Any) -> None:
    status, _, answer = served.request("/link", raw=json.dumps(question).encode())
    assert status == 422
    assert len(answer["error"]) < 1000


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b"[" * 15_000, b'{"texts": ["\\ud800"]}', b'{"texts": [NaN]}']
)
def test_what_is_no_json_is_told(served: Any, raw: bytes) -> None:
    status, _, answer = served.request("/link", raw=raw)
    assert status in (400, 422), answer


FAULTY_NEW: list[tuple[str, Any]] = [
    ("/predict", {}), ("/predict", {"items": []}), ("/predict", {"items": [{}], "run": "types"}),
    ("/predict", {"items": [{"text": "x", "label": "y"}]}),
    ("/predict", {"items": [{"text": "x" * (MAX_TEXT + 1)}], "run": "classes"}),
    ("/predict", {"items": ["x"], "run": "classes"}), ("/predict", {"items": "x"}),
    ("/predict", {"items": [{"text": "x"}], "run": "classes", "stream": "maybe"}),
    ("/predict", {"items": [{"text": "x"}], "run": "../classes"}),
    ("/predict", {"items": [{"text": "x", "targets": [[0, 10**30]]}], "run": "types"}),
    ("/predict", {"items": [{"text": "x", "targets": [[1, 0]]}], "run": "types"}),
    ("/predict", {"items": [{"text": "x", "start": -1, "end": 1}], "run": "types"}),
    ("/predict", {"items": [{"tokens": []}], "run": "classes"}),
    ("/ask", {}), ("/ask", {"questions": []}), ("/ask", {"questions": [""]}),
    ("/ask", {"questions": "x"}), ("/ask", {"questions": ["x"], "least_confidence": -1}),
    ("/ask", {"questions": ["x"], "least_confidence": "high"}),
    ("/facts", {}), ("/facts", {"name": 5}), ("/facts", {"name": ["Berlin"]}),
    ("/facts", {"name": "Berlin", "n": 1.5}), ("/facts", {"name": "Berlin", "more": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "question"), FAULTY_NEW, ids=range(len(FAULTY_NEW)))
def test_faulty_questions_of_every_kind_are_told(served: Any, path: str, question: Any) -> None:
    status, _, answer = served.request(path, question)
    assert status == 422, answer
    assert len(answer["error"]) < 1000


def test_names_lead_nowhere(served: Any) -> None:
    for path, question, word in (
        ("/show", {"text": "x", "method": "__class__"}, "there is no reader"),
        ("/show", {"text": "x", "method": "../../etc/passwd"}, "there is no reader"),
        ("/complete", {"head": "Q0", "relation": "P17", "tail": "?"}, "Q0"),
        ("/complete", {"head": "?", "relation": "P17", "tail": "?"}, "exactly one"),
        ("/probe", {"questions": [{"text": "no hole"}]}, "must hold [Y] once"),
        ("/probe", {"questions": [{"text": "[Y] [Y]"}]}, "must hold [Y] once"),
    ):  # fmt: skip
        status, _, answer = served.request(path, question)
        assert (status, word in answer["error"]) == (422, True), answer
    assert served.request("/show/../link", GOOD)[0] == 404
    assert served.request("/link")[0] == 405


def test_hostile_texts_are_texts(served: Any) -> None:
    texts = ["<script>alert(1)</script>", "\x00\x1b[2J Paris", "\u202eParis\u0301", "a" * MAX_TEXT,
             " " * 50, "😀" * 500, "Paris " * 300]  # fmt: skip
    for path, question in (
        ("/link", {"texts": texts}),
        ("/encode", {"texts": texts, "mentions": True}),
        (
            "/predict",
            {"items": [{"text": text} for text in texts if text.strip()], "run": "classes"},
        ),
    ):
        status, headers, answer = served.request(path, question)
        assert status == 200, answer
        assert headers["content-type"] == "application/json"
        (answers,) = answer.values()
        assert len(answers) >= len(texts) - 1
    svg = served.request("/show", {"text": texts[0], "method": "kbert"})[2]["svg"]
    assert "<script" not in svg


def test_what_is_too_large_is_not_read(served: Any) -> None:
    assert served.request("/link", raw=b" " * 20_001)[0] == 413
    for length in ("-1", "x", "9" * 30, "1_0"):
        with served.socket() as connection:
            head = _head(served, f"Content-Length: {length}")
            connection.sendall(head)
            assert connection.recv(100).split()[1] in (b"400", b"413")
    with served.socket() as connection:
        connection.sendall(_head(served, "Transfer-Encoding: chunked"))
        try:
            for _ in range(40):
                connection.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
        except OSError:  # it has hung up already
            pass
        assert b"413" in connection.recv(100)
    with served.socket() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * 200_000)
        assert connection.recv(100)[:12] in (b"HTTP/1.1 400", b"")


def test_an_answer_that_is_too_large_is_not_sent(served: Any) -> None:
    status, _, answer = served.request(
        "/encode", {"texts": ["Paris " * 100] * 30, "mentions": True}
    )
    assert (status, "the answer has" in answer["error"]) == (422, True)


def test_slow_and_silent_clients_are_left(served: Any) -> None:
    start = time.monotonic()
    with served.socket() as silent, served.socket() as slow, served.socket() as body:
        slow.sendall(b"GET /health HTT")
        body.sendall(_head(served, "Content-Length: 100") + b'{"te')
        assert body.recv(100).startswith(b"HTTP/1.1 408")
        assert silent.recv(10) == b""
        assert slow.recv(10) == b""
    assert time.monotonic() - start < 5


def test_too_many_at_once_are_told_to_come_again(service: Service) -> None:
    gate = threading.Event()

    class Waiting:
        def link(self, texts: list[str]) -> Any:
            gate.wait(10)
            return service.linker.link(texts)

    with running(replace(service, linker=Waiting()), Limits(n_requests=3)) as full:
        threads = [threading.Thread(target=full.request, args=("/link", GOOD)) for _ in range(3)]
        for thread in threads:
            thread.start()
        while "kept_requests" not in str(full.request("/metrics")[2]) or not _is_full(full):
            time.sleep(0.02)
        status, headers, _ = full.request("/link", GOOD)
        assert (status, headers["retry-after"]) == (503, "1")
        gate.set()
        for thread in threads:
            thread.join()
        assert full.request("/link", GOOD)[0] == 200


def _is_full(full: Any) -> bool:
    return len(full.server.server_state.tasks) >= 3


def test_above_its_memory_nothing_is_taken_on(service: Service) -> None:
    with running(service, Limits(memory_bytes=1)) as small:
        status, _, answer = small.request("/link", GOOD)
        assert (status, "no memory left" in answer["error"]) == (503, True)
        assert small.request("/health")[0] == 200


def test_others_reach_it_with_a_token_of_ones_own_alone() -> None:
    require_address("127.0.0.1", None)
    require_address("::1", None)
    require_address("0.0.0.0", "x" * 16)
    with pytest.raises(ConfigError, match="set your own token"):
        require_address("0.0.0.0", None)
    with pytest.raises(ConfigError, match="16 ASCII"):
        require_address("127.0.0.1", "short")
    with pytest.raises(ConfigError, match="not an IP address"):
        require_address("kept.example", None)


def _head(served: Any, header: str) -> bytes:
    return (
        f"POST /link HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n{header}\r\n\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"text": "Paris"}', "texts is missing; /docs describes the requests"),
        (b'{"text": "Paris"}', "there is no field text"),
        (b'{"texts": "Paris"}', "texts must be a list: [...]"),
        (b"{oops", "the body is no JSON (near character 1"),
    ],
)
def test_a_faulty_request_is_explained_in_plain_words(
    served: Any, raw: bytes, message: str
) -> None:
    assert message in served.request("/link", raw=raw)[2]["error"]


def test_a_wrong_path_or_method_and_a_missing_token_are_named(served: Any) -> None:
    assert "there is no such path" in served.request("/nothing", GOOD)[2]["error"]
    assert "takes another method" in served.request("/link", method="GET")[2]["error"]
    assert "the token is missing" in served.request("/link", GOOD, Authorization="")[2]["error"]
