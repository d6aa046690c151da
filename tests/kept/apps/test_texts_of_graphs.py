"""`link`, `build` and `show` in one call: what is linked, what is kept, what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entity_linking.mentions import LinkedText
from kept.apps import texts
from kept.apps.texts import Picture, build, link, linker_for, show
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import ExistsError


@pytest.fixture(autouse=True)
def linkers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No linker of another test."""
    monkeypatch.setattr(texts, "_LINKERS", type(texts._LINKERS)())
    return texts._LINKERS


def test_links_say_what_stands_there(small_graph: KnowledgeGraph) -> None:
    linked = link("The Seine flows.", small_graph)
    assert [(k.start, k.end, k.text, k.entity, k.label) for k in linked.links] == [
        (4, 9, "Seine", "Q1471", "Seine")
    ]


def test_several_texts_keep_their_order_and_linked_ones_stay(small_graph: KnowledgeGraph) -> None:
    mine = LinkedText("Seine", ())
    first, second, third = link(["Bonn", mine, "Europe"], small_graph)
    assert second is mine
    assert [k.entity for k in (*first.links, *third.links)] == ["Q2", "Q46"]
    assert link(mine, small_graph) is mine
    assert link([], small_graph) == []
    (only,) = link(["Bonn"], small_graph)
    assert only == first


def test_linkers_of_the_last_settings_are_kept(small_graph: KnowledgeGraph, linkers: Any) -> None:
    first = linker_for(small_graph)
    assert linker_for(small_graph) is first
    others = [linker_for(small_graph, nil_below=i / 10) for i in (1, 2, 3)]
    assert linker_for(small_graph) is first, "it was used last"
    assert len(linkers) == texts.MOST_LINKERS == 4
    linker_for(small_graph, nil_below=0.4)
    assert len(linkers) == 4
    assert linker_for(small_graph) is first
    assert linker_for(small_graph, nil_below=0.1) is not others[0], "the oldest one went"


def test_a_graph_of_a_text_is_that_of_its_options(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    built = build("Seine flows", small_graph, tokenizer=tokenizer, max_neighbours=0)
    assert (built.kinds == 2).sum() == 0
    more = build("Seine flows", small_graph, tokenizer=tokenizer)
    assert (more.kinds == 2).sum() > 0
    assert build("Seine flows", small_graph, tokenizer=tokenizer, seed=1).text == "Seine flows"


def test_a_picture_is_saved_as_a_page_or_a_drawing(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    picture = show("Seine flows", small_graph, tokenizer=tokenizer)
    assert picture._repr_html_() == picture.svg
    assert repr(picture).startswith(f"Picture({picture.graph}); ")
    page = picture.save(tmp_path / "graph.HTML")
    assert page.read_text(encoding="utf-8") == picture.html
    assert picture.save(tmp_path / "graph.svg").read_text(encoding="utf-8") == picture.svg
    assert picture.save(page) == page, "a page of kept is replaced"
    with pytest.raises(ConfigError, match=r"saved as \.svg, a page as \.html"):
        picture.save(tmp_path / "graph.png")
    (tmp_path / "mine.html").write_text("mine", encoding="utf-8")
    with pytest.raises(ExistsError):
        picture.save(tmp_path / "mine.html")
    picture.save(tmp_path / "mine.html", force=True)
    assert (tmp_path / "mine.html").read_text(encoding="utf-8") == picture.html


def test_a_picture_is_opened_where_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(texts.webbrowser, "open", opened.append)
    Picture(None, "<svg/>", "<html/>").open(tmp_path / "a.html")  # type: ignore[arg-type]
    assert opened == [(tmp_path / "a.html").resolve().as_uri()]
    assert (tmp_path / "a.html").is_file()
