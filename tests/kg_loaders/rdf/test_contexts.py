"""Contexts of JSON-LD from files: where they take the place of an address, and their limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kg_loaders.errors import SourceError
from kg_loaders.rdf.contexts import (
    ALL_OTHERS,
    ContextError,
    Contexts,
    addresses,
    contexts_of,
    plain_address,
)

SCHEMA, OTHER = "https://schema.org/", "http://other.org/context"
NAMES = {"name": "http://schema.org/name"}


def written(folder: Path, name: str, context: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps({"@context": context}), encoding="utf-8")
    return path


def put(document: Any, files: dict[str, Path], n_bytes: int = 10_000) -> Any:
    plain = {plain_address(key): file for key, file in files.items()}
    Contexts(plain, n_bytes).put_into(document)
    return document


def test_files_of_addresses(tmp_path: Path) -> None:
    file = written(tmp_path, "a.jsonld", NAMES)
    assert contexts_of({SCHEMA: file}) == {"//schema.org": file}
    assert contexts_of([f"{SCHEMA}={file}"]) == {"//schema.org": file}
    assert contexts_of([str(file)]) == {ALL_OTHERS: file}
    equals = written(tmp_path, "a=b.jsonld", NAMES)
    assert contexts_of([str(equals)]) == {ALL_OTHERS: equals}
    with pytest.raises(SourceError, match=r"the context //schema\.org: .* is not a file"):
        contexts_of([f"{SCHEMA}={tmp_path / 'none'}"])
    with pytest.raises(SourceError, match=r"the context for all addresses: .* is not a file"):
        contexts_of([str(tmp_path / "none")])


@pytest.mark.parametrize("address", ["http://schema.org", "https://schema.org/", SCHEMA])
def test_an_address_is_the_same_with_a_slash_and_with_https(tmp_path: Path, address: str) -> None:
    file = written(tmp_path, "a", NAMES)
    assert put({"@context": address, "x": 1}, {SCHEMA: file}) == {"@context": NAMES, "x": 1}


def test_contexts_are_replaced_wherever_they_are(tmp_path: Path) -> None:
    file = written(tmp_path, "a", NAMES)
    document = {
        "@context": [{"@vocab": "x:"}, SCHEMA],
        "@graph": [{"@context": OTHER}, {"in": {"@context": SCHEMA}}, 3],
    }
    assert put(document, {SCHEMA: file}) == {
        "@context": [{"@vocab": "x:"}, NAMES],
        "@graph": [{"@context": OTHER}, {"in": {"@context": NAMES}}, 3],
    }


def test_one_file_for_all_others(tmp_path: Path) -> None:
    files = {
        SCHEMA: written(tmp_path, "a", NAMES),
        ALL_OTHERS: written(tmp_path, "b", {"b": "x:b"}),
    }
    document = {"@context": [SCHEMA, OTHER]}
    assert put(document, files) == {"@context": [NAMES, {"b": "x:b"}]}


def test_a_context_that_is_a_list_is_spread(tmp_path: Path) -> None:
    both = written(tmp_path, "a", [NAMES, {"b": "x:b"}])
    assert put({"@context": SCHEMA}, {SCHEMA: both}) == {"@context": [NAMES, {"b": "x:b"}]}
    assert put({"@context": [SCHEMA, None]}, {SCHEMA: both})["@context"][2] is None


def test_an_import_is_put_under_what_its_object_says(tmp_path: Path) -> None:
    file = written(tmp_path, "a", {"name": "x:name", "b": "x:b"})
    context = {"@import": SCHEMA, "name": "mine"}
    assert put({"@context": context}, {SCHEMA: file}) == {"@context": {"name": "mine", "b": "x:b"}}
    several = written(tmp_path, "b", [NAMES, NAMES])
    assert put({"@context": dict(context)}, {SCHEMA: several}) == {"@context": context}
    assert put({"@context": dict(context)}, {}) == {"@context": context}


def test_contexts_that_name_others_or_themselves(tmp_path: Path) -> None:
    inner = written(tmp_path, "inner", NAMES)
    outer = written(tmp_path, "outer", [OTHER, SCHEMA])
    files = {SCHEMA: outer, OTHER: inner}
    assert put({"@context": SCHEMA}, files) == {"@context": [NAMES, SCHEMA]}


def test_they_unfold_within_a_budget(tmp_path: Path) -> None:
    file = written(tmp_path, "a", NAMES)
    size = file.stat().st_size
    twice = {"@context": [SCHEMA, SCHEMA]}
    assert put(json.loads(json.dumps(twice)), {SCHEMA: file}, 2 * size)["@context"] == [NAMES] * 2
    with pytest.raises(MemoryError, match="contexts unfold beyond the budget"):
        put(twice, {SCHEMA: file}, 2 * size - 1)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nothing", "cannot be read"),
        ("[1]", 'is not an object with "@context"'),
        ("{}", "is not an object"),
    ],
)
def test_a_file_that_is_no_context(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "a"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ContextError, match=says):
        put({"@context": SCHEMA}, {SCHEMA: file})
    with pytest.raises(ContextError, match="cannot be read"):
        put({"@context": SCHEMA}, {SCHEMA: tmp_path / "none"})


def test_addresses_of_a_document_in_its_order() -> None:
    document = [
        {"@context": [OTHER, {"@import": "urn:i"}, {"a": "b"}, None], "x": {"@context": SCHEMA}},
        {"@context": OTHER}, "text",
    ]  # fmt: skip
    assert addresses(document) == [OTHER, "urn:i", SCHEMA]
    assert addresses({}) == []
