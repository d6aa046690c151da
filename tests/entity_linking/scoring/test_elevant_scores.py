"""ELEVANT's counts, case by case, on nested labels, and on its own gold files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entity_linking.annotations import read_elevant
from entity_linking.errors import LinkingError, ScoreError
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.scoring import score_links
from entity_linking.scoring.elevant import (
    Label,
    LabelledText,
    Mode,
    at_words,
    count_elevant,
    read_labelled,
)
from kg_loaders.damage import DamageReport

TEXT = "Ulm and Paris, France met."
ULM, PARIS, FRANCE, BOTH = (0, 3), (8, 13), (15, 21), (8, 21)
Counts = tuple[int, int, int]


def counted(
    labels: list[Label], predicted: dict[tuple[int, int], str | None], mode: Mode
) -> Counts:
    links = tuple(Link(Mention(*span), (), entity, 1.0) for span, entity in predicted.items())
    gold = [LabelledText(TEXT, tuple(labels))]
    n_gold, n_found, n_right = count_elevant(gold, [LinkedText(TEXT, links)], mode=mode)[0].tolist()
    return n_gold, n_found, n_right


@pytest.mark.parametrize(
    ("gold", "answer", "required", "ignored"),
    [
        ("Q1", "Q1", (1, 1, 1), (1, 1, 1)),
        ("Q1", "Q2", (1, 1, 0), (1, 1, 0)),
        ("Q1", "NIL", (1, 1, 0), (1, 0, 0)),
        ("Q1", "-", (1, 0, 0), (1, 0, 0)),
        ("NIL", "Q1", (1, 1, 0), (0, 1, 0)),
        ("NIL", "NIL", (1, 1, 1), (0, 0, 0)),
        ("NIL", "-", (1, 0, 0), (0, 0, 0)),
        ("-", "Q1", (0, 1, 0), (0, 1, 0)),
        ("-", "NIL", (0, 1, 0), (0, 0, 0)),
        ("optional Q1", "Q1", (0, 0, 0), (0, 0, 0)),
        ("optional Q1", "Q2", (0, 1, 0), (0, 1, 0)),
        ("optional Q1", "NIL", (0, 1, 0), (0, 0, 0)),
        ("optional Q1", "-", (0, 0, 0), (0, 0, 0)),
        ("optional NIL", "Q1", (0, 1, 0), (0, 1, 0)),
        ("optional NIL", "NIL", (0, 0, 0), (0, 0, 0)),
    ],
)
def test_each_case(gold: str, answer: str, required: Counts, ignored: Counts) -> None:
    names = {"Q1": "Q1", "Q2": "Q2", "NIL": None}
    name = gold.removeprefix("optional ")
    labels = [] if gold == "-" else [Label(ULM, names[name], is_optional=name != gold)]
    actual = {} if answer == "-" else {ULM: names[answer]}
    assert counted(labels, actual, "required") == required
    assert counted(labels, actual, "ignored") == ignored


NESTED = [
    Label(BOTH, "Q90", children=(1, 2)), Label(PARIS, "Q90", parent=0),
    Label(FRANCE, "Q142", parent=0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ({}, (1, 0, 0)),
        ({BOTH: "Q90"}, (1, 1, 1)),
        ({PARIS: "Q90", FRANCE: "Q142"}, (1, 1, 1)),
        ({PARIS: "Q90"}, (1, 0, 0)),  # the other half is missed
        ({PARIS: "Q90", FRANCE: "Q1"}, (1, 1, 0)),
        ({PARIS: "Q1"}, (1, 1, 0)),  # a half that is wrong counts, whatever became of the other
        ({BOTH: "Q1"}, (1, 1, 0)),
        ({BOTH: "Q1", PARIS: "Q90", FRANCE: "Q142"}, (1, 1, 1)),
        ({ULM: "Q90"}, (1, 1, 0)),
    ],
)
def test_what_is_nested_is_one_thing_to_find(
    predicted: dict[tuple[int, int], str | None], expected: Counts
) -> None:
    assert (
        counted(NESTED, predicted, "required") == counted(NESTED, predicted, "ignored") == expected
    )


def test_an_optional_whole_is_missed_where_its_parts_are_not_optional() -> None:
    whole = Label(BOTH, "Q90", is_optional=True, children=(1,))
    assert counted([whole, Label(PARIS, "Q90", parent=0)], {}, "required") == (1, 0, 0)
    part = Label(PARIS, "Q90", is_optional=True, parent=0)
    assert counted([whole, part], {}, "required") == (0, 0, 0)


def test_spans_that_grow_to_the_same_words_are_one() -> None:
    assert counted([Label(PARIS, "Q90")], {(8, 12): "Q90"}, "required") == (1, 1, 1)
    assert counted([Label((8, 11), "Q90")], {PARIS: "Q90"}, "required") == (1, 1, 1)
    assert counted([Label(PARIS, "Q90")], {(8, 14): "Q90"}, "required") == (1, 1, 0)


def test_labels_are_read_with_what_stands_around_them(tmp_path: Path) -> None:
    labels = [
        {"id": 7, "span": [4, 10], "entity_id": "Q1", "type": "Q5", "children": [8, 9]},
        {"id": 8, "span": [4, 7], "entity_id": "DATETIME", "type": "DATETIME", "parent": 7},
        {"id": 9, "span": [0, 7], "entity_id": "Q2", "type": "Q5", "parent": 7},
    ]
    row = {"id": 3, "text": "abc defghijkl", "evaluation_span": [2, 13], "labels": labels}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    (actual,) = read_labelled(path, DamageReport())
    assert actual == LabelledText(
        "c defghijkl",
        (Label((2, 8), "Q1", children=(1,)), Label((2, 5), None, is_optional=True, parent=0)),
        "3",
    )
    with pytest.raises(ScoreError, match="mode is 'strict'; give 'required' or 'ignored'"):
        count_elevant([], [], mode="strict")  # type: ignore[arg-type]
    with pytest.raises(LinkingError, match="text 0 differs"):
        count_elevant([actual], [LinkedText("other", ())], mode="required")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "required", "ignored"),
    [
        ("kore50.benchmark.jsonl", 144, 143),
        ("rss-500.benchmark.jsonl.gz", 1000, 518),
        ("reuters-128.benchmark.jsonl.gz", 880, 623),
        ("oke-2016-train.benchmark.jsonl.gz", 1049, 869),
    ],
)
def test_all_gold_is_to_be_found(data_root: Path, name: str, required: int, ignored: int) -> None:
    """Of KORE50 as in ELEVANT's stored results; a text that is linked as gold has it all right."""
    gold = list(read_labelled(data_root / "el" / name, DamageReport()))
    linked = list(read_elevant(data_root / "el" / name, DamageReport()))
    modes: tuple[tuple[Mode, int], ...] = (("required", required), ("ignored", ignored))
    for mode, n in modes:
        assert count_elevant(gold, linked, mode=mode).sum(0).tolist() == [n, n, n]
    assert score_links(linked, linked).n_gold == ignored


