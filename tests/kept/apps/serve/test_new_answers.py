"""`/predict`, `/ask` and `/facts`: what they answer, at once and in a stream."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from kept.apps.serve.limits import MAX_STREAMED, MAX_TEXTS, Limits
from kept.apps.serve.predicting import Predictions
from kept.apps.serve.service import Service
from kept.tasks.datasets.example import question
from tests.kept.served import TOKEN, Running, running

TEXT = "the old city of Paris near Berlin"
ITEM = {"text": TEXT, "mention": "Paris"}


@contextmanager
def stream(service: Running, path: str, body: Any) -> Iterator[http.client.HTTPResponse]:
    """A response whose lines are read as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body | {"stream": True}).encode(), headers)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def lines_of(service: Running, path: str, body: Any) -> list[dict[str, Any]]:
    with stream(service, path, body) as response:
        assert response.status == 200
        assert response.getheader("content-type") == "application/x-ndjson"
        assert response.getheader("cache-control") == "no-store"
        return [json.loads(line) for line in response]


class Gated(Predictions):
    """Predictions that wait at a gate before each batch but the first, and count the batches."""

    gate: threading.Event
    n_batches = 0

    def predict(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        if self.n_batches:
            assert self.gate.wait(20)
        self.n_batches += 1
        return super().predict(items)


def gated(service: Service) -> tuple[Service, Gated]:
    other = replace(service)
    predictions = Gated.of(service.graph, service.linker, service.readers)
    assert isinstance(predictions, Gated)
    predictions.gate = threading.Event()
    other.predictions = predictions
    return other, predictions


# ---- /predict ------------------------------------------------------------------------------------
def test_predictions_are_those_of_the_run(served: Running, service: Service) -> None:
    places = ["Paris", "Berlin", "city"]
    examples = [question(TEXT, mention) for mention in places]
    predictor = service.readers["types"].predictor
    assert predictor is not None
    expected = predictor.predictions(examples, service.graph, service.linker)
    items = [{"text": TEXT, "mention": mention} for mention in places]
    status, _, answer = served.request("/predict", {"run": "types", "items": items})
    assert status == 200, answer
    assert [row["prediction"] for row in answer["predictions"]] == [
        list(each.labels) for each in expected
    ]
    assert [row["confidence"] for row in answer["predictions"]] == [
        pytest.approx([*each.confidence], abs=1e-5) for each in expected
    ]
    rows = lines_of(served, "/predict", {"run": "types", "items": items})
    assert [row.pop("index") for row in rows] == [0, 1, 2]
    assert rows == answer["predictions"]


def test_a_span_is_a_part_of_its_context(served: Running) -> None:
    items = [{"question": "which city", "context": TEXT}]
    _, _, answer = served.request("/predict", {"run": "spans", "items": items})
    assert answer["predictions"][0]["prediction"] in TEXT


def test_a_run_is_named_where_there_are_several(served: Running, service: Service) -> None:
    status, _, answer = served.request("/predict", {"items": [ITEM]})
    assert (status, "name one: types, classes, spans" in answer["error"]) == (422, True)
    status, _, answer = served.request("/predict", {"items": [ITEM], "run": "typos"})
    assert (status, "there is no run 'typos'" in answer["error"]) == (422, True)
    with running(replace(service, readers={"types": service.readers["types"]})) as one:
        assert one.request("/predict", {"items": [ITEM]})[2]["predictions"][0]["run"] == "types"
    with running(replace(service, readers={})) as plain:
        for extra in ({}, {"stream": True}):
            status, _, answer = plain.request("/predict", {"items": [ITEM], **extra})
            assert (status, "--run" in answer["error"]) == (501, True)


FAULTY_ITEMS: list[tuple[dict[str, Any], str]] = [
    ({"text": TEXT}, "a run of typing needs text and mention; or"),
    ({"text": TEXT, "mention": "Rome"}, "'Rome' does not occur"),
    ({"text": TEXT, "start": 20, "end": 10}, "are not in a text"),
    ({"text": TEXT, "start": 0, "end": 2000}, "are not in a text"),
]


@pytest.mark.parametrize(("item", "fault"), FAULTY_ITEMS, ids=range(len(FAULTY_ITEMS)))
def test_a_faulty_item_is_numbered_and_harms_no_other(
    served: Running, item: dict[str, Any], fault: str
) -> None:
    items = [ITEM, item, ITEM]
    status, _, answer = served.request("/predict", {"run": "types", "items": items})
    assert (status, fault in answer["error"]) == (422, True), answer
    rows = lines_of(served, "/predict", {"run": "types", "items": items})
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert [sorted(row) for row in rows][1] == ["error", "index"]
    assert fault in rows[1]["error"]
    assert "item " not in rows[1]["error"]  # its index says which
    assert rows[0]["prediction"] == rows[2]["prediction"]


# ---- streams -------------------------------------------------------------------------------------
def test_first_answers_come_before_the_last_are_ready(service: Service) -> None:
    other, predictions = gated(service)
    body = {"run": "types", "items": [ITEM] * 20}
    with running(other) as slow, stream(slow, "/predict", body) as response:
        first = [json.loads(response.readline()) for _ in range(Limits().stream_texts)]
        assert [row["index"] for row in first] == list(range(len(first)))
        assert predictions.n_batches == 1
        predictions.gate.set()
        rest = [json.loads(line) for line in response]
    assert [row["index"] for row in first + rest] == list(range(20))


def test_a_stream_lets_others_between(service: Service) -> None:
    """Its parts wait in turn: another request is answered before the stream ends."""
    other, predictions = gated(service)
    body = {"run": "types", "items": [ITEM] * 40}
    with running(other) as slow, stream(slow, "/predict", body) as response:
        response.readline()
        results = []
        asking = threading.Thread(
            target=lambda: results.append(slow.request("/link", {"texts": [TEXT]})[0])
        )
        asking.start()
        time.sleep(0.2)
        predictions.gate.set()
        asking.join(20)
        assert results == [200]
        assert sum(1 for _ in response) == 39


def test_a_client_that_leaves_is_asked_for_no_more(service: Service) -> None:
    other, predictions = gated(service)
    with running(other) as slow:
        with stream(slow, "/predict", {"run": "types", "items": [ITEM] * 800}) as response:
            response.readline()
        predictions.gate.set()
        assert slow.request("/health")[0] == 200
        deadline = time.monotonic() + 10
        while slow.server.server_state.tasks and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not slow.server.server_state.tasks
    assert predictions.n_batches < 20


def test_a_client_that_reads_nothing_is_left(service: Service) -> None:
    class Long(Predictions):
        def predict(self, items: Sequence[Any]) -> list[dict[str, Any]]:
            return [{"prediction": "x" * 100_000} for _ in items]

    other = replace(service)
    other.predictions = Long.of(service.graph, service.linker, service.readers)
    limits = Limits(send_seconds=0.2, result_bytes=1 << 30)
    body = json.dumps({"items": [ITEM] * 800, "stream": True}).encode()
    head = (
        f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with running(other, limits) as slow, slow.socket() as silent:
        silent.sendall(head.encode() % slow.port + body)
        deadline = time.monotonic() + 15
        while not slow.server.server_state.tasks and time.monotonic() < deadline:
            time.sleep(0.01)
        while slow.server.server_state.tasks and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not slow.server.server_state.tasks
        assert slow.request("/link", {"texts": [TEXT]})[0] == 200


def test_a_stream_has_a_size_and_a_time(service: Service) -> None:
    body = {"run": "types", "items": [ITEM] * 64}
    with running(service, Limits(result_bytes=2_000)) as small:
        rows = lines_of(small, "/predict", body)
        assert "more than 2,000 bytes" in rows[-1]["error"]
        assert len(rows) < 64
    other, predictions = gated(service)
    with running(other, Limits(answer_seconds=0.4)) as late:
        rows = lines_of(late, "/predict", {"run": "types", "items": [ITEM] * 12})
        predictions.gate.set()
    assert [("error" in row) for row in rows] == [False] * 8 + [True] * 4
    assert "no answer in time" in rows[-1]["error"]


def test_stopping_ends_a_stream_whole(service: Service) -> None:
    other, predictions = gated(service)
    body = {"run": "types", "items": [ITEM] * 30}
    with running(other) as stopped, stream(stopped, "/predict", body) as response:
        response.readline()
        stopped.server.should_exit = True
        time.sleep(0.2)
        predictions.gate.set()
        rest = [json.loads(line) for line in response]
        assert [row["index"] for row in rest] == list(range(1, 30))
        stopped.thread.join(10)
        assert not stopped.thread.is_alive()


def test_only_streams_take_many(served: Running) -> None:
    items = [{"text": "Paris"}] * (MAX_TEXTS + 1)
    for path, body in (
        ("/predict", {"run": "classes", "items": items}),
        ("/ask", {"questions": ["x"] * (MAX_TEXTS + 1)}),
    ):
        status, _, answer = served.request(path, body)
        assert (status, '"stream": true' in answer["error"]) == (422, True)
    assert len(lines_of(served, "/predict", {"run": "classes", "items": items})) == len(items)
    body = {"items": [{"text": "x"}] * (MAX_STREAMED + 1), "stream": True}
    assert served.request("/predict", body)[0] in (413, 422)


# ---- /facts, /ask and names ----------------------------------------------------------------------
def test_facts_are_those_of_a_name_an_alias_or_an_identifier(served: Running) -> None:
    _, _, by_id = served.request("/facts", {"name": "Q64"})
    assert (by_id["id"], by_id["label"], by_id["types"]) == ("Q64", "Berlin", ["city"])
    assert served.request("/facts", {"name": "Berlin"})[2] == by_id
    assert by_id["n_facts"] == len(by_id["facts"]) > 1
    few = served.request("/facts", {"name": "Berlin", "n": 1})[2]
    assert (few["n_facts"], few["facts"]) == (by_id["n_facts"], by_id["facts"][:1])


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"name": "Berlim"}, 422, "did you mean Berlin"),
        ({"name": "../../etc/passwd"}, 422, "no entity"),
        ({"name": ""}, 422, "name"),
        ({"name": "x" * 501}, 422, "name"),
        ({"name": "Berlin", "n": 0}, 422, "n"),
        ({"name": "Berlin", "n": 10**30}, 422, "n"),
        ({"name": "\ud800"}, 422, "unicode"),
    ],
)
def test_names_that_are_none_are_refused(
    served: Running, body: dict[str, Any], status: int, word: str
) -> None:
    actual_status, _, answer = served.request("/facts", body)
    assert (actual_status, word in answer["error"]) == (status, True), answer
    assert served.request("/facts", {"name": "Berlin"})[0] == 200


