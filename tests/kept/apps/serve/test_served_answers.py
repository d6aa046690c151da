"""Answers as bytes: letters as they are, and what no encoding can hold replaced."""

from __future__ import annotations

import json

import pytest

from kept.apps.serve.answers import Answer, json_bytes, unforeseen


@pytest.mark.parametrize("label", ["Zürich", "日本", '"x"\n', ""])
def test_labels_are_sent_as_they_are(label: str) -> None:
    body = Answer({"label": label}).body
    assert body == json_bytes({"label": label})
    assert json.loads(body) == {"label": label}
    assert b"\\u" not in bytes(body), "letters are letters, not their numbers"


def test_half_of_a_pair_is_replaced() -> None:
    assert json.loads(json_bytes(["a\ud800b"])) == ["a?b"]
    assert Answer({}).media_type == "application/json"


def test_the_text_of_an_error_stays_inside() -> None:
    assert unforeseen(ValueError("/home/secret")) == "ValueError: this error was not expected"