@pytest.mark.parametrize("span", [(3, 5), (3, 10), (8, 9)])
def test_a_span_grows_to_the_whole_word_before_the_last_point(span: tuple[int, int]) -> None:
    assert at_words(span, "an Alberts.") == (3, 10)


@pytest.mark.parametrize(
    ("text", "span", "grown"),
    [
        ('He said "no" twice', (9, 11), (8, 12)),  # both marks are within
        ('the "Mona Lisa" of', (5, 9), (5, 9)),  # it opens a longer quotation
        ('a "b c', (3, 4), (3, 4)),
        ('"b" c', (1, 2), (0, 3)),
        ('x "" y', (2, 4), (2, 4)),
    ],
)
def test_a_mark_that_opens_a_longer_quotation_is_left_out(
    text: str, span: tuple[int, int], grown: tuple[int, int]
) -> None:
    assert at_words(span, text) == grown


def test_an_optional_whole_without_an_entity_is_missed_in_the_strict_mode_alone() -> None:
    labels = [
        Label(BOTH, None, is_optional=True, children=(1,)), Label(PARIS, "Q90", parent=0),
    ]  # fmt: skip
    assert counted(labels, {}, "required") == (1, 0, 0)
    assert counted(labels, {}, "ignored") == (0, 0, 0)
