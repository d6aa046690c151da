"""Documents, word senses, TACRED and members of archives: what is read, and what is counted."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from entity_linking.mentions import Mention
from kept.tasks.datasets.docred import UNRELATED, read_docred, thinned
from kept.tasks.datasets.formats import TaskExample, read_examples, some_of
from kept.tasks.datasets.glue import NOT_FOUND, read_wic
from kept.tasks.datasets.inflection import find_form
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import DamageError, SourceError


def mention(name: str, sentence: int, first: int) -> dict[str, Any]:
    return {"name": name, "sent_id": sentence, "pos": [first, first + 1], "type": "X"}


DOCUMENT = {
    "title": "D",
    "sents": [["a", "knows", "b", "."], ["a", "rests", "."], ["c", "left", "."], ["d", "."]],
    "vertexSet": [
        [mention("a", 0, 0), mention("a", 1, 0)],
        [mention("b", 0, 2)],
        [mention("c", 2, 0)],
        [mention("d", 3, 0)],
    ],
    "labels": [
        {"r": "P1", "h": 0, "t": 1}, {"r": "P2", "h": 0, "t": 1}, {"r": "P1", "h": 2, "t": 0},
        {"r": "P1", "h": 0, "t": 3}, {"r": "P1", "h": 0, "t": 3},
    ],
}  # fmt: skip


def read(tmp_path: Path, *documents: object) -> tuple[list[TaskExample], DamageReport]:
    path, report = tmp_path / "docs.json", DamageReport(policy=DamagePolicy.SKIP)
    path.write_text(json.dumps(documents), encoding="utf-8")
    examples = list(read_docred(path, report))
    report.check()
    return examples, report


def test_pairs_of_a_document(tmp_path: Path) -> None:
    examples, report = read(tmp_path, DOCUMENT)
    assert [(e.document_pair.head, e.document_pair.tail) for e in examples if e.document_pair] == [
        (0, 1), (0, 2), (1, 0), (2, 0), (2, 3), (3, 2)
    ]  # fmt: skip
    by_pair = {(e.document_pair.head, e.document_pair.tail): e for e in examples if e.document_pair}
    assert by_pair[0, 1].labels == ("P1", "P2")
    assert by_pair[1, 0].labels == ()
    assert by_pair[1, 0].targets == (Mention(8, 9), Mention(0, 1))
    assert by_pair[0, 1].linked.text == "a knows b ."
    near = by_pair[2, 0]
    assert near.linked.text == "a rests . c left ."
    assert [near.linked.text[t.start : t.end] for t in near.targets] == ["c", "a"]
    assert {e.group for e in examples} == {"D"}
    (document,) = {
        id(e.document_pair.document): e.document_pair.document for e in examples if e.document_pair
    }.values()
    assert document.facts == ((0, "P1", 1), (0, "P2", 1), (2, "P1", 0), (0, "P1", 3))
    assert (report.n_lines, report.n_texts, report.n_further) == (1, 6, 5)


def test_faulty_and_empty_documents(tmp_path: Path) -> None:
    far = DOCUMENT | {"vertexSet": [[mention("a", 0, 0)], [mention("d", 3, 0)]], "labels": []}
    lost = DOCUMENT | {"vertexSet": [[mention("a", 0, 3), mention("a", 9, 0)]], "labels": []}
    loose = DOCUMENT | {"labels": [{"r": "P1", "h": 0, "t": 4}]}
    empty = DOCUMENT | {"vertexSet": [[]], "labels": []}
    examples, report = read(tmp_path, far, lost, loose, empty)
    assert not examples
    assert report.skipped == {"a document in which no two entities are near each other": 1}
    assert list(report.reasons) == [
        "entity 0 is in sentence 9 of 4", "P1 joins entities 0 and 4, which are not both",
        "entity 0 has no mention",
    ]  # fmt: skip


def test_training_sees_some_unrelated_pairs_and_whole_documents(tmp_path: Path) -> None:
    many = [
        DOCUMENT | {"title": f"D{i}", "labels": DOCUMENT["labels"][:1]}  # type: ignore[index]
        for i in range(6)
    ]
    examples, _ = read(tmp_path, *many)
    few = thinned(examples, 3)
    assert few == thinned(examples, 3) != thinned(examples, 4)
    n_related = sum(bool(e.labels) for e in examples)
    assert Counter(bool(e.labels) for e in few) == {True: n_related, False: UNRELATED * n_related}
    assert [examples.index(e) for e in few] == sorted(examples.index(e) for e in few)
    chosen = some_of(examples, 20, 1)
    assert Counter(Counter(e.group for e in chosen).values()) == {6: 3}


def test_senses_of_a_word(tmp_path: Path) -> None:
    rows = [
        ("draw", "He drew water .", "Draw a line, draw it well ."),
        ("leaf", "Two leaves fell .", "Nothing here ."),
    ]
    path, report = tmp_path / "wic.jsonl", DamageReport()
    lines = [
        json.dumps({"text": f"Word: {w}. Sentence 1: {a} Sentence 2: {b}", "label": 1})
        for w, a, b in rows
    ]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    examples = list(read_wic(path, report))
    report.check()
    assert report.skipped == {NOT_FOUND: 1}
    places = [[e.linked.text[t.start : t.end] for t in e.targets] for e in examples]
    assert places == [["drew", "Draw"], ["leaves", "Nothing here ."]]
    assert [e.linked.pair_start for e in examples] == [16, 18]
    for text, label in (("Word: a. Sentence 1: b", 1), (lines[0], 2)):
        bad = json.dumps({"text": text if label == 1 else json.loads(text)["text"], "label": label})
        path.write_text(bad, encoding="utf-8")
        with pytest.raises(DamageError, match=r"not .Word|label 2 is neither"):
            list(read_wic(path, DamageReport()))


@pytest.mark.parametrize(
    ("word", "sentence", "form"),
    [
        ("go", "We went along.", "went"), ("Carry", "It carries us.", "carries"),
        ("stop", "He stopped.", "stopped"), ("wife", "Their wives.", "wives"),
        ("tie", "By tying it.", "tying"), ("panic", "They panicked", "panicked"),
        ("quiz", "Two quizzes", "quizzes"), ("foot", "on his feet .", "feet"),
        ("begin", "It has begun .", "begun"), ("write", "I have written it.", "written"),
        ("send", "She sent me there.", "sent"), ("lose", "He lost it", "lost"),
        ("city", "The city's walls", "city"), ("dish", "A dish-cloth", "dish"),
        ("make", "Take the mark made", "made"), ("draw", "A door, drawn.", "drawn"),
        ("be", "To bee or to been.", "been"),
    ],
)  # fmt: skip
def test_forms(word: str, sentence: str, form: str) -> None:
    span = find_form(word, sentence)
    assert span is not None
    assert sentence[span.start : span.end] == form


def test_words_that_are_not_there() -> None:
    assert find_form("house", "A horse in the barn .") is None
    assert find_form("art", "No cart .") is None


def test_bad_rows_of_tacred(tmp_path: Path) -> None:
    row = {"token": ["a", "b"], "relation": "r", "subj_start": 0, "subj_end": 0, "obj_start": 1}
    path = tmp_path / "x.json"
    path.write_text(json.dumps([row | {"obj_end": 2}]), encoding="utf-8")
    with pytest.raises(DamageError, match="tokens 1 to 2 are not among the 2"):
        read_examples(path, "tacred")
    whole = row | {"token": ["-LRB-", "b", "-RRB-"], "obj_end": 2}
    path.write_text(json.dumps([whole]), encoding="utf-8")
    (example,) = read_examples(path, "tacred")
    assert example.linked.text == "( b )"
    assert example.targets == (Mention(0, 1), Mention(2, 5))


def test_members_of_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "cola.zip"
    with zipfile.ZipFile(archive, "w") as sink:
        sink.writestr("raw/dev.tsv", "a\t1\t\tFine.\n\nb\t0\t*\tNot fine.\n")
    assert [e.labels for e in read_examples(archive / "raw/dev.tsv", "cola")] == [("1",), ("0",)]
    with pytest.raises(SourceError, match=r"cola.zip has no member 'raw/test.tsv'"):
        read_examples(archive / "raw/test.tsv", "cola")
    archive.write_bytes(b"PK")
    with pytest.raises(SourceError, match="the zip data are damaged"):
        read_examples(archive / "raw/dev.tsv", "cola")
    bad = tmp_path / "x.tsv"
    bad.write_text("a\t2\t\tFine.\n", encoding="utf-8")
    with pytest.raises(DamageError, match="not source, label 0 or 1"):
        read_examples(bad, "cola")


@pytest.mark.data
def test_real_documents_and_senses(data_root: Path) -> None:
    """Counts of the data's description; 69.7 % of the triples are between near mentions."""
    examples = read_examples(data_root / "re/redocred/dev_revised.json.gz", "docred")
    documents = {e.group: e.document_pair.document for e in examples if e.document_pair}
    assert len(documents) == 500
    assert sum(len(document.names) for document in documents.values()) == 9684
    assert sum(len(document.facts) for document in documents.values()) == 17284
    assert len(examples) == 90808
    assert sum(len(e.labels) for e in examples) == 12050
    for name, n in (("train.jsonl.gz", 5228), ("test.jsonl", 200)):
        report = DamageReport()
        assert len(list(read_wic(data_root / "linguistic/wic" / name, report))) == n
        assert report.skipped == {}
