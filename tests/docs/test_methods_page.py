"""docs/reference/methods.md is what the lines of `METHODS` say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kept
from kept import load_host
from kept.methods import BASELINE, METHODS
from tests.docs import hosts
from tests.docs.methods import PAGE, ROOT, added, page, parameters_added, world

PACKAGE = Path(kept.__file__).parent
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {name: re.findall(rf"^\| `{name}` \|.*$", TEXT, re.MULTILINE) for name in METHODS}


@pytest.mark.minilm
def test_the_page_is_as_it_is_written() -> None:
    assert page() == TEXT, "run python -m tests.docs"


def test_the_page_of_hosts_is_as_it_is_written() -> None:
    assert hosts.page() == hosts.PAGE.read_text(encoding="utf-8"), "run python -m tests.docs"


@pytest.mark.minilm
def test_parameters_added_hold_for_a_graph_of_another_size() -> None:
    host, graph = load_host("minilm"), world(9, 5, 4)
    for line in METHODS.values():
        terms = parameters_added(line, host).replace(",", "").replace(" (", " * (")
        formula = re.sub(r"(\d) ([ERS])", r"\1 * \2", terms)
        expected = eval(formula, {"E": 9, "R": 5, "S": 4})
        assert added(line, host, graph) == expected, formula


def target(link: str) -> Path:
    """Where a link of the page leads; the sources may be those of an installed package."""
    path = (ROOT / "docs/reference" / link).resolve()
    inside = path.is_relative_to(ROOT / "kept")
    return PACKAGE / path.relative_to(ROOT / "kept") if inside else path


def test_links_lead_somewhere() -> None:
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", TEXT)}
    assert len(links) > 30
    assert [link for link in links if not target(link).exists()] == []


@pytest.mark.parametrize("name", METHODS)
def test_every_published_method_has_parity(name: str) -> None:
    how_it_works, *as_published = ROWS[name]
    is_published = METHODS[name].is_published
    assert ("parity" in how_it_works) == bool(as_published) == is_published
    assert is_published == (name not in (BASELINE, "words"))


def test_pages_of_options_are_of_methods() -> None:
    pages = {path.stem for path in (ROOT / "docs/reference/methods").glob("*.md")}
    assert len(pages) > 6
    assert pages <= METHODS.keys()
