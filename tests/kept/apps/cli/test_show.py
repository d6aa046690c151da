"""`kept show` writes a page or a picture, and explains what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kg_loaders import KnowledgeGraph, Triple, graph_from_records


@pytest.fixture
def run(tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: Any) -> Any:
    small_graph.save(tmp_path / "kg")
    tokenizer.save_pretrained(tmp_path / "tokenizer")

    def invoke(text: str, *more: str) -> Any:
        paths = ("--kg", str(tmp_path / "kg"), "--tokenizer", str(tmp_path / "tokenizer"))
        return CliRunner().invoke(app, ["show", text, *paths, *more])

    return invoke


def test_page_and_picture(run: Any, tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    done = run("The Seine flows through Paris", "-o", str(page))
    assert done.exit_code == 0, done.output
    assert "2 word" not in done.output
    assert f"in {page}" in done.output.replace("\n", "")
    assert "capital of" in page.read_text()
    assert "<!doctype html>" in page.read_text()
    done = run("The Seine flows through Paris", "-o", str(picture), "--keep-mentions")
    assert done.exit_code == 0, done.output
    assert picture.read_text().startswith("<svg")
    assert 'class="edge mention"' in picture.read_text()


def test_open_starts_the_browser(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert run("Paris", "-o", str(tmp_path / "a.html"), "--open").exit_code == 0
    assert opened == [(tmp_path / "a.html").as_uri()]


def test_nothing_found_is_said(run: Any, tmp_path: Path) -> None:
    done = run("nothing here", "-o", str(tmp_path / "a.html"))
    assert done.exit_code == 0
    assert "no entity of this graph was found" in done.output


def test_faults_are_explained(run: Any, tmp_path: Path) -> None:
    done = run("Paris", "--policy", "best", "-o", str(tmp_path / "a.html"))
    assert done.exit_code == 1
    assert "policy 'best'" in done.output
    done = run("Paris", "--kg", str(tmp_path / "none"), "-o", str(tmp_path / "a.html"))
    assert done.exit_code == 1
    assert "none does not exist" in done.output.replace("\n", "")


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a", "a.svg.gz"])
def test_an_ending_that_cannot_be_drawn_is_refused(run: Any, tmp_path: Path, name: str) -> None:
    done = run("Paris", "-o", str(tmp_path / name))
    assert done.exit_code == 1
    message = done.output.replace("\n", "")
    assert f"{name}: kept draws a page (.html, .htm) or a picture (.svg)" in message
    assert not (tmp_path / name).exists()


def test_case_of_an_ending_does_not_matter(run: Any, tmp_path: Path) -> None:
    assert run("Paris", "-o", str(tmp_path / "a.SVG")).exit_code == 0
    assert (tmp_path / "a.SVG").read_text(encoding="utf-8").startswith("<svg")


def test_what_is_not_drawn_is_counted(run: Any, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    done = run("Paris lies in France", "-o", str(page), "--max-neighbours", "1")
    assert done.exit_code == 0, done.output
    output = " ".join(done.output.split())
    assert "2 of 7 facts about linked entities are in the drawing." in output
    assert "2 of 7 facts about linked entities are in the drawing." in page.read_text()
    done = run("Paris", "-o", str(page), "--max-neighbours", "50")
    assert "facts whose head" not in done.output
    done = run("a river " * 200, "-o", str(page))
    assert "The text is cut after character" in done.output


def test_it_finds_what_link_finds_without_names(tmp_path: Path, tokenizer: Any) -> None:
    """A graph without labels is linked by its identifiers."""
    graph_from_records([Triple("Tim_Cook", "leads", "Apple")]).save(tmp_path / "kg")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    page, runner = tmp_path / "a.html", CliRunner()
    paths = ["--kg", str(tmp_path / "kg"), "--tokenizer", str(tmp_path / "tokenizer")]
    done = runner.invoke(app, ["show", "Tim Cook leads Apple", *paths, "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert "no entity" not in done.output
    assert "<sub>Tim_Cook</sub>" in page.read_text()
