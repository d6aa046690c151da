"""N-Triples and N-Quads in blocks: the same as line by line by the strict parser, for any line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kg_loaders import DamageError, DamageReport, Text, Triple, load
from kg_loaders.damage import DamagePolicy
from kg_loaders.rdf.line_blocks import LineSplitter
from kg_loaders.rdf.reader import read, read_in_blocks
from kg_loaders.rdf.records import RDF_TYPE, RDFS
from kg_loaders.reading import lines as reading
from kg_loaders.reading import unpacking
from kg_loaders.reading.blocks import TextBlock, TripleBlock
from kg_loaders.reading.lines import LineBlock

LABEL = f"{RDFS}label"
FACT = "<u:x> <u:p> <u:y> ."
IRIS = (
    "u:x", "u:p", "http://a.b/c#d", "http://a.b", "http://a.b:80/", "http://u@a.b/", "http://[::1]/",
    "http://a.b/%41", "http://a.b/%4", "http://a.b/%zz", "http://a.b/#x#y", "http://a.b/?q?r",
    "http://a.b/é", "http://a.b/\u00ad", "http://a.b/\ue000", "http://é.b/", "a b", "x", "",
    "http://", "http:///x", "http://a.b//c", "u:", ":x", "u:\U000e0100", "u:x\u200e", "u:\ufdd0",
    "u:a|b", "u:a`b", "u:a^b", "u:{}", 'u:"', "1u:x", "u+1:x", "http://a.b/c[d]", "//a.b/", "u:x<y",
    "u:[", "urn:x:y/z", "u:/x", "u://", "u:x\\u0041", RDF_TYPE, LABEL, "http://a_b/", "http://a.b/\ufffe",
)  # fmt: skip
TEXTS = ("", "a", 'a\\"b', "é<u:x>", "a > b", "<<" * 300, "a\tb", "\x07", "\\u00e9", "# x", ". ")
ENDINGS = (
    " .", ".", " . ", "  .", "\t.", " . # c", " .# <u:x>", "", " . .", f" . {FACT}", " ;",
    " . # <<<<", " <u:g> .", " _:g .", " <g> .", "@en .", " ,",
)  # fmt: skip
KINDS = (
    "", "@en", "@en-GB", "@e-", "@EN", "^^<u:t>", "^^<t>", "^^u:t", "@de--ltr", "@en^^<u:t>",
    "^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>",
)  # fmt: skip
GAPS = st.sampled_from([" "] * 12 + ["", "  ", "\t"])
TERMS = st.one_of(
    st.sampled_from(["<u:x>", "<u:p>", "<u:y>", f"<{LABEL}>", f"<{RDF_TYPE}>"]),
    st.sampled_from(IRIS).map("<{}>".format),
    st.sampled_from(["_:b", "_:", "<<( <u:x> <u:p> <u:y> )>>", '"x"', "u:x"]),
)
OBJECTS = st.one_of(
    TERMS,
    st.tuples(st.sampled_from(TEXTS), st.sampled_from(KINDS)).map(lambda t: f'"{t[0]}"{t[1]}'),
)
STATEMENTS = st.tuples(
    st.sampled_from([""] * 8 + [" ", "\ufeff"]), TERMS, GAPS, TERMS, GAPS, OBJECTS,
    st.one_of(st.just(" ."), st.sampled_from(ENDINGS)),
).map("".join)  # fmt: skip
EDITS = st.tuples(
    STATEMENTS,
    st.integers(0, 60),
    st.integers(0, 3),
    st.sampled_from(["", " ", ".", "<", ">", '"', "\\", "#", "\r", "@", "_:", "é", "\0", "> <"]),
).map(lambda e: e[0][: e[1]] + e[3] + e[0][e[1] + e[2] :])
OWL = "http://www.w3.org/2002/07/owl#"
XL = "http://www.w3.org/2008/05/skos-xl#"
WD = "http://www.wikidata.org/"
WIKIBASE = "http://wikiba.se/ontology#"
NODES = ("<u:x>", "<u:y>", "<u:p>", "_:b", "_:c", "<http://a.b/.well-known/genid/b>",
         f"<{WD}entity/P1>", f"<{WD}entity/Q1>", "<u:e/entity/P2>")  # fmt: skip
TOGETHER = st.tuples(
    st.sampled_from(NODES),
    st.sampled_from([
        f"<{OWL}onProperty>", f"<{OWL}someValuesFrom>", f"<{OWL}intersectionOf>",
        f"<{OWL}deprecated>", "<http://www.geneontology.org/formats/oboInOwl#is_obsolete>",
        f"<{RDFS}subClassOf>", f"<{XL}prefLabel>", f"<{XL}altLabel>", f"<{XL}literalForm>",
        f"<{WIKIBASE}directClaim>", f"<{WIKIBASE}claim>", f"<{LABEL}>", f"<{RDF_TYPE}>", "<u:p>",
        f"<{WD}prop/direct/P1>", f"<{WD}prop/P1>", "<u:e/prop/direct/P2>",
        f"<{RDF_TYPE.removesuffix('type')}first>", f"<{RDF_TYPE.removesuffix('type')}rest>",
    ]),
    st.sampled_from([
        *NODES, '"true"', '"one"@en', '"one"@en-us', f"<{XL}Label>", f"<{OWL}DeprecatedClass>",
        "<http://www.geneontology.org/formats/oboInOwl#ObsoleteClass>", f"<{WD}prop/direct/P1>",
        f"<{WD}prop/P1>", '""',
    ]),
).map(lambda terms: " ".join((*terms, ".")))  # fmt: skip
"""Statements that say something with others of the file."""
LINES = st.one_of(
    STATEMENTS, EDITS, TOGETHER, TOGETHER, TOGETHER,
    st.sampled_from([FACT, "", "# c", " \t", FACT + "\r", "\r"]),
)  # fmt: skip
OPTIONS: Sequence[dict[str, Any]] = (
    {}, {"types": "both"}, {"types": "text", "languages": ["en"]}, {"relation_prefixes": ["u:p"]},
    {"prefixes": {"http://a.b/": "", "u:": "v:", "u:x": ""}},
    {"prefixes": {f"{WD}entity/": "", f"{WD}prop/direct/": ""}},
)  # fmt: skip


def written(path: Path, lines: Sequence[str], end: str = "\n") -> Path:
    path.write_bytes("\n".join(lines).encode() + end.encode())
    return path


def outcome(reader: Any, path: Path, **options: Any) -> list[object]:
    """All that a reader says: records, counts, what was skipped and rejected, and where."""
    report = DamageReport(DamagePolicy.SKIP)
    records: list[Triple | Text] = []
    for item in reader(path, report, **options):
        records += item.records() if isinstance(item, TripleBlock | TextBlock) else [item]
    report.n_triples, report.n_texts = len(records), 0
    report.check()
    rejections = sorted((r.line, r.byte_offset, r.reason) for r in report.rejections)
    counts = report.counts()
    return [sorted(map(repr, records)), counts, report.skipped, report.reasons, rejections]


@settings(deadline=None)
@given(
    st.lists(LINES, min_size=1, max_size=12), st.sampled_from(["nt", "nq"]),
    st.sampled_from(OPTIONS), st.sampled_from(["\n", "", "\r\n"]),
)  # fmt: skip
@example([FACT, 'x"', FACT], "nt", {}, "\n")
@example(['<u:x> <u:p> "<<<" . # <<<'], "nt", {}, "")
@example([f'<u:p> <{LABEL}> "p" .', FACT, "<u:p> <u:p> <u:p> .", "<u:x> <u:q>"], "nt", {}, "\n")
@example(["<u:x> <u:p> <u:y> <u:g> .", "<u:x> <u:p> <u:y> <g> ."], "nq", {}, "\n")
def test_blocks_say_what_lines_say(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    format: str,
    options: dict[str, Any],
    end: str,
) -> None:
    path = written(tmp_path_factory.mktemp("rdf") / f"x.{format}", lines, end)
    assert outcome(read_in_blocks, path, **options) == outcome(read, path, **options)


@pytest.mark.parametrize("iri", IRIS)
def test_an_iri_is_judged_as_by_the_strict_parser(iri: str, tmp_path: Path) -> None:
    for line in (f"<{iri}> <u:p> <u:y> .", f"<u:x> <{iri}> <u:y> .", f"<u:x> <u:p> <{iri}> ."):
        path = written(tmp_path / "x.nt", [line])
        assert outcome(read_in_blocks, path) == outcome(read, path)


PRINTABLE = [chr(code) for code in [*range(0x21, 0x180), 0xD7FF, 0xE000, 0xF8FF, 0xF900, 0xFDCF]]
PRINTABLE += [chr(c) for c in (0xFDD0, 0xFDEF, 0xFDF0, 0xFFEF, 0xFFF0, 0xFFFD, 0x1FFFD, 0x1FFFE)]
PLACES = ("u:{}", "u:x{}", "{}:x", "u{}:x", "http://{}/", "http://a{}/", "http://a/{}", "http://a/?{}",
          "http://a/#{}", "http://a/b{}c/d")  # fmt: skip


@pytest.mark.parametrize("template", PLACES)
def test_every_character_of_an_iri(template: str, tmp_path: Path) -> None:
    """Wherever it stands; a regular line is never one that the strict parser refuses."""
    lines = [f"<{template.format(c)}> <u:p> <u:y> ." for c in PRINTABLE]
    path = written(tmp_path / "x.nt", lines)
    assert outcome(read_in_blocks, path) == outcome(read, path)


def test_regular_lines_are_split_at_once() -> None:
    """What dumps are made of is no odd line, or the fast path would be one in name alone."""
    lines = [
        FACT, f'<u:x> <{LABEL}> "a b"@en .', '<u:x> <u:n> "5"^^<u:int> .', "<u:x> <u:p> <u:y>.",
        "<http://www.wikidata.org/entity/Q1> <http://schema.org/name> <http://a.b/c_(d)#e> .",
        '<u:x> <u:p> "unclosed .', "<u:x> <u:p>  <u:y> .", "<http://a.b:80/> <u:p> <u:é> . # c",
    ]  # fmt: skip
    splitter = LineSplitter(ox.RdfFormat.N_TRIPLES)
    for end in ("\n", "\r\n"):
        block = LineBlock(1, 0, end.join([*lines, ""]).encode())
        statements, odd = splitter.split(block)
        assert odd.tolist() == [False] * 3 + [False, False, True, True, False]
        assert statements is not None
        assert len(statements) == 6
        assert statements.languages[statements.language_ids[1]] == "en"
        assert statements.terms[int(statements.objects[1])].as_py() == "a b"


def test_blocks_meet_at_any_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"<u:{i % 7}> <u:p{i % 3}> <u:{i % 11}> ." for i in range(300)]
    lines[100:103] = [f'<u:p1> <{LABEL}> "one"@en .', "bad", "_:b <u:p> <u:y> ."]
    lines[200] = "# " + "c" * 500
    path = written(tmp_path / "x.nt", lines)
    whole = outcome(read_in_blocks, path)
    hash_of_whole = load([path], policy="skip")[0].content_hash
    for size in (1, 100, 4000):
        monkeypatch.setattr(unpacking, "BLOCK_BYTES", size)
        monkeypatch.setattr(reading, "LINE_BLOCK_BYTES", size)
        assert outcome(read_in_blocks, path) == whole == outcome(read, path)
        assert load([path], policy="skip")[0].content_hash == hash_of_whole


@pytest.mark.parametrize("line_number", [0, 1, 5000, 9999])
def test_a_bad_line_is_named_where_it_is(line_number: int, tmp_path: Path) -> None:
    lines = [f"<u:{i}> <u:p> <u:y> ." for i in range(10_000)]
    offset = len("\n".join([*lines[:line_number], ""]))
    lines[line_number] = '<u:x> <u:p> "\\q" .'
    path = written(tmp_path / "x.nt", lines)
    with pytest.raises(DamageError, match=rf"x\.nt, line {line_number + 1} \(byte {offset}\)"):
        load([path])
    graph, report = load([path], policy="skip")
    assert (graph.n_triples, report.n_rejected, report.n_lines) == (9999, 1, 10_000)
