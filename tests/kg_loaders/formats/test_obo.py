"""OBO: every clause that says something of a term, and what is left out, counted."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from kg_loaders import DamageReport, KgError, SourceError, Text, TextKind, Triple, load
from kg_loaders.formats.obo import read
from kg_loaders.records import DEPRECATED

ONTOLOGY = r"""format-version: 1.2
default-namespace: sea ! of all
! a comment

[Term]
id: S:1 ! the whole
name: harbour\, old {source="x"} ! not this
def: "A place \"for\" ships\nand boats." [url:http\://a.example, S:x]
synonym: "port" EXACT []
synonym: "haven! {calm}" RELATED OMO:0003012 [a:b] {note="!"}
synonym: "bay" []
exact_synonym: "dock" []
xref: X:1
alt_id: S:9
is_a: S:2 {is_inferred="true ! or so"} ! place
relationship: part_of S\:3 ! coast
intersection_of: S:2 ! place
intersection_of: holds S:4
property_value: near S:5
property_value: depth "7" xsd:integer
property_value: seen http://a.example/p xsd:anyURI

[Term]
id: S:2
name: Ahoy!
namespace: land
is_obsolete: true
replaced_by: S:1
disjoint_from: S:6

[Typedef]
id: part_of
name: part of
def: "Is a part." []
is_a: overlaps
is_transitive: true

[Instance]
id: I:1
instance_of: S:1
is_obsolete: false

[Unheard]
id: U:1
name: nothing
"""


def records(tmp_path: Path, text: str, **options: list[str]) -> tuple[list[object], DamageReport]:
    path = tmp_path / "x.obo"
    path.write_text(text, newline="")
    report = DamageReport("skip")  # type: ignore[arg-type]
    return list(read(path, report, **options)), report


def test_every_clause(tmp_path: Path) -> None:
    got, report = records(tmp_path, ONTOLOGY)
    triples = [record for record in got if isinstance(record, Triple)]
    assert triples == [
        ("S:1", "is_a", "S:2"), ("S:1", "part_of", "S:3"), ("S:1", "is_a", "S:2"),
        ("S:1", "holds", "S:4"), ("S:1", "near", "S:5"),
        ("S:2", "replaced_by", "S:1"), ("S:2", "disjoint_from", "S:6"),
        ("I:1", "instance_of", "S:1"),
    ]  # fmt: skip
    texts = [record for record in got if isinstance(record, Text)]
    assert [(text.node, text.kind, text.value) for text in texts if not text.is_relation] == [
        ("S:1", TextKind.LABEL, "harbour, old"),
        ("S:1", TextKind.DESCRIPTION, 'A place "for" ships\nand boats.'),
        ("S:1", TextKind.ALIAS, "port"), ("S:1", TextKind.ALIAS, "haven! {calm}"),
        ("S:1", TextKind.ALIAS, "bay"), ("S:1", TextKind.ALIAS, "dock"),
        ("S:1", TextKind.TYPE, "sea"),
        ("S:2", TextKind.LABEL, "Ahoy!"), ("S:2", TextKind.TYPE, "land"),
        ("S:2", TextKind.TYPE, DEPRECATED), ("I:1", TextKind.TYPE, "sea"),
    ]  # fmt: skip
    assert [(text.node, text.kind, text.value) for text in texts if text.is_relation] == [
        ("part_of", TextKind.LABEL, "part of"), ("part_of", TextKind.DESCRIPTION, "Is a part."),
        ("part_of", TextKind.TYPE, "sea"),
    ]  # fmt: skip
    assert report.n_rejected == 0
    assert report.skipped == {
        "line of the header": 2, "heading of a stanza": 5, "id of a stanza": 5, "xref": 1,
        "alt_id": 1, "property_value": 2, "is_a of a relation": 1,
        "is_transitive of a relation": 1, "is_obsolete that is not true": 1,
        "line of a stanza [Unheard]": 1,
    }  # fmt: skip
    graph, counted = load([tmp_path / "x.obo"])
    counted.check()
    assert graph.n_triples == len(set(triples))


def test_scopes_of_synonyms(tmp_path: Path) -> None:
    got, report = records(tmp_path, ONTOLOGY, synonyms=["EXACT"])
    values = [r.value for r in got if isinstance(r, Text) and r.kind is TextKind.ALIAS]
    assert values == ["port", "dock"]
    assert report.skipped["synonym of scope RELATED"] == 2
    with pytest.raises(SourceError, match="'close' is none of EXACT, NARROW"):
        records(tmp_path, ONTOLOGY, synonyms=["close"])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("is_a:", "not an identifier"),
        ("is_a: ! only a comment", "not an identifier"),
        ("is_a: S:2 S:3", "is_a with two identifiers"),
        ("is_a: S:2 S:3 S:4", "not an identifier, or two"),
        ("relationship: part_of", "without a relation and a term"),
        ("def: no quotes", "no text in double quotes"),
        ('def: "open', "no text in double quotes"),
        ('synonym: "x" ALMOST []', "scope 'ALMOST' of a synonym"),
        ("no clause", "not `tag: value`"),
        ("[Term", "not `\\[Term\\]`"),
        ("[Term]\nname: early", "before the id of its stanza"),
    ],
)
def test_damage_costs_its_line(tmp_path: Path, line: str, reason: str) -> None:
    text = f"[Term]\nid: S:1\nname: one\n{line}\n\n[Term]\nid: S:2\nname: two\n"
    got, report = records(tmp_path, text)
    assert [record.value for record in got if isinstance(record, Text)] == ["one", "two"]
    assert report.n_rejected == 1
    assert re.search(reason, report.rejections[0].reason)
    with pytest.raises(KgError, match=r"x\.obo, line [45] "):
        load([tmp_path / "x.obo"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_that_go_on(tmp_path: Path, end: str) -> None:
    lines = ("[Term]", "id: S:1", 'def: "one \\', '  two" []', "name: last\\\\", "name: x \\")
    got, report = records(tmp_path, end.join(lines))
    values = [record.value for record in got if isinstance(record, Text)]
    assert values == ["one two", "last\\", "x"]
    assert report.skipped["line that goes on in the next"] == 2
    _, counted = load([tmp_path / "x.obo"])
    counted.check()


def test_the_name_or_the_first_bytes_show_it(tmp_path: Path) -> None:
    (tmp_path / "x.obo.gz").write_bytes(gzip.compress(ONTOLOGY.encode()))
    (tmp_path / "x.txt").write_text(ONTOLOGY)
    assert (
        load([tmp_path / "x.obo.gz"])[0].content_hash == load([tmp_path / "x.txt"])[0].content_hash
    )


@pytest.mark.data
@pytest.mark.parametrize("name", ["cancer", "infectious_disease", "rare"])
def test_the_disease_ontology(name: str, data_root: Path) -> None:
    """Every clause is counted as `grep -c` counts it."""
    path = data_root / f"medical/disease_ontology/DO_{name}_slim.obo.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    report = DamageReport()
    got = list(read(path, report))
    kinds = [record.kind for record in got if isinstance(record, Text)]
    assert report.n_rejected == 0
    for tag, kind in (("name", 0), ("synonym", 1), ("def", 2)):
        assert kinds.count(TextKind(kind)) == sum(line.startswith(f"{tag}: ") for line in lines)
    is_a = {line.split()[1] for line in lines if line.startswith("is_a: ")}
    assert {record.tail for record in got if getattr(record, "relation", "") == "is_a"} == is_a