def test_homonyms_are_listed(served: Running) -> None:
    status, _, answer = served.request("/facts", {"name": "Paris"})
    assert (status, "entities are called 'Paris'" in answer["error"]) == (422, True)
    assert "Q90" in answer["error"]


def test_a_triple_is_completed_by_labels(served: Running) -> None:
    by_id = served.request("/complete", {"head": "Q64", "relation": "P17", "tail": "?"})[2]
    by_label = served.request("/complete", {"head": "Berlin", "relation": "country", "tail": "?"})
    assert (by_label[0], by_label[2]) == (200, by_id)
    status, _, answer = served.request(
        "/complete", {"head": "?", "relation": "countri", "tail": "Q64"}
    )
    assert (status, "did you mean country" in answer["error"]) == (422, True)


def test_questions_are_answered_from_the_graph(served: Running) -> None:
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    questions = ["What is the country of Berlin?", "What is the capital of Atlantis?"]
    _, _, answer = served.request("/ask", {"questions": questions})
    first, second = answer["answers"]
    assert first["values"] == ["Germany"]
    assert first["facts"][0] == ["Berlin", "country", "Germany"]
    assert second["refusal"] == "no entity of the graph is named in the question"
    rows = lines_of(served, "/ask", {"questions": questions * 6})
    assert [row.pop("index") for row in rows] == list(range(12))
    assert rows == [first, second] * 6
    sure = served.request("/ask", {"questions": questions[:1], "least_confidence": 1.0})[2]
    assert sure["answers"][0]["values"] == []
    assert served.request("/ask", {"questions": questions, "least_confidence": 2})[0] == 422
