"""Texts beside the triples of a benchmark, in each form that is about."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kg_loaders.errors import SourceError
from kg_loaders.formats.benchmarks.texts import texts_of_folder
from kg_loaders.records import Text, TextKind

LABEL, ALIAS, TYPE = TextKind.LABEL, TextKind.ALIAS, TextKind.TYPE
DESCRIPTION = TextKind.DESCRIPTION


def read(folder: Path, name: str, content: str, *, packed: bool = False) -> list[Text]:
    data = content.encode()
    path = folder / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(data) if packed else data)
    return list(texts_of_folder(folder, entities=["a", "b", "00001740"], relations=["r", "a"]))


@pytest.mark.parametrize("packed", [False, True])
def test_two_columns(tmp_path: Path, packed: bool) -> None:
    content = "a\tAda, the first \r\n\nunknown\tx\nb\t \n00001740\tentity, that which is, or was\n"
    assert read(tmp_path, "entity2text.txt", content, packed=packed) == [
        Text("a", LABEL, "Ada, the first", "en"), Text("00001740", LABEL, "entity", "en"),
        Text("00001740", DESCRIPTION, "that which is, or was", "en"),
    ]  # fmt: skip


def test_long_texts_and_relations(tmp_path: Path) -> None:
    assert read(tmp_path, "entity2textlong.txt", "00001740\tlong, and whole\nr\tno entity\n") == [
        Text("00001740", DESCRIPTION, "long, and whole", "en")
    ]
    (tmp_path / "entity2textlong.txt").unlink()
    assert read(tmp_path, "relation2text.txt", "r\tlives in\n00001740\tx, y\n") == [
        Text("r", LABEL, "lives in", "en", 0, True)
    ]


def test_a_line_without_a_tab_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"entity2text\.txt, line 2: 'b' is not identifier, tab"):
        read(tmp_path, "entity2text.txt", "a\tA\nb\n")


def test_columns_by_a_header(tmp_path: Path) -> None:
    content = "name\tqid\tother\tdescription\nAda\ta\tx\ta writer\n\tb\tx\t \n"
    assert read(tmp_path, "entity_text.tsv", content) == [
        Text("a", LABEL, "Ada", "en"), Text("a", DESCRIPTION, "a writer", "en"),
    ]  # fmt: skip
    (tmp_path / "entity_text.tsv").unlink()
    assert read(tmp_path, "relation_text.tsv", "qid\tname\nr\tlikes\na\tis a\n") == [
        Text("r", LABEL, "likes", "en", 0, True), Text("a", LABEL, "is a", "en", 0, True),
    ]  # fmt: skip
    with pytest.raises(SourceError, match="has no column name, qid in its header"):
        read(tmp_path, "relation_text.tsv", "a\tA\n")


@pytest.mark.parametrize("packed", [False, True])
def test_aliases_of_wikidata5m(tmp_path: Path, packed: bool) -> None:
    actual = read(tmp_path, "wikidata5m_entity.txt", "a\tAda\tA. \t \n\nb\tBo\n", packed=packed)
    assert actual == [
        Text("a", LABEL, "Ada", "en"), Text("a", ALIAS, "A.", "en"), Text("b", LABEL, "Bo", "en"),
    ]  # fmt: skip
    more = read(tmp_path, "wikidata5m_relation.txt", "r\tlikes\n")
    assert more[-1] == Text("r", LABEL, "likes", "en", 0, True)
    more = read(tmp_path, "wikidata5m_text.txt", "a\tAda wrote. \tand more\n")
    assert more[-1] == Text("a", DESCRIPTION, "Ada wrote.", "en")
    with pytest.raises(SourceError, match=r"line 1: 'a' has no text behind a tab"):
        read(tmp_path, "wikidata5m_text.txt", "a\n")


@pytest.mark.parametrize(
    "document",
    [
        {"a": {"label": "Ada ", "description": "a writer"}, "b": "Bo", "c": "unknown"},
        [{"entity_id": "a", "entity": "Ada", "entity_desc": "a writer"},
         {"entity_id": "b", "entity": "Bo"}],
        {"a": {"label": "Ada", "description": "a writer", "wiki": 3},
         "b": {"label": "Bo", "description": " "}},
    ],
)  # fmt: skip
def test_objects_of_codex_and_simkgc(tmp_path: Path, document: Any) -> None:
    assert read(tmp_path, "entities.json", json.dumps(document)) == [
        Text("a", LABEL, "Ada", "en"), Text("a", DESCRIPTION, "a writer", "en"),
        Text("b", LABEL, "Bo", "en"),
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["[1]", '["a"]', '{"a": 3}', "nothing", '[{"entity": "A"}]'])
def test_another_form_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(SourceError, match="is neither CoDEx's form"):
        read(tmp_path, "relations.json", content)


def test_relations_of_codex(tmp_path: Path) -> None:
    assert read(tmp_path, "relations.json", '{"r": {"label": "likes"}}') == [
        Text("r", LABEL, "likes", "en", 0, True)
    ]


def test_identifiers_of_nell_are_read_where_there_is_no_text(tmp_path: Path) -> None:
    names = ["concept:city:new_york", "concept_river_nile", "plain"]
    actual = list(texts_of_folder(tmp_path, entities=names, relations=["concept:lives"]))
    assert [(text.node, text.kind) for text in actual] == [
        (names[0], LABEL), (names[0], TYPE), (names[1], LABEL), (names[1], TYPE),
    ]  # fmt: skip
    assert actual[0].value == "new york"
    assert actual[1].value == "city"
    (tmp_path / "entity2text.txt").write_text("plain\tA plain name\n", encoding="utf-8")
    (one,) = texts_of_folder(tmp_path, entities=names, relations=[])
    assert one.value == "A plain name"
