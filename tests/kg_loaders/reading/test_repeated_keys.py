"""A key that stands twice in an object is a damage with a name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_linking.annotations import read_jsonl
from entity_linking.annotations.relations import read_fewrel, read_trex
from kept.lab.probing.items.templates import read_templates
from kg_loaders import DamageError, DamageReport, SourceError
from kg_loaders.damage import DamagePolicy
from kg_loaders.formats.jsonl import read
from kg_loaders.reading.repeated_keys import repeated_key, repeats_fault

KEYS = st.sampled_from(["a", "b", '"', "\\", ":", "\u00e9"])
VALUES = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["a", '"a":1', "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=3),
    max_leaves=12,
)


def written(value: Any) -> str:
    """JSON in which a list of pairs is an object, whatever its keys."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "{" + ",".join(f"{json.dumps(k)} : {written(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value)


def repeats(value: Any) -> bool:
    """The oracle: whether an object of the value counts a key twice."""
    if not isinstance(value, list):
        return False
    if value and isinstance(value[0], tuple):
        counts = Counter(key for key, _ in value)
        return max(counts.values()) > 1 or any(repeats(inner) for _, inner in value)
    return any(map(repeats, value))


@given(VALUES)
def test_as_counted(value: Any) -> None:
    assert (repeated_key(written(value).encode()) is not None) == repeats(value)


def test_what_python_does_not_read_is_told() -> None:
    assert repeats_fault(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}") == "nested too deep"
    assert "4300" in repeats_fault(b'{"x": ' + b"1" * 5000 + b"}")


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "Q1", "id": "Q2", "label": "x"}',
        '{"id": "Q1", "label": "x", "label": "x"}',
        '{"id": "Q1", "label": "x", "\\u0069d": "Q2"}',
    ],
)
def test_texts_of_a_graph(tmp_path: Path, line: str) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(f'{{"id": "id", "label": "label"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(DamageError, match=r"texts\.jsonl, line 2 .*the key '\w+' occurs twice"):
        list(read(path, DamageReport()))
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert [(text.node, text.value) for text in read(path, report)] == [("id", "label")]  # type: ignore[union-attr]
    assert report.n_rejected == 1


def test_linked_texts(tmp_path: Path) -> None:
    path = tmp_path / "linked.jsonl"
    path.write_text(
        '{"text": "In Paris.", "mentions": [{"start": 3, "end": 8, "entity": "Q1", '
        '"entity": "Q90"}]}\n',
        encoding="utf-8",
    )
    with pytest.raises(DamageError, match=r"linked\.jsonl, line 1 .*the key 'entity' occurs twice"):
        list(read_jsonl(path, DamageReport()))


TREX = (
    '{"uuid": "1", "sub_uri": "Q1", "obj_uri": "Q2", "obj_uri": "Q3", "predicate_id": "P1", '
    '"evidences": []}'
)
FEWREL = (
    '{"P1": [{"tokens": ["a", "b"], "tokens": ["b", "a"], '
    '"h": ["a", "Q1", [[0]]], "t": ["b", "Q2", [[1]]]}]}'
)
TEMPLATE = '{"relation": "P1", "template": "[X] is [Y] .", "template": "[X] was [Y] ."}'


@pytest.mark.parametrize(
    ("name", "text", "reader", "key"),
    [
        ("P1.jsonl", TREX, read_trex, "obj_uri"),
        ("fewrel.json", FEWREL, read_fewrel, "tokens"),
        ("templates.jsonl", TEMPLATE, read_templates, "template"),
    ],
)
def test_rows_of_others(tmp_path: Path, name: str, text: str, reader: Any, key: str) -> None:
    path = tmp_path / name
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(DamageError, match=rf"{name}, line 1 .*the key '{key}' occurs twice"):
        list(reader(path, DamageReport()))


def test_a_relation_whose_rows_stand_under_two_keys_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "fewrel.json"
    path.write_text('{"P1": [], "P2": [], "P1": []}', encoding="utf-8")
    with pytest.raises(SourceError, match=r"fewrel\.json: the key 'P1' occurs twice"):
        list(read_fewrel(path, DamageReport()))
