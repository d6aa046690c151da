"""A graph that was added to equals one that is built of everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders import DamageError, KgError, KnowledgeGraph, Source, load
from kg_loaders.disk.writing import claim
from kg_loaders.errors import ExistsError
from kg_loaders.growth.adding import add

NAME = st.sampled_from(["Q1", "Q2", "Q10", "Q090", "a", "b", "ä", "http://x/1"])
TRIPLES = st.lists(
    st.tuples(NAME, st.sampled_from(["P1", "P2", "r"]), NAME), min_size=1, max_size=12
)
TEXTS = st.lists(st.tuples(NAME, st.sampled_from(["x", "y", "Z"]), st.integers(1, 3)), max_size=6)
LANGUAGES = st.sampled_from(["en", "de", "cs"])
PART = st.tuples(TRIPLES, TEXTS, LANGUAGES)


def sources(folder: Path, triples: Any, texts: Any, language: str) -> list[Source]:
    folder.mkdir()
    (folder / "t.tsv").write_text("".join("\t".join(row) + "\n" for row in triples))
    (folder / "a.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in texts))
    options = {"columns": ("alias", "count"), "language": language}
    return [Source(folder / "t.tsv"), Source(folder / "a.tsv", "texts", options)]


@settings(max_examples=25, deadline=None)
@given(
    first=PART,
    second=PART,
    languages=st.sampled_from([None, ["de"], ["fr", "en"]]),
    in_place=st.booleans(),
)
def test_it_is_what_a_build_from_all_sources_gives(
    tmp_path_factory: pytest.TempPathFactory,
    first: Any,
    second: Any,
    languages: list[str] | None,
    in_place: bool,
) -> None:
    folder = tmp_path_factory.mktemp("add")
    old, new = sources(folder / "1", *first), sources(folder / "2", *second)
    before, _ = load(old, out=folder / "kg", languages=languages)
    whole, counted = load([*old, *new], languages=languages)
    added = add(folder / "kg", new, out=None if in_place else folder / "kg2")
    assert added.graph.content_hash == whole.content_hash
    assert added.graph.manifest == whole.manifest
    assert added.graph.manifest.load_counts == counted.counts()
    assert added.n_new_entities == whole.n_entities - before.n_entities
    moved = added.graph.entities.ids(before.entities.array)
    assert [added.graph.entities.name(i) for i in moved] == list(before.entities)


def test_a_bad_line_changes_nothing(tmp_path: Path) -> None:
    old = sources(tmp_path / "1", [("a", "r", "b")], [], "en")
    graph, _ = load(old[:1], out=tmp_path / "kg")
    bad = tmp_path / "bad.tsv"
    bad.write_text("a\tr\n")
    with pytest.raises(DamageError, match=r"bad\.tsv, line 1"):
        add(tmp_path / "kg", [bad])
    assert KnowledgeGraph.open(tmp_path / "kg").content_hash == graph.content_hash
    good = tmp_path / "good.tsv"
    good.write_text("a\tr\tc\n")
    with claim(tmp_path / "kg.adding"), pytest.raises(KgError, match="another process"):
        add(tmp_path / "kg", [good])
    assert add(tmp_path / "kg", [good]).graph.n_triples == 2
    with pytest.raises(KgError, match=r"no knowledge graph|is there already"):
        add(tmp_path / "kg", [good], out=tmp_path / "1")


def test_another_folder_is_replaced_by_force_alone(tmp_path: Path) -> None:
    (tmp_path / "old.tsv").write_text("a\tr\tb\n")
    (tmp_path / "new.tsv").write_text("c\tr\td\n")
    load([tmp_path / "old.tsv"], out=tmp_path / "kg")
    load([tmp_path / "old.tsv"], out=tmp_path / "other")
    there = KnowledgeGraph.open(tmp_path / "other").content_hash
    with pytest.raises(ExistsError):
        add(tmp_path / "kg", [tmp_path / "new.tsv"], out=tmp_path / "other")
    assert KnowledgeGraph.open(tmp_path / "other").content_hash == there
    done = add(tmp_path / "kg", [tmp_path / "new.tsv"], out=tmp_path / "other", force=True)
    assert KnowledgeGraph.open(tmp_path / "other").content_hash == done.graph.content_hash != there
    assert (done.n_new_entities, done.n_new_relations) == (2, 0)
    assert KnowledgeGraph.open(tmp_path / "kg").content_hash == there, "what was read stays"


def test_its_own_place_needs_no_force_however_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "old.tsv").write_text("a\tr\tb\n")
    (tmp_path / "new.tsv").write_text("c\ts\td\n")
    load([tmp_path / "old.tsv"], out=tmp_path / "kg")
    (tmp_path / "link").symlink_to(tmp_path / "kg")
    done = add(tmp_path / "kg", [tmp_path / "new.tsv"], out=tmp_path / "link")
    assert done.n_new_relations == 1
    assert KnowledgeGraph.open(tmp_path / "kg").n_triples == 2
