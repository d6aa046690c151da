"""A report in a real headless Chromium: sorted, folded, narrow, dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kept.lab.report.dots import Dot, dots
from kept.lab.report.page import Section, page, table, verdict
from tests.kept.chromium import Chromium, find_chromium
from tests.kept.report_numbers import number

PROGRAM = find_chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt-get install chromium"),
]
COLUMNS = ("method", *(f"a long column {i}" for i in range(12)), "p", "verdict")
ROWS = [
    [f"method {i}", *["0.1234 to 0.5678"] * 12, p, f"method {i} is better; so it is"]
    for i, p in enumerate(["0.5", "-0.25", "1,000", ""])
]
COLUMN = "[...document.querySelectorAll('.sorted tbody tr')].map(r => r.cells[13].textContent)"
IS_IN_VIEW = """(() => { const box = document.querySelector('td.held').getBoundingClientRect();
return box.left >= 0 && box.right <= innerWidth && box.width > 60; })()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert PROGRAM is not None
    folder = tmp_path_factory.mktemp("report")
    picture = dots([Dot("ERNIE", "true", number(0.5, 0.4, 0.6), (0.45, 0.55))], "score")
    sections = [
        Section("", (verdict("Nothing is shown."), picture)),
        Section("Numbers", (table(COLUMNS, ROWS, "All of them"),), folded=True),
    ]
    (folder / "page.html").write_text(page("t", "", sections), encoding="utf-8")
    with Chromium(PROGRAM, folder / "profile") as running:
        running.open((folder / "page.html").as_uri())
        yield running
        assert not running.console


def test_a_verdict_and_a_picture_come_first_and_tables_are_folded(browser: Chromium) -> None:
    browser.window(1200, 800)
    assert browser.run("document.querySelector('h1').nextElementSibling.className") == "verdict"
    bottom = browser.run("document.querySelector('.dots').getBoundingClientRect().bottom")
    assert bottom < 400
    assert not browser.run("document.querySelector('details').open")
    browser.run("location.hash = 's1'")
    browser.until("document.querySelector('details').open")


def test_a_click_sorts_by_number_and_empty_cells_come_last(browser: Chromium) -> None:
    assert browser.run(COLUMN) == ["0.5", "-0.25", "1,000", ""]
    press = "document.querySelectorAll('.sorted th button')[13].click()"
    browser.run(press)
    assert browser.run(COLUMN) == ["-0.25", "0.5", "1,000", ""]
    browser.run(press)
    assert browser.run(COLUMN)[-1] == "-0.25"
    sorts = "[...document.querySelectorAll('th')].filter(h => h.ariaSort === 'descending').length"
    assert browser.run(sorts) == 1


@pytest.mark.parametrize("width", [1200, 400])
def test_the_verdict_column_is_never_out_of_sight(
    browser: Chromium, width: int, tmp_path: Path
) -> None:
    browser.window(width, 800)
    browser.run("document.querySelector('details').open = true")
    for share in (0, 0.5, 1):
        box = "document.querySelector('.scroll')"
        browser.run(f"void ({box}.scrollLeft = {share} * {box}.scrollWidth)")
        assert browser.run(IS_IN_VIEW)
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("document.querySelector('.dots td svg').getBoundingClientRect().width") > 80


def test_dark_windows_are_dark(browser: Chromium) -> None:
    colour = "getComputedStyle(document.querySelector('td.held')).backgroundColor"
    browser.window(1200, 800, dark=True)
    dark = browser.run(colour)
    browser.window(1200, 800)
    assert dark != browser.run(colour)
