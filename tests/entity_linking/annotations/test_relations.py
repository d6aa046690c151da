"""Readers of sentences that state a fact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from entity_linking import Mention, RelationExample, read_fewrel, read_trex, read_wiki80
from kg_loaders import DamageError, SourceError
from kg_loaders.damage import DamagePolicy, DamageReport


def fact(*evidences: tuple[str, str, str]) -> dict[str, Any]:
    rows = [
        {"sub_surface": head, "obj_surface": tail, "masked_sentence": sentence}
        for head, tail, sentence in evidences
    ]
    return {"uuid": "u", "sub_uri": "Q7251", "obj_uri": "Q8078", "predicate_id": "P101",
            "sub_label": "Alan Turing", "obj_label": "logic", "evidences": rows}  # fmt: skip


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def places(example: RelationExample) -> tuple[str, str]:
    text = example.linked.text
    return tuple(  # type: ignore[return-value]
        text[: mention.start] + "<" + text[mention.start : mention.end] + ">"
        for mention in (example.head_mention, example.tail_mention)
    )


@pytest.mark.parametrize(
    ("evidence", "head", "tail"),
    [
        (("Turing", "logician", "Turing, a [MASK]."), "<Turing>", "Turing, a <logician>"),
        (
            ("Turing", "logician", "The [MASK] Turing, Turing."),
            "The logician <Turing>",
            "The <logician>",
        ),
        (("art", "Paris", "party art in [MASK]"), "party <art>", "party art in <Paris>"),
        (("par", "Paris", "[MASK] party"), "Paris <par>", "<Paris>"),
        (("Paris", "Paris", "[MASK] of Paris"), "Paris of <Paris>", "<Paris>"),
        (("İzmir", "é", "[MASK]é İzmir"), "éé <İzmir>", "<é>"),
    ],
)
def test_trex_places(tmp_path: Path, evidence: Any, head: str, tail: str) -> None:
    report = DamageReport()
    (example,) = read_trex(write(tmp_path / "P101.jsonl", fact(evidence)), report)
    assert places(example) == (head, tail)
    assert (example.head, example.relation, example.tail) == ("Q7251", "P101", "Q8078")
    assert example.linked.id == "u#0"
    links = {link.mention: link.entity for link in example.linked.links}
    assert links == {example.head_mention: "Q7251", example.tail_mention: "Q8078"}
    report.check()


def test_trex_counts_what_has_no_place(tmp_path: Path) -> None:
    rows = fact(
        ("Turing", "logician", "Turing the [MASK]"),
        ("Turing", "logician", "He was a [MASK]"),
        ("Idaho State", "Idaho", "the [MASK] State"),
        ("Turing", "logician", "Turing the [MASK]"),
    )
    path = write(tmp_path / "P101.jsonl", rows, fact())
    for distinct, n_texts, n_duplicates in ((False, 2, 0), (True, 1, 1)):
        report = DamageReport()
        assert len(list(read_trex(path, report, distinct=distinct))) == n_texts
        report.check()
        assert (report.n_lines, report.n_duplicates) == (4, n_duplicates)
        assert report.skipped == {
            "the subject surface is not in the sentence": 1,
            "the subject surface overlaps the object": 1,
        }


def test_trex_damage(tmp_path: Path) -> None:
    bad = fact(("Turing", "logician", "no mask"), ("Turing", "", "Turing [MASK]"))
    path = write(tmp_path / "P101.jsonl", fact(("Turing", "x", "Turing [MASK]")), bad, {"uuid": 1})
    with pytest.raises(DamageError, match=r"P101.jsonl, line 2 .*not exactly one \[MASK\]"):
        list(read_trex(path, DamageReport()))
    aside = tmp_path / "bad.jsonl"
    report = DamageReport(policy=DamagePolicy.QUARANTINE, quarantine=aside)
    assert len(list(read_trex(path, report))) == 1
    report.check()
    assert report.n_rejected == 3
    again = DamageReport(policy=DamagePolicy.SKIP)
    assert list(read_trex(aside, again)) == []
    assert again.reasons == report.reasons, "what was set aside can be read again"


def test_trex_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no \.jsonl file"):
        list(read_trex(tmp_path, DamageReport()))
    for name in ("P2.jsonl", "P1.jsonl"):
        write(tmp_path / name, fact(("Turing", name, "Turing [MASK]")))
    texts = [example.linked.text for example in read_trex(tmp_path, DamageReport())]
    assert texts == ["Turing P1.jsonl", "Turing P2.jsonl"]


def test_fewrel(tmp_path: Path) -> None:
    row = {"tokens": ["New", "York", "\u00a0", "on", "the", "Hudson"],
           "h": ["new york", "Q60", [[0, 1], [5]]], "t": ["hudson", "Q3140", [[5]]]}  # fmt: skip
    path = tmp_path / "val.json"
    path.write_text(json.dumps({"P206": [row, row], "P17": [row | {"t": ["x", "Q1", [[6]]]}]}))
    report = DamageReport(policy=DamagePolicy.SKIP)
    examples = list(read_fewrel(path, report, distinct=True))
    assert [(e.head, e.relation, e.tail) for e in examples] == [("Q60", "P206", "Q3140")]
    assert examples[0].linked.text == "New York \u00a0 on the Hudson"
    assert (examples[0].head_mention, examples[0].tail_mention) == (Mention(0, 8), Mention(18, 24))
    assert (report.n_lines, report.n_duplicates, report.n_rejected) == (3, 1, 1)
    assert report.rejections[0].line == 3
    report.check()


def test_wiki80_and_semeval(tmp_path: Path) -> None:
    row = {"token": ["In", "Albany", ",", "they"], "relation": "place served",
           "h": {"name": "they", "id": "Q1", "pos": [3, 4]}, "t": {"pos": [1, 2]}}  # fmt: skip
    path = write(tmp_path / "dev.txt", row, row)
    report = DamageReport()
    (example,) = read_wiki80(path, report, distinct=True)
    assert places(example) == ("In Albany , <they>", "In <Albany>")
    assert (example.head, example.relation, example.tail) == ("Q1", "place served", "")
    assert [link.entity for link in example.linked.links] == [None, "Q1"]
    report.check()


@pytest.mark.data
def test_trex_relations(data_root: Path) -> None:
    report = DamageReport()
    for relation in ("P19", "P176"):
        for example in read_trex(data_root / f"lama/TREx/{relation}.jsonl.gz", report):
            text, head = example.linked.text, example.head_mention
            assert example.relation == relation
            assert "[MASK]" not in text[: head.end]
    report.check()
    assert (report.n_lines, report.n_texts, report.n_skipped) == (9557, 9469, 88)


@pytest.mark.data
def test_all_of_trex_fewrel_and_wiki80(data_root: Path) -> None:
    report = DamageReport()
    n_examples = sum(1 for _ in read_trex(data_root / "lama/TREx", report, distinct=True))
    report.check()
    assert (report.n_lines, n_examples, report.n_duplicates) == (138_678, 98_579, 39_812)
    assert report.skipped == {
        "the subject surface overlaps the object": 286,
        "the subject surface is not in the sentence": 1,
    }
    assert (
        len(list(read_fewrel(data_root / "re/fewrel/val_wiki.json.gz", DamageReport()))) == 11_200
    )
    assert len(list(read_wiki80(data_root / "re/wiki80/dev.txt.gz", DamageReport()))) == 5_600
