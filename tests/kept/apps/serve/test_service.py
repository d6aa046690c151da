"""What the service answers, alone and joined with others."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kept.apps.serve.limits import Limits
from kept.apps.serve.service import Service
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph
from tests.kept.served import TOKEN, Running, running

TEXT = "the old city of Paris near Berlin"
QUESTIONS: dict[str, Any] = {
    "/link": {"texts": [TEXT]},
    "/show": {"text": TEXT, "method": "kbert"},
    "/encode": {"texts": [TEXT]},
    "/probe": {"questions": [{"text": "the [Y] flows", "candidates": ["river", "city"]}]},
    "/complete": {"head": "Q90", "relation": "P17", "tail": "?"},
    "/facts": {"name": "Q90"},
    "/predict": {"run": "classes", "items": [{"text": TEXT}]},
    "/ask": {"questions": ["What is the country of Berlin?"]},
}


def test_links_are_those_of_the_linker(served: Any, service: Service) -> None:
    status, _, answer = served.request("/link", {"texts": [TEXT, "nothing"]})
    assert status == 200
    (linked,) = service.linker.link([TEXT])
    assert [link["entity"] for link in answer["texts"][0]["links"]] == [
        link.entity for link in linked.links
    ]
    first = answer["texts"][0]["links"][0]
    assert TEXT[first["start"] : first["end"]] == first["words"] == "Paris"
    assert first["candidates"][0]["entity"] == first["entity"]
    assert answer["texts"][1]["links"] == []


def test_vectors_are_those_of_the_encoder(served: Any, service: Service) -> None:
    assert service.encoder is not None
    expected = service.encoder.encode([TEXT], kg=service.graph, linker=service.linker)[0]
    _, _, answer = served.request("/encode", {"texts": [TEXT], "mentions": True})
    (text,) = answer["texts"]
    assert text["sentence"] == pytest.approx(expected.sentence.tolist(), abs=1e-6)
    assert [m["entity"] for m in text["mentions"]] == [link.entity for link in expected.links]
    assert text["mentions"][0]["vector"] == pytest.approx(expected.mentions[0].tolist(), abs=1e-6)
    assert "mentions" not in served.request("/encode", {"texts": [TEXT]})[2]["texts"][0]


def test_every_question_has_an_answer(served: Any) -> None:
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    for path, question in QUESTIONS.items():
        status, headers, answer = served.request(path, question)
        assert status == 200, (path, answer)
        assert headers["cache-control"] == "no-store"
    drawing = served.request("/show", QUESTIONS["/show"])[2]
    assert drawing["svg"].startswith("<svg")
    assert any(fact["read"] for fact in drawing["facts"])
    (probed,) = served.request("/probe", QUESTIONS["/probe"])[2]["questions"]
    assert sorted(probed["answers"]) == ["city", "river"]
    words = served.request("/probe", {"questions": [{"text": "the [Y] flows"}], "n": 3})[2]
    assert len(words["questions"][0]["answers"]) == 3
    best = served.request("/complete", QUESTIONS["/complete"])[2]["best"]
    scores = [answer["score"] for answer in best]
    assert scores == sorted(scores, reverse=True)


def test_health_metrics_and_the_page(served: Any) -> None:
    assert served.request("/health", Authorization="")[2]["status"] == "ok"
    page = served.request("/docs", Authorization="")[2].decode()
    assert "POST /complete" in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    schema = served.request("/openapi.json", Authorization="")[2]
    assert {*QUESTIONS, "/health", "/metrics"} == set(schema["paths"])
    served.request("/link", {"texts": ["a secret text"]})
    served.request("/nothing/secret")
    counted = served.request("/metrics")[2].decode()
    assert 'kept_requests_total{path="/link",status="200"}' in counted
    assert 'kept_requests_total{path="other",status="404"}' in counted
    assert "kept_batch_questions_bucket" in counted
    assert "secret" not in counted


def test_what_was_not_given_is_said(service: Service) -> None:
    with running(replace(service, encoder=None, cloze=None, completion=None)) as plain:
        for path, option in (("/encode", "--model"), ("/probe", "--probe"), ("/complete", "--kgc")):
            status, _, answer = plain.request(path, QUESTIONS[path])
            assert (status, option in answer["error"]) == (501, True)


class Slow:
    """A linker that notes its batches, and waits."""

    def __init__(self, linker: Any, seconds: float) -> None:
        self.linker, self.seconds, self.batches = linker, seconds, list[int]()

    def link(self, texts: Sequence[str]) -> Any:
        self.batches.append(len(texts))
        time.sleep(self.seconds)
        if "bad" in texts:
            raise ConfigError("a bad text")
        return self.linker.link(texts)


def test_requests_are_joined_and_a_bad_one_harms_no_other(service: Service) -> None:
    slow = Slow(service.linker, 0.1)
    texts = [TEXT, "Paris", "bad", "Berlin", "old Paris"]
    with running(replace(service, linker=slow)) as joined, ThreadPoolExecutor(6) as pool:
        first = pool.submit(joined.request, "/link", {"texts": ["a river"]})
        time.sleep(0.05)
        rest = list(pool.map(lambda text: joined.request("/link", {"texts": [text]}), texts))
        assert first.result()[0] == 200
    assert max(slow.batches) == len(texts)
    for text, (status, _, answer) in zip(texts, rest, strict=True):
        assert status == (422 if text == "bad" else 200)
        if text == "bad":
            assert answer == {"error": "a bad text"}
        else:
            (alone,) = service.link([text])
            assert answer["texts"][0]["links"] == alone["links"]


def test_stopping_answers_what_was_asked(service: Service) -> None:
    slow = Slow(service.linker, 0.2)
    limits = Limits(batch_texts=1)
    with (
        running(replace(service, linker=slow), limits) as stopped,
        ThreadPoolExecutor(8) as pool,
        ExitStack() as stack,
    ):
        silent = stack.enter_context(stopped.socket())  # its request comes while it stops
        pending = [pool.submit(stopped.request, "/link", {"texts": [TEXT]}) for _ in range(6)]
        while not slow.batches:
            time.sleep(0.01)
        stopped.server.should_exit = True
        time.sleep(0.15)
        head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{stopped.port}\r\n\r\n"
        silent.sendall(head.encode())
        assert silent.recv(1000).startswith(b"HTTP/1.1 200")
        assert [each.result()[0] for each in pending] == [200] * 6
        stopped.thread.join(10)
        assert not stopped.thread.is_alive()
        with pytest.raises(OSError, match=r"refused|reset"):
            stopped.request("/health")


def test_a_question_that_takes_too_long_is_told(service: Service) -> None:
    slow = Slow(service.linker, 0.4)
    with running(replace(service, linker=slow), Limits(answer_seconds=0.2)) as late:
        status, _, answer = late.request("/link", {"texts": [TEXT]})
        assert (status, "no answer in time" in answer["error"]) == (504, True)
    assert threading.active_count() < 50
    assert TOKEN not in str(answer)


def test_the_command_serves_until_it_is_told_to_stop(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    small_graph.save(tmp_path / "kg")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    command = [
        sys.executable, "-m", "kept", "serve", "--kg", str(tmp_path / "kg"), "--port", "0",
        "--tokenizer", str(tmp_path / "tokenizer"),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().removesuffix("/docs\n").rpartition(":")[2])
        token = process.stdout.readline().strip().removeprefix("Authorization: ")
        asking = Running(port, None, threading.current_thread())
        status, _, answer = asking.request("/link", {"texts": ["Paris"]}, Authorization=token)
        assert (status, answer["texts"][0]["links"][0]["entity"]) == (200, "Q90")
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
    assert (process.returncode, "stopped" in rest) == (0, True)
