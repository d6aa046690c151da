"""The UMLS: names, types, definitions and relations, and the rows that are left out."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kg_loaders import DamageReport, KgError, KnowledgeGraph, Source, SourceError, Triple, load
from kg_loaders.build import resolve_format
from kg_loaders.formats.umls import read

CONSO = """\
C0000001|ENG|S|L2|PF|S2|Y|A2||||MSH|ET|D1|Pyrexia|0|N||
C0000001|ENG|P|L1|VO|S4|Y|A4||||SNOMEDCT_US|SY|1|Fevers|0|N||
C0000001|ENG|P|L1|PF|S1|Y|A1||||MSH|MH|D1|Fever|0|N||
C0000001|ENG|P|L1|PF|S1|N|A6||||SNOMEDCT_US|PT|1|Fever|9|N||
C0000001|SPA|P|L3|PF|S3|Y|A3||||MSHSPA|MH|D1|Fiebre|3|N||
C0000001|ENG|S|L5|PF|S5|N|A5||||MSH|ET|D1|Old heat|0|O||
C0000002|ENG|S|L7|VO|S7|N|A7||||MSH|ET|D2|Chill|0|N||
"""
REL = """\
C0000001|A1|SCUI|RO|C0000002|A7|SCUI|sign_of|R1||MSH|MSH|||N||
C0000001|A1|CUI|RB|C0000003|A8|CUI||R2||MSH|MSH|||N||
C0000001|A1|AUI|SY|C0000001|A2|AUI||R3||MSH|MSH|||N||
C0000001|A1|CUI|RO|C0000009|A9|CUI|old|R4||MSH|MSH|||O||
"""
DEF = """\
C0000001|A1|AT1||MSH|Body heat.|N||
C0000001|A3|AT3||MSHSPA|Calor.|N||
"""
STY = "C0000001|T184|A2.2.2|Sign or Symptom|AT2|256|\n"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "META"
    folder.mkdir()
    (folder / "MRCONSO.RRF.gz").write_bytes(gzip.compress(CONSO.encode()))
    for name, text in (("MRREL", REL), ("MRDEF", DEF), ("MRSTY", STY)):
        (folder / f"{name}.RRF").write_text(text)
    return folder


def texts(graph: KnowledgeGraph, name: str) -> tuple[str, list[str], str]:
    entity = graph[name]
    return entity.label, entity.aliases, entity.description


def test_a_release(release: Path) -> None:
    graph, report = load([release])
    report.check()
    assert texts(graph, "C0000001") == ("Fever", ["Fevers", "Pyrexia"], "Body heat.")
    assert texts(graph, "C0000002")[0] == "Chill", "the best name that there is"
    assert list(graph["C0000001"].types) == ["Sign or Symptom"]
    assert set(read(release / "MRREL.RRF", DamageReport())) == {
        Triple("C0000002", "sign_of", "C0000001"), Triple("C0000003", "RB", "C0000001"),
    }  # fmt: skip
    assert report.n_triples == 2
    assert report.skipped == {
        "suppressed row": 2, "relation between two names of one concept": 1,
    }  # fmt: skip
    assert report.n_rejected == 0


def test_languages(release: Path) -> None:
    graph, report = load([release], languages=["es"])
    assert texts(graph, "C0000001") == ("Fiebre", [], "Calor.")
    assert report.skipped["name in another language"] == 5
    assert report.skipped["definition in another language"] == 1


@pytest.mark.parametrize("table", ["MRREL", "MRDEF", "MRSTY", "MRCONSO.gz"])
def test_one_table_by_its_name_or_its_columns(release: Path, tmp_path: Path, table: str) -> None:
    name, _, packed = table.partition(".")
    path = release / f"{name}.RRF{'.gz' if packed else ''}"
    other = tmp_path / f"x.txt{'.gz' if packed else ''}"
    other.write_bytes(path.read_bytes())
    assert resolve_format(path)[0] == resolve_format(other)[0] == "umls"
    assert load([path])[0].content_hash == load([other])[0].content_hash


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("MRREL", REL.splitlines()[0].removesuffix("|"), "not 16 columns, each ended by [|]"),
        ("MRREL", REL.splitlines()[0] + "more", "not 16 columns"),
        ("MRREL", REL.splitlines()[0].replace("RO", "").replace("sign_of", ""), "no relation"),
        ("MRDEF", "C0000001|A1|AT1||MSH||N||", "no definition"),
        ("MRSTY", "|T184|A2.2.2|Sign|AT2|256|", "no concept"),
        ("MRCONSO", CONSO.splitlines()[0].replace("Pyrexia", ""), "no name"),
        ("MRCONSO", CONSO.splitlines()[0].replace("ENG", "E N"), "no language"),
    ],
)
def test_damage_costs_its_row(tmp_path: Path, name: str, line: str, reason: str) -> None:
    good = {"MRREL": REL, "MRDEF": DEF, "MRSTY": STY, "MRCONSO": CONSO}[name]
    path = tmp_path / f"{name}.RRF"
    path.write_text(f"{good}{line}\n\n")
    with pytest.raises(KgError, match=rf"{name}.RRF, line [0-9]+ .*{reason}"):
        load([path])
    _, report = load([path], policy="skip")
    assert (report.n_rejected, report.n_blank) == (1, 1)


def test_what_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds none of MRCONSO\.RRF, .*name the folder META"):
        load([Source(tmp_path, "umls")])
    (tmp_path / "x.txt").write_text("a|b|\n")
    with pytest.raises(SourceError, match=r"its first row has 2 columns.*MRREL 16"):
        load([Source(tmp_path / "x.txt", "umls")])
