"""Relative IRIs: resolved by RFC 3986, or the file is refused."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urljoin

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders import DamageReport, SourceError, Triple
from kg_loaders.damage import DamagePolicy
from kg_loaders.rdf.bases import BaseWatch, has_dot_segments
from kg_loaders.rdf.reader import read
from kg_loaders.reading.unpacking import BLOCK_BYTES

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DOTTED = "http://e.org/a/b/../c/"
WITHOUT_DOTS = "http://e.org/a/c/"
P = "http://e.org/p"


def jsonld(base: str, subject: str = "../s") -> str:
    context = {"@base": base, "p": {"@id": P, "@type": "@id"}}
    return json.dumps({"@context": context, "@id": subject, "p": "o"})


def turtle(base: str, subject: str = "../s") -> str:
    return f"@base <{base}> .\n<{subject}> <{P}> <o> .\n"


def rdfxml(base: str, subject: str = "../s") -> str:
    return (
        f'<?xml version="1.0"?><rdf:RDF xmlns:rdf="{RDF}" xmlns:e="http://e.org/"\n'
        f' xml:base="{base}"><rdf:Description rdf:about="{subject}"><e:p rdf:resource="o"/>'
        "</rdf:Description></rdf:RDF>"
    )


WRITERS = {"jsonld": jsonld, "ttl": turtle, "trig": turtle, "n3": turtle, "rdf": rdfxml}


@pytest.mark.parametrize("format", WRITERS)
def test_a_base_with_dot_segments_is_refused_with_its_remedy(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"facts.{format}"
    for base in (DOTTED, "http://e.org/a/./c/", "http://e.org/a/c/.."):
        path.write_text(WRITERS[format](base), encoding="utf-8")
        for report in (DamageReport(), DamageReport(policy=DamagePolicy.SKIP)):
            with pytest.raises(SourceError, match=rf"facts\.{format}: the base .*\.\. in it"):
                list(read(path, report))
    path.write_text(WRITERS[format](DOTTED), encoding="utf-8")
    with pytest.raises(SourceError, match=f"write it without them, as {WITHOUT_DOTS}") as error:
        list(read(path, DamageReport()))
    path.write_text(WRITERS[format](WITHOUT_DOTS), encoding="utf-8")
    assert list(read(path, DamageReport())) == [Triple("http://e.org/a/s", P, f"{WITHOUT_DOTS}o")]
    with pytest.raises(SourceError, match="the option base_iri"):
        list(read(path, DamageReport(), base_iri=DOTTED))
    assert DOTTED in str(error.value)


def test_a_relative_base_is_resolved_first(tmp_path: Path) -> None:
    for format in ("jsonld", "ttl"):
        path = tmp_path / f"facts.{format}"
        path.write_text(WRITERS[format]("../b/./c/", "../s"), encoding="utf-8")
        actual = list(read(path, DamageReport(), base_iri="http://e.org/x/y/z"))
        assert actual == [Triple("http://e.org/x/b/s", P, "http://e.org/x/b/c/o")]


def test_a_base_on_two_blocks_and_a_nested_one(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonld"
    for n_blanks in (BLOCK_BYTES - 40, BLOCK_BYTES - 12, 0):
        path.write_text(" " * n_blanks + jsonld(DOTTED), encoding="utf-8")
        with pytest.raises(SourceError, match=r"facts\.jsonld: the base"):
            list(read(path, DamageReport()))
    nested = json.dumps({"@id": "http://e.org/x", P: json.loads(jsonld(DOTTED))})
    path.write_text(nested.replace("/", "\\/"), encoding="utf-8")
    with pytest.raises(SourceError, match=r"facts\.jsonld: the base"):
        list(read(path, DamageReport()))


def test_what_only_looks_like_a_base_is_none(tmp_path: Path) -> None:
    path = tmp_path / "facts.ttl"
    path.write_text(f"# @base <{DOTTED}>\n{turtle(WITHOUT_DOTS)}", encoding="utf-8")
    assert list(read(path, DamageReport())) == [Triple("http://e.org/a/s", P, f"{WITHOUT_DOTS}o")]
    path = tmp_path / "facts.jsonld"
    path.write_text(
        jsonld(WITHOUT_DOTS)[:-1] + f', "http://e.org/q": "\\"@base\\": \\"{DOTTED}\\""}}'
    )
    report = DamageReport()
    assert list(read(path, report)) == [Triple("http://e.org/a/s", P, f"{WITHOUT_DOTS}o")]
    assert report.skipped == {"literal of http://e.org/q": 1}
    watch = BaseWatch("json")
    watch.see(b'{"@base": "http://e/\\x/../"}')  # malformed: the parser says so
    assert not watch.base


SEGMENTS = st.lists(st.sampled_from(["a", "b", ".a", "..", ".", "a..b"]), min_size=1, max_size=5)


@given(SEGMENTS, SEGMENTS)
def test_as_the_standard_library_resolves(base: list[str], reference: list[str]) -> None:
    where, what = f"http://e.org/{'/'.join(base)}/", "/".join(reference)
    ((_, _, actual, _),) = ox.parse(
        turtle(where, "s").replace("<o>", f"<{what}>"), ox.RdfFormat.TURTLE
    )
    if not has_dot_segments(where):
        assert actual.value == urljoin(where, what)  # type: ignore[union-attr]
    assert has_dot_segments(where) == ("/./" in where or "/../" in where)
