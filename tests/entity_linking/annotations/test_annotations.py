"""Readers and the writer of annotated text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import Candidate, Link, LinkedText, LinkingError, Mention, gold_link
from entity_linking.annotations import (
    Excerpt,
    TypedText,
    read_elevant,
    read_elevant_articles,
    read_elevant_typed,
    read_jsonl,
    read_tagme,
    to_json,
    write_jsonl,
)
from kg_loaders import DamageError, SourceError
from kg_loaders.damage import DamagePolicy, DamageReport

SHARE = st.floats(0, 1)
CANDIDATES = st.lists(
    st.builds(Candidate, st.text(st.characters(exclude_categories=["Cs"])), SHARE, SHARE),
    max_size=3,
).map(tuple)


@st.composite
def linked_texts(draw: st.DrawFn) -> LinkedText:
    text = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
    links = []
    for _ in range(draw(st.integers(0, 3)) if text else 0):
        start = draw(st.integers(0, len(text) - 1))
        mention = Mention(start, draw(st.integers(start + 1, len(text))))
        entity = draw(st.none() | st.sampled_from(["Q1", "é", "a b"]))
        default = gold_link(mention.start, mention.end, entity)
        links.append(
            draw(
                st.just(default)
                | st.builds(Link, st.just(mention), CANDIDATES, st.just(entity), SHARE)
            )
        )
    links.sort(key=lambda link: link.mention)
    starts = [
        start
        for start in range(1, len(text))
        if all(not link.mention.start < start < link.mention.end for link in links)
    ]
    pair_start = draw(st.sampled_from([None, *starts]))
    return LinkedText(text, tuple(links), draw(st.sampled_from(["", "7", "α"])), pair_start)


@settings(deadline=None)
@given(st.lists(linked_texts(), max_size=5))
def test_writing_and_reading_is_the_identity(
    tmp_path_factory: pytest.TempPathFactory, texts: list[LinkedText]
) -> None:
    path = tmp_path_factory.mktemp("round") / "texts.jsonl"
    assert write_jsonl(texts, path) == len(texts)
    report = DamageReport()
    assert list(read_jsonl(path, report)) == texts
    report.check()
    assert [file.name for file in path.parent.iterdir()] == ["texts.jsonl"]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text("old", encoding="utf-8")

    def texts() -> object:
        yield LinkedText("a", ())
        raise RuntimeError("cut")

    with pytest.raises(RuntimeError, match="cut"):
        write_jsonl(texts(), path, force=True)  # type: ignore[arg-type]
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_defaults_of_our_own_format(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl.gz"
    row = {"text": "In Paris.", "mentions": [{"start": 3, "end": 8, "entity": "Q90"}]}
    path.write_bytes(gzip.compress(json.dumps(row).encode() + b"\n\n"))
    report = DamageReport()
    assert list(read_jsonl(path, report)) == [LinkedText("In Paris.", (gold_link(3, 8, "Q90"),))]
    assert (report.n_lines, report.n_texts, report.n_blank) == (2, 1, 1)
    assert json.loads(to_json(LinkedText("a", (gold_link(0, 1, None),)))) == {
        "id": "", "text": "a",
        "mentions": [{"start": 0, "end": 1, "entity": None}],
    }  # fmt: skip


FAULTS = [
    ('{"text": "ab", "mentions": [{"start": 1, "end": 3, "entity": "Q1"}]}', "ends after the text"),
    ('{"text": "ab", "mentions": [{"start": 1, "end": 1, "entity": "Q1"}]}', "0 <= start < end"),
    ('{"text": "ab", "mentions": [{"start": "1", "end": 2, "entity": "Q1"}]}', "Expected `int`"),
    ('{"text": "ab", "mentions": [], "pair_start": 2}', "not inside the text"),
    (
        '{"text": "ab", "mentions": [{"start": 0, "end": 2, "entity": "Q1"}], "pair_start": 1}',
        "reaches into the second text",
    ),
    ('{"text": "ab"}', "missing required field `mentions`"),
    ('{"text": "ab", "mentions": [', "truncated"),
    (
        '{"text": "ab", "mentions": [{"start": 0, "end": 1, "entity": null, "confidence": 2}]}',
        "outside",
    ),
]


@pytest.mark.parametrize(("row", "reason"), FAULTS)
def test_faulty_rows_are_named_with_their_place(tmp_path: Path, row: str, reason: str) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a", "mentions": []}\n' + row + "\n", encoding="utf-8")
    with pytest.raises(DamageError, match=rf"texts.jsonl, line 2 \(byte 30\).*{reason}"):
        list(read_jsonl(path, DamageReport()))
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert len(list(read_jsonl(path, report))) == 1
    assert (report.n_texts, report.n_rejected) == (1, 1)
    report.check()


def test_elevant(tmp_path: Path) -> None:
    article = {
        "id": 3,
        "text": "Zero. Paris, Texas in 1999.",
        "evaluation_span": [6, 27],
        "labels": [
            {"span": [22, 26], "entity_id": "DATETIME", "name": "1999", "type": "DATE"},
            {"span": [6, 18], "entity_id": "Q830149"},
            {"span": [13, 18], "entity_id": "Q1439"},
            {"span": [0, 4], "entity_id": "Q204"},
        ],
    }
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(article), encoding="utf-8")
    (linked,) = read_elevant(path, DamageReport())
    assert linked.id == "3"
    assert [
        (linked.text[link.mention.start : link.mention.end], link.entity) for link in linked.links
    ] == [("Paris, Texas", "Q830149"), ("Texas", "Q1439"), ("1999", None)]


def test_elevant_types_follow_their_labels(tmp_path: Path) -> None:
    labels = [
        {"span": [6, 10], "entity_id": "DATETIME", "type": "DATETIME"},
        {"span": [0, 5], "entity_id": "Q90", "type": "Q486972|Q43229"},
        {"span": [0, 2], "entity_id": "<NIL>"},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": 1, "text": "Paris 1999", "labels": labels}))
    (typed,) = read_elevant_typed(path, DamageReport())
    assert [link.mention for link in typed.linked.links] == [
        Mention(0, 2), Mention(0, 5), Mention(6, 10),
    ]  # fmt: skip
    assert typed.types == ((), ("Q486972", "Q43229"), ("DATETIME",))
    assert [typed.linked] == list(read_elevant(path, DamageReport()))
    short = typed.without("DATETIME")
    assert (len(short.linked.links), short.types) == (2, typed.types[:2])
    with pytest.raises(LinkingError, match="2 types for 3 links"):
        TypedText(typed.linked, typed.types[:2])


def test_tagme(tmp_path: Path) -> None:
    row = {"sent": "Glenn Ford in LRB", "start": 0, "end": 10, "labels": ["person"],
           "ents": [["Q1869064", 14, 17, 0.16], ["Q212048", 0, 10, 0.7]]}  # fmt: skip
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([row, row | {"end": 99}, row]), encoding="utf-8")
    report = DamageReport(policy=DamagePolicy.SKIP)
    first, second = read_tagme(path, report, min_confidence=0.3)
    assert first == second
    assert (first.mention, first.types) == (Mention(0, 10), ("person",))
    assert [(link.entity, link.confidence) for link in first.linked.links] == [("Q212048", 0.7)]
    assert (report.units, report.n_lines, report.n_rejected) == ("rows", 3, 1)
    rejection = report.rejections[0]
    raw = path.read_bytes()
    assert raw[rejection.byte_offset :].startswith(b'{"sent"')
    assert rejection.line == 2
    path.write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(SourceError, match=r"dev.json: Expected `array`"):
        list(read_tagme(path, DamageReport()))


@pytest.mark.data
def test_open_entity_links(data_root: Path) -> None:
    counts = []
    for split in ("train", "dev", "test"):
        report = DamageReport()
        path = data_root / f"typing/open_entity_wiki/ernie_9types/{split}.json.gz"
        rows = list(read_tagme(path, report))
        report.check()
        counts.append((len(rows), sum(len(row.linked.links) for row in rows)))
    assert counts == [(693, 2428), (674, 2227), (710, 2403)]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_texts", "n_items", "n_other"),
    [("kore50.benchmark.jsonl", 50, 143, 1), ("rss-500.benchmark.jsonl.gz", 500, 518, 482),
     ("reuters-128.benchmark.jsonl.gz", 128, 623, 257),
     ("oke-2016-train.benchmark.jsonl.gz", 196, 869, 180),
     ("wiki-fair-v2.benchmark.jsonl.gz", 120, 2344, 1027)],
)  # fmt: skip
def test_elevant_benchmarks(
    data_root: Path, name: str, n_texts: int, n_items: int, n_other: int
) -> None:
    texts = list(read_elevant(data_root / "el" / name, DamageReport()))
    entities = [link.entity for text in texts for link in text.links]
    assert (len(texts), len(entities) - entities.count(None), entities.count(None)) == (
        n_texts, n_items, n_other,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["Q", "Q\u0661", "Q\u00b2", "Q1_0", "q1", "<NIL>"])
def test_what_is_no_item_of_wikidata_is_nil(tmp_path: Path, name: str) -> None:
    labels = [{"span": [0, 5], "entity_id": name}, {"span": [6, 10], "entity_id": "Q12"}]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": 1, "text": "Paris 1999", "labels": labels}))
    (linked,) = read_elevant(path, DamageReport())
    assert [link.entity for link in linked.links] == [None, "Q12"]


def test_links_move_between_an_article_and_its_excerpt() -> None:
    article = Excerpt("Ann left Ulm. She saw Paris. Bob slept.", 14, 28, "7")
    assert article.excerpt == "She saw Paris."
    excerpt = LinkedText(article.excerpt, (gold_link(8, 13, "Q90"),), "7")
    around = LinkedText(
        article.text,
        tuple(gold_link(a, b, e) for a, b, e in ((0, 3, "Q1"), (14, 17, "Q1"), (29, 32, "Q2"))),
    )
    whole = article.placed(excerpt, around)
    named = [article.text[k.mention.start : k.mention.end] for k in whole.links]
    assert named == ["Ann", "Paris", "Bob"]  # what the article has inside gives way
    assert article.cut(whole) == excerpt
    with pytest.raises(LinkingError, match="excerpt 3 to 99 is not inside the article 7"):
        Excerpt("short", 3, 99, "7")


@pytest.mark.data
def test_articles_are_read_whole(data_root: Path) -> None:
    path = data_root / "el" / "wiki-fair-v2.benchmark.jsonl.gz"
    articles = list(read_elevant_articles(path, DamageReport()))
    cropped = list(read_elevant(path, DamageReport()))
    assert [article.excerpt for article in articles] == [text.text for text in cropped]
    assert sum(len(article.text) for article in articles) > 2 * sum(len(t.text) for t in cropped)


def test_plain_text_in_the_place_of_linked_texts_names_the_command_that_links(
    tmp_path: Path,
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Anna met Bruno.\n", encoding="utf-8")
    with pytest.raises(DamageError, match=r"not JSON lines.*kept link .*notes\.txt --kg KG"):
        list(read_jsonl(path, DamageReport()))
    path.write_text('\ufeff {"text": "Anna", "mentions": 3}\n', encoding="utf-8")
    with pytest.raises(DamageError) as caught:
        list(read_jsonl(path, DamageReport()))
    assert "kept link" not in str(caught.value)
