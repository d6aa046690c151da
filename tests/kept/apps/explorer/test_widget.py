"""The explorer in a notebook: its model answers as the server does; the page asks through it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.questions import Question
from tests.kept.chromium import Chromium, find_chromium
from tests.kept.hostile_world import TEXT

pytest.importorskip("anywidget", reason="the extra notebook is not installed")

from kept.apps.explorer.widget import ExplorerWidget, explore

PROGRAM = find_chromium()


@pytest.fixture
def widget(explorer: Explorer) -> ExplorerWidget:
    return ExplorerWidget(explorer, [TEXT], height=700)


def test_the_model_holds_the_page_and_answers_its_questions(
    widget: ExplorerWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert widget.height == 700
    assert '"framed": true' in widget.page
    assert "http://" not in widget.page.replace("http://www.w3.org/", "")
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "send", sent.append)
    message = {"kept": 3, "call": "link", "body": {"text": TEXT}}
    widget._handle_custom_msg(message, [])
    assert sent == [{"kept": 3, "found": widget.explorer.link(Question(TEXT))}]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"kept": 1, "call": "__init__", "body": {}}, "__init__"),
        ({"kept": 1, "call": "link", "body": {"text": ""}}, "not what the page sends"),
        ({"kept": 1, "call": "link", "body": {"text": TEXT, "x": "y" * 100_000}}, "more than"),
        ({"kept": 1, "call": "read", "body": {"text": TEXT, "reader": "nobody"}}, "nobody"),
        ("text", "indices"),
    ],
)
def test_what_fails_is_an_answer(widget: ExplorerWidget, message: Any, words: str) -> None:
    assert words in widget.answer(message)["found"]["error"]


def test_it_is_made_of_folders(hostile: Path, tmp_path: Path) -> None:
    widget = explore(
        hostile / "kg", text=TEXT, tokenizer=str(hostile / "tokenizer"), gold=tmp_path / "g.jsonl"
    )
    assert TEXT in json.loads(json.dumps(widget.answer({"kept": 1, "call": "link", "body": {
        "text": TEXT}})))["found"]["text"]  # fmt: skip
    assert str(tmp_path / "g.jsonl") in widget.page


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt-get install chromium")
def test_the_page_asks_the_kernel_from_within_its_frame(
    widget: ExplorerWidget, tmp_path: Path
) -> None:
    """A model in JavaScript stands for the notebook: the test carries its messages to and fro."""
    script = (Path(__file__).parents[4] / "kept" / "apps" / "explorer" / "widget.js").read_text()
    values = json.dumps({"page": widget.page, "height": 700}).replace("<", "\\u003c")
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8><div id=cell></div><script>{script}"
        f"const values = {values}; const heard = []; window.sent = [];".replace(
            "export default", "const widget ="
        )
        + "const model = { get: (name) => values[name], send: (m) => sent.push(m), "
        "on: (_, f) => heard.push(f), off: () => null };"
        "window.reply = (m) => heard.forEach((f) => f(m));"
        "widget.render({ model, el: document.getElementById('cell') });</script>",
        encoding="utf-8",
    )
    assert PROGRAM is not None
    with Chromium(PROGRAM, tmp_path / "profile") as browser:
        browser.open((tmp_path / "notebook.html").as_uri())
        calls: list[str] = []
        end = time.monotonic() + 60
        while "read" not in calls and time.monotonic() < end:
            for message in json.loads(browser.run("JSON.stringify(sent.splice(0))")):
                calls.append(message["call"])
                reply = json.dumps(widget.answer(message)).replace("<", "\\u003c")
                browser.run(f"void reply({reply})")
            time.sleep(0.05)
        assert calls[:1] == ["link"], browser.console
        assert "read" in calls
        assert browser.run("document.querySelector('iframe').getAttribute('sandbox')") == (
            "allow-scripts"
        )
        assert not [line for line in browser.console if line.startswith("error")]
