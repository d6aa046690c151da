"""The page in a real headless Chromium: every pane, hostile labels, the keyboard, narrow and dark.

`KEPT_SCREENSHOTS` names a folder for pictures of what was seen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from entity_linking import RelationExample
from kept.apps.cli import app
from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.page import static_page
from kept.apps.explorer.server import ExplorerServer
from tests.kept.chromium import Chromium, find_chromium
from tests.kept.hostile_world import HOSTILE, TEXT, served

PROGRAM = find_chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt-get install chromium"),
]
IDLE = "!document.querySelector('[aria-busy]') && document.querySelector('#right-body svg')"
ERRORS = "[...document.querySelectorAll('.error')].map((e) => e.textContent).join('')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert PROGRAM is not None
    with Chromium(PROGRAM, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def page(browser: Chromium, server: ExplorerServer) -> Chromium:
    """The page of the hostile world, at rest."""
    return opened(browser, server.url)


def opened(browser: Chromium, url: str) -> Chromium:
    browser.open("about:blank#")
    browser.console.clear()
    browser.window(1200, 900)
    browser.open(url)
    browser.until(IDLE)
    return browser


def picture(browser: Chromium, name: str) -> None:
    folder = os.environ.get("KEPT_SCREENSHOTS")
    if folder:
        browser.screenshot(Path(folder) / f"{name}.png")


def click(page: Chromium, selector: str, number: int = 0) -> None:
    """Click on the `number`-th element, and wait until nothing is asked any more."""
    page.run(f"document.querySelectorAll({json.dumps(selector)})[{number}].click()")
    page.until("!document.querySelector('[aria-busy]')")


def text_of(page: Chromium, selector: str) -> str:
    text: str = page.run(f"document.querySelector({json.dumps(selector)}).innerText")
    return text


def type_in(page: Chromium, selector: str, value: str) -> None:
    page.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")


# ---- hostile labels --------------------------------------------------------
def test_hostile_labels_are_text_in_every_pane(page: Chromium) -> None:
    for method in ("colake", "kbert", "knowbert", "ernie"):
        page.run(f"document.querySelector('#reader').value = '{method}'")
        page.run("document.querySelector('#reader').dispatchEvent(new Event('change'))")
        page.until(IDLE)
    type_in(page, ".card input", "Q10")
    page.run("document.querySelector('.card form').requestSubmit()")
    page.until("document.querySelector('.card form li button')")
    assert text_of(page, ".card form li button") == HOSTILE[0]
    click(page, ".card form li button")
    assert HOSTILE[0] in text_of(page, "#mention h3")
    assert "\\u202e\\u0007Reversed" in text_of(page, "#whatif-facts")
    assert page.run("window.broken === undefined")
    assert page.run("document.querySelectorAll('img, iframe, [onload], [onerror]').length") == 0
    assert page.console == []
    assert page.run(ERRORS) == ""
    picture(page, "hostile")


def test_the_policy_lets_no_script_in_and_nothing_out(page: Chromium) -> None:
    page.run(
        "(() => { const s = document.createElement('script'); try { s.textContent = "
        "'window.broken = 2'; document.body.append(s); } catch (error) { window.refused = 1; } })()"
    )
    assert page.run("window.broken === undefined")
    with pytest.raises(RuntimeError, match="TrustedHTML"):
        page.run("document.body.innerHTML = '<b>x</b>'")
    away = "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => 'refused')"
    assert page.run(away) == "refused"
    assert any("Content Security Policy" in line for line in page.console)
    assert page.run("fetch('call/link', {method: 'POST', body: '{}'}).then((r) => r.status)") == 415


# ---- the journey -----------------------------------------------------------
def test_a_link_is_corrected_and_written(page: Chromium, tmp_path: Path) -> None:
    click(page, "#sentence button", 1)
    assert "Paris" in text_of(page, "#mention h3")
    labels = page.run("[...document.querySelectorAll('.candidates .id')].map((e) => e.innerText)")
    click(page, ".card > .candidates > li > button", labels.index("Q3"))
    page.until("document.querySelector('#gold').textContent.includes('Written')")
    (line,) = (tmp_path / "gold.jsonl").read_text().splitlines()
    assert json.loads(line)["mentions"] == [{"start": 24, "end": 29, "entity": "Q3"}]
    assert json.loads(line)["text"] == TEXT
    picture(page, "corrected")


def test_a_missed_name_is_marked_and_linked(page: Chromium, tmp_path: Path) -> None:
    type_in(page, "#missed-words", "flows")
    page.run("document.querySelector('#missed').requestSubmit()")
    page.until("document.querySelector('#mention h3').innerText.includes('flows')")
    type_in(page, ".card input", "France")
    page.run("document.querySelector('.card form').requestSubmit()")
    page.until("document.querySelector('.card form li button')")
    click(page, ".card form li button")
    page.until("document.querySelector('#gold').textContent.includes('Written')")
    (line,) = (tmp_path / "gold.jsonl").read_text().splitlines()
    assert json.loads(line)["mentions"] == [{"start": 10, "end": 15, "entity": "Q4"}]
    assert "flows" in text_of(page, "#sentence button:nth-of-type(2)")
    buttons = page.run("[...document.querySelectorAll('.card > button')].map((e) => e.innerText)")
    click(page, ".card > button", buttons.index("Take my choice back"))
    page.until("document.querySelectorAll('#sentence button').length === 3")
    assert page.run(ERRORS) == ""
    assert page.console == []


def test_offsets_are_characters_beyond_the_first_plane(page: Chromium, tmp_path: Path) -> None:
    type_in(page, "#text", "\U0001f600\U0001f600 Paris!")
    page.run("document.querySelector('#ask').requestSubmit()")
    page.until("document.querySelector('#sentence').innerText.includes('!')")
    page.until(IDLE)
    assert text_of(page, "#sentence button") == "Paris"
    click(page, ".card > .candidates > li > button")
    page.until("document.querySelector('#gold').textContent.includes('Written')")
    (line,) = (tmp_path / "gold.jsonl").read_text().splitlines()
    (mention,) = json.loads(line)["mentions"]
    assert (mention["start"], mention["end"]) == (3, 8)


def test_a_fact_is_changed_and_the_answer_compared(
    browser: Chromium, with_run: Explorer, examples: list[RelationExample]
) -> None:
    with served(with_run, [examples[50].linked.text]) as server:
        page = opened(browser, server.url)
        page.until("document.querySelector('#influences tbody tr td')")
        assert "fact: " in text_of(page, "#influences")
        click(page, "#whatif-facts button")
        assert "delete" in text_of(page, "#changes")
        click(page, "#rerun")
        page.until("document.querySelector('#difference svg')")
        assert "that are gone: 1; new: 0" in text_of(page, "#difference")
        assert "is not shown any more" in text_of(page, "#difference")
        assert page.console == []
        assert page.run(ERRORS) == ""
        picture(page, "what-if")


def test_the_page_is_walked_by_keyboard(page: Chromium) -> None:
    page.run("document.activeElement.blur()")
    reached = []
    for _ in range(12):
        page.press("Tab")
        reached.append(
            page.run("document.activeElement.id || document.activeElement.innerText || 'other'")
        )
    assert "text" in reached
    assert "link" in reached
    page.run("document.querySelectorAll('#sentence button')[1].focus()")
    page.press("Enter")
    assert page.run("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert page.run("document.activeElement.closest('#sentence') !== null")
    unnamed = page.run(
        "[...document.querySelectorAll('button, input, select, textarea')].filter((e) => "
        "!(e.innerText || e.labels?.length || e.getAttribute('aria-label')))"
        ".map((e) => e.outerHTML)"
    )
    assert unnamed == []
    roles = page.run("[...document.querySelectorAll('svg')].every((e) => e.getAttribute('role'))")
    assert roles


@pytest.mark.parametrize("dark", [False, True])
def test_narrow_and_dark_windows(page: Chromium, dark: bool) -> None:
    page.window(360, 800, dark=dark)
    assert page.run("document.documentElement.scrollWidth") <= 360
    colours = page.run(
        "['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])"
    )
    assert colours == (
        ["rgb(230, 237, 243)", "rgb(20, 24, 29)"]
        if dark
        else ["rgb(27, 31, 36)", "rgb(255, 255, 255)"]
    )
    picture(page, f"narrow-{'dark' if dark else 'light'}")


# ---- the file --------------------------------------------------------------
def test_the_file_works_without_a_server(
    browser: Chromium, with_run: Explorer, examples: list[RelationExample], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(static_page(with_run, [examples[50].linked.text]), encoding="utf-8")
    page = opened(browser, path.as_uri())
    page.until("document.querySelector('#influences tbody tr td')")
    assert page.console == []
    assert page.run(ERRORS) == ""
    click(page, ".card > .candidates > li > button")
    assert "A line for gold.jsonl: {" in text_of(page, "#gold")
    picture(page, "file")


def test_a_hostile_file_runs_nothing(browser: Chromium, hostile: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    line = ["explore", "--kg", str(hostile / "kg"), "--tokenizer", str(hostile / "tokenizer")]
    done = CliRunner().invoke(app, [*line, "--text", f"Paris {HOSTILE[1]}", "-o", str(path)])
    assert done.exit_code == 0, done.output
    page = opened(browser, path.as_uri())
    assert page.run("window.broken === undefined")
    assert page.console == []


def test_panes_that_would_be_empty_are_not_on_the_page(
    browser: Chromium, hostile: Path, explorer: Explorer, tmp_path: Path
) -> None:
    """Without a model no influences, in a file no changes: one line says how to have them."""
    path = tmp_path / "page.html"
    path.write_text(static_page(explorer, ["Paris is near the Seine."]), encoding="utf-8")
    page = opened(browser, path.as_uri())
    assert text_of(page, "nav") == "1 Text 2 Graph 3 Side by side"
    visible = "[...document.querySelectorAll('section')].filter((e) => e.offsetHeight)"
    assert page.run(f"{visible}.map((e) => e.querySelector('h2').innerText.trim())") == [
        "1 Text", "2 Graph", "3 Side by side",
    ]  # fmt: skip
    assert "kept explore … --model RUN" in text_of(page, "#away")
    assert "without -o" in text_of(page, "#away")
    assert page.console == []
