"""Wikidata's JSON dump, on hand-made lines."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kg_loaders import DamageError, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.formats.wikidata import read, read_in_blocks

Json = dict[str, Any]


def value(id: str, **more: Any) -> Json:
    kind = {"Q": "item", "P": "property", "L": "lexeme"}.get(id[:1], "item")
    datavalue = {"value": {"entity-type": kind, "id": id, **more}, "type": "wikibase-entityid"}
    return {"snaktype": "value", "property": "P0", "datavalue": datavalue}


def other(kind: str, content: Any) -> Json:
    return {"snaktype": "value", "datavalue": {"value": content, "type": kind}}


def statement(mainsnak: Json, rank: str = "normal") -> Json:
    return {"mainsnak": mainsnak, "type": "statement", "id": "x$1", "rank": rank, "references": []}


def terms(**by_language: str) -> Json:
    return {tag: {"language": tag, "value": text} for tag, text in by_language.items()}


def entity(id: str, claims: dict[str, list[Json]] | list[Any] | None = None, **more: Any) -> Json:
    kind = {"Q": "item", "P": "property"}.get(id[:1], "lexeme")
    return {"type": kind, "id": id, "claims": claims or [], "sitelinks": {}, **more}


def dump(tmp_path: Path, *entities: Json | str, name: str = "dump.json") -> Path:
    lines = [line if isinstance(line, str) else json.dumps(line) for line in entities]
    path = tmp_path / name
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return path


def load(path: Path, report: DamageReport | None = None, **options: Any) -> list[Triple | Text]:
    report = report or DamageReport()
    records = list(read(path, report, **options))
    report.n_triples = sum(isinstance(record, Triple) for record in records)
    report.n_texts = len(records) - report.n_triples
    report.check()
    return sorted(records, key=repr)


PARIS = entity(
    "Q90",
    {
        "P17": [
            statement(value("Q142")),
            statement(value("Q3", **{"numeric-id": 3}), "deprecated"),
        ],
        "P6": [
            statement(value("Q1")),
            statement(value("Q2"), "preferred"),
            statement({"snaktype": "somevalue"}, "preferred"),
        ],
        "P31": [statement(value("Q515"))],
    },
    labels=terms(en="Paris", fr="Paris", mul="Paris!"),
    aliases={"en": [{"language": "en", "value": v} for v in ("City of Light", "Lutetia")]},
    descriptions=terms(en="capital of France", de="Hauptstadt"),
)
COUNTRY = entity(
    "P17", {"P1629": [statement(value("Q6256"))]}, labels=terms(en="country"), aliases=[],
    descriptions=terms(en="sovereign state"),
)  # fmt: skip
EXPECTED: list[Triple | Text] = sorted(
    [
        Text("Q90", TextKind.LABEL, "Paris", "en"),
        Text("Q90", TextKind.LABEL, "Paris!", "mul"),
        Text("Q90", TextKind.ALIAS, "City of Light", "en"),
        Text("Q90", TextKind.ALIAS, "Lutetia", "en"),
        Text("Q90", TextKind.DESCRIPTION, "capital of France", "en"),
        Triple("Q90", "P17", "Q142"),
        Triple("Q90", "P6", "Q2"),
        Triple("Q90", "P31", "Q515"),
        Text("P17", TextKind.LABEL, "country", "en", 0, True),
        Text("P17", TextKind.DESCRIPTION, "sovereign state", "en", 0, True),
    ],
    key=repr,
)
OF_COUNTRY = [record for record in EXPECTED if "P17" in (record[0], record[1]) and len(record) > 3]


def test_items_and_properties(tmp_path: Path) -> None:
    report = DamageReport()
    records = load(dump(tmp_path, PARIS, COUNTRY), report)
    assert records == EXPECTED
    assert report.skipped == {
        "deprecated statement": 1,
        "statement below the best rank": 1,
        "somevalue": 1,
        "statement about a property": 1,
    }
    assert (report.n_lines, report.n_blank, report.n_further) == (4, 2, 12)
    graph = graph_from_records(records)
    assert graph.relation_label(graph.relations.id("P17")) == "country"
    assert graph.entities.find("P17") is None


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".zst"])
def test_compressed_dumps(suffix: str, tmp_path: Path) -> None:
    data = dump(tmp_path, PARIS, COUNTRY).read_bytes()
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}
    path = tmp_path / f"packed.json{suffix}"
    path.write_bytes(pack[suffix](data))
    assert load(path) == EXPECTED


def test_languages(tmp_path: Path) -> None:
    path = dump(tmp_path, PARIS)
    of = {
        languages: sorted(
            t.language for t in load(path, languages=languages) if isinstance(t, Text)
        )
        for languages in (("de", "fr"), (), None)
    }
    assert of == {
        ("de", "fr"): ["de", "fr", "mul"],
        (): ["mul"],
        None: ["de", "en", "en", "en", "en", "fr", "mul"],
    }


def test_instance_of_may_be_a_type_text(tmp_path: Path) -> None:
    path = dump(tmp_path, PARIS)
    text, triple = Text("Q90", TextKind.TYPE, "Q515"), Triple("Q90", "P31", "Q515")
    for types, present in (("triple", (0, 1)), ("text", (1, 0)), ("both", (1, 1))):
        records = load(path, types=types)
        assert (records.count(text), records.count(triple)) == present


def claims(*mainsnaks: Json | None) -> dict[str, list[Json]]:
    return {"P1": [{"rank": "normal", **({"mainsnak": s} if s else {})} for s in mainsnaks]}


OLD = {"entity-type": "item", "numeric-id": 7}
SKIPPED = {
    "deleted entity": {"id": "Q1", "missing": ""},
    "redirect": {"id": "Q1", "redirect": "Q2"},
    "lexeme": {"type": "lexeme", "id": "L1", "lemmas": terms(en="run"), "claims": {"P1": []}},
    "media file": {"type": "mediainfo", "id": "M1", "statements": []},
    "entity schema": {"id": "E10"},
    "entity of an unknown kind": {"id": "X10"},
    "entity without an id": {"type": "item", "labels": terms(en="nameless")},
    "entity of which nothing is asked for": {"id": "Q1"},
    "empty text": entity("Q1", labels=terms(en="")),
    "novalue": entity("Q1", claims({"snaktype": "novalue"})),
    "somevalue": entity("Q1", claims({"snaktype": "somevalue", "datatype": "time"})),
    "statement without a value": entity("Q1", claims({"snaktype": "value"})),
    "value of type time": entity("Q1", claims(other("time", {"time": "+1950-00-00T00:00:00Z"}))),
    "value of type string": entity("Q1", claims(other("string", "x"))),
    "value of type unknown": entity("Q1", claims(other("musical-notation-2", "x"))),
    "property as value": entity("Q1", claims(value("P5"))),
    "lexeme as value": entity("Q1", claims(value("L5-F1"))),
    "entity of an unknown kind as value": entity("Q1", claims(other("wikibase-entityid", {}))),
}


@pytest.mark.parametrize("reason", SKIPPED)
def test_what_has_no_place_is_counted(reason: str, tmp_path: Path) -> None:
    report = DamageReport()
    assert load(dump(tmp_path, SKIPPED[reason]), report) == []
    assert report.skipped == {reason: 1}


def test_a_statement_without_a_snak_and_ids_of_old_dumps(tmp_path: Path) -> None:
    report = DamageReport()
    line = entity("Q1", claims(None, other("wikibase-entityid", OLD)))
    assert load(dump(tmp_path, line), report) == [Triple("Q1", "P1", "Q7")]
    assert report.skipped == {"statement without a value": 1}


@pytest.mark.parametrize("options", [{}, {"qualifiers": True}, {"types": "both"}])
def test_a_wrong_value_undoes_all_of_its_entity(options: Json, tmp_path: Path) -> None:
    bad = claims(value("Q2"), other("time", {}), value("P5"), other("wikibase-entityid", 7))
    qualified = {**statement(value("Q8")), "qualifiers": {"P9": [value("Q9")]}}
    line = entity(
        "Q1", {"P31": [qualified], **bad}, labels=terms(en="one"), descriptions=terms(en="")
    )
    report = DamageReport(DamagePolicy.SKIP)
    records = load(dump(tmp_path, line, PARIS), report, **options)
    assert {record[0] for record in records} == {"Q90"}
    assert report.skipped == {
        "deprecated statement": 1, "statement below the best rank": 1, "somevalue": 1
    }  # fmt: skip
    assert "got 7" in str(report.rejections[0])


@pytest.mark.parametrize(
    "options",
    [{"instances_of": ["Q7"]}, {"instances_of": ["Q7"], "properties": ["P2"]}, {"types": "both"}],
)
def test_numbers_stand_for_ids_of_old_dumps(options: Json, tmp_path: Path) -> None:
    old = other("wikibase-entityid", OLD)
    line = entity("Q1", {"P31": [statement(old)], "P2": [statement(value("Q3")), statement(old)]})
    every = {("P31", "Q7"), ("P2", "Q3"), ("P2", "Q7")}
    actual = load(dump(tmp_path, line), **options)
    wanted = options.get("properties", ["P2", "P31"])
    assert {tuple(t[1:]) for t in actual if isinstance(t, Triple)} == {
        each for each in every if each[0] in wanted
    }


def test_an_item_of_which_nothing_is_said_is_no_entity_whatever_else_is_read(
    tmp_path: Path,
) -> None:
    """The names of a block are numbers behind Q, or else strings: both hold the same."""
    silent = entity("Q5", claims({"snaktype": "novalue"}))
    for other_item in ("Q6", "Qodd"):
        records = load(dump(tmp_path, silent, entity(other_item, claims(value("Q7")))))
        graph = graph_from_records(records)
        blocks = list(read_in_blocks(tmp_path / "dump.json", DamageReport()))
        assert list(graph_from_records(blocks).entities) == list(graph.entities)
        assert "Q5" not in graph.entities


def test_line_ends_and_bytes_that_no_line_may_hold(tmp_path: Path) -> None:
    lines = ["[", json.dumps(PARIS) + ",", json.dumps(COUNTRY), "]"]
    path = tmp_path / "dump.json"
    for end in ("\n", "\r\n"):
        path.write_bytes(end.join(lines).encode())
        assert load(path) == EXPECTED
    for raw, reason in ((b'{"id": "Q1\0"}', "NUL byte"), (b'{"id": "\xff"}', "not UTF-8")):
        path.write_bytes(b"\r\n".join([*map(str.encode, lines[:2]), raw, lines[2].encode()]))
        report = DamageReport(DamagePolicy.SKIP)
        assert load(path, report) == EXPECTED
        assert [(each.line, each.reason) for each in report.rejections] == [(3, reason)]


DAMAGE = {
    "cut": json.dumps(PARIS)[:-9],
    "garbage": "!!!",
    "two entities": json.dumps(COUNTRY) + json.dumps(COUNTRY),
    "another array": json.dumps([COUNTRY]),
    "number as id": '{"id": 90}',
    "null id": '{"id": null}',
    "label without a value": '{"id": "Q1", "labels": {"en": {"language": "en"}}}',
    "labels in a list": '{"id": "Q1", "labels": ["one"]}',
    "claims are a string": '{"id": "Q1", "claims": "none"}',
    "malformed value": json.dumps(entity("Q1", claims(other("wikibase-entityid", "Q2")))),
    "lone surrogate": '{"id": "Q1", "labels": {"en": {"value": "\\ud800"}}}',
    "10 million characters": "z" * 10_000_000,
}


@pytest.mark.parametrize("case", DAMAGE)
def test_malformed_lines(case: str, tmp_path: Path) -> None:
    path = dump(tmp_path, PARIS, DAMAGE[case], COUNTRY)
    with pytest.raises(DamageError, match=r"dump\.json, line 3 \(byte \d+\): not an entity"):
        load(path)
    for policy, sink in ((DamagePolicy.SKIP, None), (DamagePolicy.QUARANTINE, tmp_path / "bad")):
        report = DamageReport(policy, sink)
        assert load(path, report) == EXPECTED
        assert report.n_rejected == 1
    assert (tmp_path / "bad").read_text() == f"{DAMAGE[case]},\n"


def test_a_dump_that_ends_early_keeps_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(f"[\n{json.dumps(COUNTRY)},\n" + json.dumps(PARIS)[:50])
    report = DamageReport(DamagePolicy.SKIP)
    assert load(path, report) == OF_COUNTRY
    assert report.n_rejected == 1
