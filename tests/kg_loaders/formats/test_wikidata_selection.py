"""What may be chosen of a dump: ranks, qualifiers, properties, classes, sitelinks; and going on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders import DamageReport, KgError, Source, SourceError, Text, TextKind, Triple, load
from kg_loaders.formats import wikidata
from kg_loaders.formats.wikidata import read
from kg_loaders.reading import parts
from tests.kg_loaders.formats.wikidata_dump import (
    Json,
    entities,
    item_value,
    read_with_json,
    write,
)

KINDS = {
    "labels": TextKind.LABEL,
    "aliases": TextKind.ALIAS,
    "descriptions": TextKind.DESCRIPTION,
}


def records(path: Path, **options: Any) -> list[Any]:
    report = DamageReport()
    result = list(read(path, report, **options))
    report.n_triples = sum(isinstance(record, Triple) for record in result)
    report.n_texts = len(result) - report.n_triples
    report.check()
    return sorted(result, key=repr)


def triples(path: Path, **options: Any) -> set[tuple[str, str, str]]:
    return {tuple(r) for r in records(path, **options) if isinstance(r, Triple)}  # type: ignore[misc]


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dump") / "dump.json"
    write(path, 120, odd=True)
    return path


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
def test_it_reads_what_a_loop_with_the_json_module_reads(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int
) -> None:
    path = tmp_path_factory.mktemp("loop") / "dump.json"
    write(path, n, seed=seed, odd=True)
    expected, texts = read_with_json(path)
    assert records(path) == sorted(
        [
            *(Triple(*triple) for triple in expected),
            *(Text(i, KINDS[k], v, tag, 0, i[0] == "P") for i, k, v, tag in texts),  # type: ignore
        ],
        key=repr,
    )


def by_id(**options: Any) -> dict[str, Json]:
    return {entity["id"]: entity for entity in entities(120, odd=True) if "id" in entity}


def statements(entity: Json) -> Iterator[tuple[str, Json, str]]:
    """Property, statement and item of each statement whose value is an item, as loops."""
    for relation, several in (entity.get("claims") or {}).items():
        for one in several:
            value = ((one["mainsnak"] or {}).get("datavalue") or {}).get("value")
            if isinstance(value, dict) and value.get("entity-type") == "item":
                yield relation, one, value.get("id") or f"Q{value['numeric-id']}"


def test_ranks(dump: Path) -> None:
    for ranks, wanted in (("all", ("preferred", "normal")), ("deprecated", None)):
        expected = {
            (id, relation, item)
            for id, entity in by_id().items()
            if id[0] == "Q" and "missing" not in entity and "redirect" not in entity
            for relation, one, item in statements(entity)
            if wanted is None or one["rank"] in wanted
        }
        assert triples(dump, ranks=ranks) == expected
    assert triples(dump) < triples(dump, ranks="all") < triples(dump, ranks="deprecated")


def test_properties_and_sitelinks(dump: Path) -> None:
    every = triples(dump)
    assert triples(dump, properties=["P31", "P17"]) == {t for t in every if t[1] in ("P31", "P17")}
    linked = {id for id, entity in by_id().items() if "enwiki" in (entity.get("sitelinks") or {})}
    assert triples(dump, sitelinks=["enwiki"]) == {t for t in every if t[0] in linked}
    inner = triples(dump, sitelinks=["enwiki"], inner=True)
    assert inner == {t for t in every if t[0] in linked and t[2] in linked}
    assert inner


def test_classes_are_closed_over_subclasses(dump: Path) -> None:
    every = triples(dump)
    classes, grown = {"Q3"}, True
    while grown:
        below = {head for head, relation, tail in every if relation == "P279" and tail in classes}
        grown = not below <= classes
        classes |= below
    assert len(classes) > 5
    members = {head for head, relation, tail in every if relation == "P31" and tail in classes}
    actual = records(dump, instances_of=["Q3"])
    assert {tuple(r) for r in actual if isinstance(r, Triple)} == {
        t for t in every if t[0] in members
    }
    assert {r.node for r in actual if isinstance(r, Text) and not r.is_relation} <= members
    only = records(dump, instances_of=["Q3"], properties=["P17"])
    assert {r.head for r in only if isinstance(r, Triple)} <= members
    assert any(isinstance(r, Triple) for r in only)


def test_statements_with_qualifiers_are_nodes(dump: Path) -> None:
    actual = triples(dump, qualifiers=True)
    direct = {t for t in actual if ":" not in t[1]}
    assert direct == triples(dump)
    qualifiers = {t for t in actual if t[1].startswith("pq:")}
    assert qualifiers
    assert {t[1] for t in qualifiers} == {"pq:P642"}  # dates have no place
    for node in {head for head, _, _ in qualifiers}:
        ((item, link, _),) = [t for t in actual if t[2] == node]
        ((_, value, tail),) = [t for t in actual if t[0] == node and t[1].startswith("ps:")]
        assert (item, link.removeprefix("p:"), tail) in direct
        assert link.removeprefix("p:") == value.removeprefix("ps:")


def test_relations_made_of_qualifiers_have_the_names_of_their_property(tmp_path: Path) -> None:
    statement = {
        "mainsnak": item_value(2), "rank": "normal", "id": "Q1$a",
        "qualifiers": {"P39": [item_value(3)]},
    }  # fmt: skip
    lines = [
        {"id": "P39", "labels": {"en": {"value": "office"}}},
        {"id": "Q1", "claims": {"P39": [statement]}},
    ]
    path = tmp_path / "dump.json"
    path.write_text("\n".join(map(json.dumps, lines)))
    graph, _ = load([Source(path, options={"qualifiers": True})])
    assert {graph.relation_label(i) for i in range(graph.n_relations)} == {"office"}
    assert list(graph.relations) == ["P39", "p:P39", "pq:P39", "ps:P39"]
    del statement["id"]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(KgError, match=r"line 2 .*qualifiers has no id"):
        records(path, qualifiers=True)


@pytest.mark.parametrize(
    "options",
    [{"ranks": "best"}, {"properties": ["country"]}, {"instances_of": ["P5"]},
     {"properties": ["P010"]}],
)  # fmt: skip
def test_options_that_cannot_be(options: dict[str, Any], dump: Path) -> None:
    with pytest.raises(KgError, match=r"is not one of truthy|is not a property|is not a class"):
        records(dump, **options)


class CutError(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize(
    "options", [{}, {"instances_of": ["Q1"], "inner": True}, {"qualifiers": True}]
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_reading_that_was_cut_goes_on(
    options: dict[str, Any], packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikidata, "BLOCK_ROWS", 100)
    monkeypatch.setattr(parts, "PART_ROWS", 150)
    path = tmp_path / "dump.json"
    write(path, 300, odd=True)
    if packed:
        data, path = path.read_bytes(), tmp_path / "dump.json.gz"
        path.write_bytes(gzip.compress(data))
    whole, plain = load([Source(path, options=options)])
    work = tmp_path / "work"
    n_left = 5

    def cut(*arguments: Any, **named: Any) -> None:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise CutError
        written(*arguments, **named)

    written = parts.write_bytes
    monkeypatch.setattr(parts, "write_bytes", cut)
    source = Source(path, options={**options, "work": work})
    with pytest.raises(CutError):
        load([source])
    monkeypatch.setattr(parts, "write_bytes", written)
    seen: list[int] = []
    taken = wikidata.EntityColumns.add
    monkeypatch.setattr(
        wikidata.EntityColumns, "add", lambda self, e: (seen.append(1), taken(self, e))[1]
    )
    graph, report = load([source])
    assert 0 < len(seen) < plain.n_lines - 100
    assert graph.content_hash == whole.content_hash
    assert (report.counts(), report.skipped) == (plain.counts(), plain.skipped)
    seen.clear()
    assert load([source])[0].content_hash == whole.content_hash
    assert not seen
    with pytest.raises(SourceError, match="parts of another reading \\(settings"):
        load([Source(path, options={"ranks": "all", "work": work})])
    part = next(work.glob("*.numbers.arrow"))
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(SourceError, match="remove the folder"):
        load([source])
    parts.remove_parts(work)
    assert not work.exists()


def test_folders_of_parts_are_not_mixed_up(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").touch()
    with pytest.raises(SourceError, match="holds other files"):
        records(dump, work=tmp_path)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "state.json").write_text("{")
    with pytest.raises(SourceError, match=r"state\.json is damaged"):
        records(dump, work=damaged)
    with pytest.raises(SourceError, match="use --damage skip"):
        load(
            [Source(dump, options={"work": tmp_path / "work"})],
            policy="quarantine", quarantine=tmp_path / "aside",
        )  # fmt: skip
