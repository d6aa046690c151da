"""Documents of RDF as people have them: entities, language tags, contexts, malformed statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kg_loaders import DamageError, DamageReport, SourceError, Text, TextKind, Triple
from kg_loaders import load as load_graph
from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy
from kg_loaders.errors import BudgetError
from kg_loaders.export import export
from kg_loaders.rdf.records import RDF_TYPE, RDFS
from kg_loaders.reading.languages import MALFORMED, language_tag
from tests.kg_loaders.rdf.statements import LABEL, A, P, X, Y, load, write

RDF_START = f"""<rdf:RDF xmlns:rdf="{RDF_TYPE.removesuffix("type")}" xmlns:a="{A}" xmlns:r="{RDFS}">
"""
FACT = Triple(X, P, Y)


def rdf_xml(*inner: str, dtd: str = "") -> str:
    about = f'<rdf:Description rdf:about="{X}">{"".join(inner)}</rdf:Description>'
    return f"{dtd}{RDF_START}{about}</rdf:RDF>"


def budget(**limits: int) -> DamageReport:
    return DamageReport(budget=ReaderBudget(**limits))


# ---- entities ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "declared",
    [
        f'<!ENTITY a "{A}">',
        f"<!ENTITY a '{A}' >",
        f'<!ENTITY\n  a\n  "{A}"\n>',
        f'<!ENTITY b "b&#233;"><!-- <!ENTITY c "c"> --><!ENTITY a "{A}">',
        f'<!ENTITY a.b-c "x"> <!ENTITY a "{A}"> <!ENTITY d "">',
    ],
)
def test_entities_that_are_plain_text_are_read(declared: str, tmp_path: Path) -> None:
    text = rdf_xml('<a:p rdf:resource="&a;y"/>', dtd=f"<!DOCTYPE rdf:RDF [{declared}]>")
    assert load(write(tmp_path, text, name="x.owl")) == [FACT]


@pytest.mark.parametrize(
    "declared",
    [
        '<!ENTITY b "b"><!ENTITY a "&b;&b;">',
        '<!ENTITY a "&#38;b;">',  # a reference once it is in its place
        '<!ENTITY a "&#x26;b;">',
        '<!ENTITY a "&#60;x/>">',
        '<!ENTITY a "<x/>">',
        '<!ENTITY % a "b">',
        '<!ENTITY a "%b;">',
        '<!ENTITY a SYSTEM "file:///etc/hostname">',
        '<!ENTITY a PUBLIC "x" "http://a.example/">',
        '<!entity a "b">',
        '<! ENTITY a "b">',
        '<!ENTITY a "b" c>',
        '<!ENTITY a "b',
    ],
)
def test_entities_that_may_grow_or_read_files_are_refused(declared: str, tmp_path: Path) -> None:
    text = rdf_xml(f'<a:p rdf:resource="{Y}"/>', dtd=f"<!DOCTYPE rdf:RDF [{declared}]>")
    for name in ("x.owl", "x.trix"):
        with pytest.raises(BudgetError, match="limit entities is 0"):
            load(write(tmp_path, text, name=name))


def test_plain_entities_have_the_budget_of_what_they_unfold_to(tmp_path: Path) -> None:
    value, n = "z" * 10_000, 200
    dtd = f'<!DOCTYPE r [<!ENTITY a "{value}">]>'
    path = write(tmp_path, rdf_xml("<r:label>" + "&a;" * n + "</r:label>", dtd=dtd), name="x.rdf")
    assert load(path) == [Text(X, TextKind.LABEL, value * n)]
    with pytest.raises(BudgetError, match="limit document_bytes is 1000000"):
        load(path, budget(document_bytes=1_000_000))
    large = write(
        tmp_path, rdf_xml("<r:label>" + "&a;" * 8000 + "</r:label>", dtd=dtd), name="y.rdf"
    )
    with pytest.raises(BudgetError, match="limit expansion is 200"):
        load(large)


def test_a_dotted_base_made_of_entities_is_refused(tmp_path: Path) -> None:
    text = rdf_xml(dtd=f'<!DOCTYPE r [<!ENTITY a "{A}b/../c/">]>').replace(
        "<rdf:RDF ", '<rdf:RDF xml:base="&a;" '
    )
    with pytest.raises(SourceError, match="segments"):
        load(write(tmp_path, text, name="x.rdf"))


# ---- language tags -------------------------------------------------------------------------------
TAGS = {
    "en": "en", "EN-us": "en-us", "en_US": "en-us", "zh_Hans_CN": "zh-hans-cn", "": "",
    "zh-classical": "lzh", "e n": None, "english language": None, "en-": None, "123": None,
    "abcdefghij": None, "é": None,
}  # fmt: skip


def test_tags_are_normal_or_none() -> None:
    assert {tag: language_tag(tag) for tag in TAGS} == TAGS


def documents() -> dict[str, str]:
    """A literal with each tag, in each format that takes any tag."""
    trix = "http://www.w3.org/2004/03/trix/trix-1/"
    tags = [tag for tag in TAGS if tag]
    literals = "".join(
        f"<triple><uri>{X}</uri><uri>{LABEL}</uri><plainLiteral xml:lang='{tag}'>is {tag}"
        "</plainLiteral></triple>"
        for tag in tags
    )  # fmt: skip
    values = [{"@value": f"is {tag}", "@language": tag} for tag in tags]
    return {
        "rdf": rdf_xml(*(f"<r:label xml:lang='{tag}'>is {tag}</r:label>" for tag in tags)),
        "trix": f'<TriX xmlns="{trix}"><graph>{literals}</graph></TriX>',
        "jsonld": json.dumps({"@id": X, LABEL: values}),
        "jsonl": "".join(
            json.dumps({"id": X, "label": f"is {tag}", "language": tag}) + "\n" for tag in tags
        ),
    }


LINES = ("ttl", "trig", "n3", "nt", "nq")
"""Formats in which a tag ends at a blank."""


@pytest.mark.parametrize("name", [*documents(), *LINES])
def test_a_malformed_tag_costs_a_literal(name: str, tmp_path: Path) -> None:
    """What is read can be written by every writer and read again: the same graph."""
    tags = {tag: normal for tag, normal in TAGS.items() if name not in LINES or " " not in tag}
    lines = "".join(f'<{X}> <{LABEL}> "is {tag}"@{tag} .\n' for tag in tags if tag)
    path = write(tmp_path, documents().get(name, lines), name=f"x.{name}")
    graph, report = load_graph([path], policy="skip")
    texts = graph.entity_texts
    languages = {
        (str(texts.values[row].as_py()), texts.language_names[texts.languages[row]])
        for row in range(len(texts))
    }
    assert languages == {(f"is {tag}", normal) for tag, normal in tags.items() if normal}
    n_malformed = sum(normal is None for normal in tags.values())
    assert report.skipped.get(MALFORMED, report.n_rejected) == n_malformed
    for suffix in ("nt", "ttl", "jsonl"):
        out = tmp_path / f"out.{suffix}"
        export(graph, out)
        again, _ = load_graph([out])
        assert again.content_hash == graph.content_hash, suffix


@pytest.mark.parametrize("name", ["ttl", "trig", "n3"])
def test_what_a_malformed_tag_stands_with_is_read(name: str, tmp_path: Path) -> None:
    """The statement of `"x"@en_US` had been refused, with its other objects and its facts."""
    lines = f'''<{X}> <{LABEL}> "one"@en_US , """two "x"@en_US
 "y"@en_US"""@de , "three"@e- ; # "z"@en_US
  <{P}> <{Y}> .'''
    path = write(tmp_path, lines, name=f"x.{name}")
    report = DamageReport()
    assert set(load(path, report)) == {
        FACT,
        Text(X, TextKind.LABEL, "one", "en-us"),
        Text(X, TextKind.LABEL, 'two "x"@en_US\n "y"@en_US', "de"),
    }
    assert report.skipped == {MALFORMED: 1}


# ---- malformed statements ------------------------------------------------------------------------
def test_turtle_goes_on_behind_a_malformed_statement(tmp_path: Path) -> None:
    lines = [f"<{A}{i}> <{P}> <{Y}> ." for i in range(60)]
    for i in range(5, 60, 10):
        lines[i] = (f"<{X}> <{P}> <{A} b> .", f'<{X}> <{LABEL}> "x"^^ .')[i % 20 == 5]
    for name in ("x.ttl", "x.trig"):
        path = write(tmp_path, *lines, name=name)
        report = DamageReport(DamagePolicy.SKIP)
        assert len(load(path, report)) == 54
        assert [rejection.line for rejection in report.rejections] == [6, 16, 26, 36, 46, 56]
        with pytest.raises(DamageError, match=f"{name}, line 6"):
            load(path)


@pytest.mark.parametrize("iri", ["http://a b/", "http://a/{x}", "http://a/<"])
def test_a_malformed_iri_costs_a_statement(iri: str, tmp_path: Path) -> None:
    escaped = iri.replace("<", "&lt;")
    text = rdf_xml(f'<a:p rdf:resource="{escaped}"/>\n', f'<a:p rdf:resource="{Y}"/>')
    path = write(tmp_path, text, name="x.rdf")
    report = DamageReport(DamagePolicy.SKIP)
    assert load(path, report) == [FACT]
    assert report.n_rejected == 1
    with pytest.raises(DamageError, match=r"x\.rdf, line"):
        load(path)
    path = write(tmp_path, json.dumps({"@id": X, P: [{"@id": iri}, {"@id": Y}]}), name="x.jsonld")
    report = DamageReport()
    assert load(path, report) == [FACT]
    assert sum(report.skipped.values()) == 1


def test_what_is_no_turtle_ends_early(tmp_path: Path) -> None:
    path = write(tmp_path, *["this is . no turtle ."] * 3000, name="x.ttl")
    report = DamageReport(DamagePolicy.SKIP)
    assert not load(path, report)
    assert report.n_rejected == 101
    assert report.rejections[-1].reason.endswith("the rest of the file was not read")


# ---- contexts of JSON-LD -------------------------------------------------------------------------
URL = "https://terms.example/context"
TERMS = {"@context": {"knows": {"@id": P, "@type": "@id"}, "name": LABEL}}


def with_context(tmp_path: Path, context: Any) -> Path:
    document = {"@context": context, "@id": X, "knows": Y, "name": "Ex"}
    return write(tmp_path, json.dumps(document), name="x.jsonld")


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    return write(tmp_path, json.dumps(TERMS), name="terms.jsonld")


def test_a_remote_context_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        load_graph([with_context(tmp_path, [URL, {"z": P}])], policy="skip")
    assert f"defined at {URL}, and kept fetches nothing" in str(caught.value)
    assert f"--context {URL}=FILE" in str(caught.value)


@pytest.mark.parametrize(
    "context",
    [
        URL, [URL], [{"q": P}, URL], {"@import": URL}, [URL, {"name": LABEL}],
        URL.replace("https", "http"), f"{URL}/",
    ],
)  # fmt: skip
def test_a_context_comes_from_a_file(context: Any, terms: Path, tmp_path: Path) -> None:
    if isinstance(context, dict):
        context = {"@version": 1.1, **context}
    expected = {FACT, Text(X, TextKind.LABEL, "Ex")}
    path = with_context(tmp_path, context)
    named: Sequence[Any] = ({URL: terms}, {"": terms}, [f"{URL}={terms}"], [str(terms)])
    for contexts in named:
        assert set(load(path, contexts=contexts)) == expected


def test_a_context_may_name_another(terms: Path, tmp_path: Path) -> None:
    outer = write(tmp_path, json.dumps({"@context": [URL, {"q": P}]}), name="outer.jsonld")
    path = with_context(tmp_path, "https://outer.example/")
    contexts = {"https://outer.example/": outer, URL: terms}
    assert set(load(path, contexts=contexts)) == {FACT, Text(X, TextKind.LABEL, "Ex")}
    with pytest.raises(SourceError, match=f"defined at {URL}"):
        load(path, contexts={"https://outer.example/": outer})
    with pytest.raises(SourceError, match=f"defined at {URL}"):
        load(path, contexts={"": outer})  # which would be put into itself


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "cannot be read"), ("[]", 'not an object with "@context"'), ("{}", 'with "@context"')],
)
def test_a_file_that_is_no_context(content: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path, content, name="terms.jsonld")
    with pytest.raises(SourceError, match=message):
        load(with_context(tmp_path, URL), contexts={URL: file})
    with pytest.raises(SourceError, match="is not a file"):
        load(with_context(tmp_path, URL), contexts={URL: tmp_path / "none"})


def test_contexts_have_a_budget(terms: Path, tmp_path: Path) -> None:
    nested = {"@id": X, "knows": [{"@context": URL, "@id": f"{A}{i}"} for i in range(500)]}
    path = write(tmp_path, json.dumps(nested), name="x.jsonld")
    with pytest.raises(BudgetError, match="memory"):
        load(path, budget(document_bytes=45_000), contexts={URL: terms})


# ---- JSON-LD, one document a line ----------------------------------------------------------------
@pytest.mark.parametrize("name", ["x.ndjsonld", "x.jsonl", "x.jsonld", "x.json", "x.ndjson"])
def test_one_document_a_line_is_read(name: str, tmp_path: Path) -> None:
    """NDJSON-LD had ended at its second line, as text behind the end of a document."""
    lines = [
        json.dumps({"@context": {"p": {"@id": P, "@type": "@id"}}, "@id": X, "p": Y}),
        "",
        json.dumps({"@id": X, LABEL: {"@value": "}\n{", "@language": "en_US"}}),
        json.dumps({"@id": Y, LABEL: "two"}),
    ]
    path = write(tmp_path, "\n".join(lines), name=name)
    graph, report = load_graph([path])
    assert (graph.n_triples, report.n_lines) == (1, 3)
    assert {str(value) for value in graph.entity_texts.values} == {"}\n{", "two"}
    assert {"", "en-us"} <= set(graph.entity_texts.language_names)
    broken = write(tmp_path, *lines[:2], '{"@id": nothing}', lines[3], name=f"broken-{name}")
    with pytest.raises(DamageError, match=f"broken-{name}, line 3"):
        load_graph([broken])


def test_a_missing_comma_is_no_further_document(tmp_path: Path) -> None:
    path = write(
        tmp_path, f'{{"@id": "{X}", "{P}": [{{"@id": "{Y}"}}\n{{"@id": "{X}"}}]}}', name="x.jsonld"
    )
    with pytest.raises(DamageError, match=r"x\.jsonld, line 2"):
        load(path)
