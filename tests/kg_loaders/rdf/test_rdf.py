"""RDF in every format, and every kind of damage under every policy."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kg_loaders import DamageError, Source, SourceError, Text, TextKind, Triple
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.rdf.bases import DEFAULT_BASE
from kg_loaders.rdf.reader import DOCUMENT_FORMATS, LINE_FORMATS, SUFFIXES, format_of
from kg_loaders.rdf.records import RDF_TYPE, RDFS, SKOS
from tests.kg_loaders.rdf.statements import FACT, LABEL, LABELLED, A, P, X, Y, load, write

# ---- what becomes of a statement -----------------------------------------------------------------


def test_statements_become_triples_texts_or_counted_skips(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "# a comment",
        "",
        FACT,
        LABELLED,
        f'<{X}> <{SKOS}altLabel> "X-chen"@de-CH .',
        f'<{X}> <http://schema.org/description> "" .',
        f'<{X}> <{RDFS}comment> "the \\"x\\"\\n\\u00e9" . # a comment too',
        f'<{P}> <{LABEL}> "is p of"@en .',
        f'<{X}> <{A}born> "1950"^^<http://www.w3.org/2001/XMLSchema#gYear> .',
        f"_:b <{P}> <{Y}> .",
        f"<{X}> <{P}> _:b .",
        f"<{X}> <{P}> <<( <{X}> <{P}> <{Y}> )>> .",
        f"<{X}> <{RDF_TYPE}> <{A}Thing> .",
    )
    report = DamageReport()
    assert load(path, report) == [
        Triple(X, P, Y),
        Text(X, TextKind.LABEL, "Ex", "en"),
        Text(X, TextKind.ALIAS, "X-chen", "de-ch"),
        Text(X, TextKind.DESCRIPTION, 'the "x"\né'),
        Triple(X, RDF_TYPE, f"{A}Thing"),
        Text(P, TextKind.LABEL, "is p of", "en", 0, True),
    ]
    assert (report.n_lines, report.n_blank, report.n_comment) == (13, 1, 1)
    assert report.skipped == {
        "empty text": 1,
        f"literal of {A}born": 1,
        "blank node, quoted triple or formula": 3,
    }


@pytest.mark.parametrize(("types", "n_triples", "n_texts"), [("text", 1, 1), ("both", 2, 1)])
def test_types_may_be_texts(tmp_path: Path, types: str, n_triples: int, n_texts: int) -> None:
    path = write(tmp_path, FACT, f"<{X}> <{RDF_TYPE}> <{A}Thing> .")
    report = DamageReport()
    records = load(path, report, types=types)
    assert (report.n_triples, report.n_texts) == (n_triples, n_texts)
    assert Text(X, TextKind.TYPE, f"{A}Thing") in records


def test_languages_choose_texts(tmp_path: Path) -> None:
    tags = ("@en", "@en-GB", "@eng", "@fr", "")
    path = write(tmp_path, *(f'<{X}> <{LABEL}> "Ex"{tag} .' for tag in tags))
    report = DamageReport()
    records = load(path, report, languages=["EN"])
    assert [record.language for record in records if isinstance(record, Text)] == [
        "en",
        "en-gb",
        "",
    ]
    assert report.skipped == {"text in another language": 2}


def test_prefixes_shorten_the_longest_first(tmp_path: Path) -> None:
    path = write(tmp_path, f"<{A}long/x> <{P}> <{A}> .")
    assert load(path, prefixes={A: "", f"{A}long/": "l:"}) == [Triple("l:x", "p", A)]


def test_texts_of_predicates(tmp_path: Path) -> None:
    """A label before or after the use; a node that is relation and entity has both texts."""
    kind = f"<{P}> <{RDF_TYPE}> <{A}Property> ."
    lines = [f'<{P}> <{LABEL}> "pee" .', f'<{Y}> <{LABEL}> "why" .', FACT]
    of_y = Text(Y, TextKind.LABEL, "why")
    of_entity = Text(P, TextKind.LABEL, "pee")
    of_relation = of_entity._replace(is_relation=True)
    assert load(write(tmp_path, *lines)) == [of_y, Triple(X, P, Y), of_relation]
    assert load(write(tmp_path, *lines[::-1])) == [Triple(X, P, Y), of_y, of_relation]
    assert load(write(tmp_path, *lines, kind))[-2:] == [of_relation, of_entity]
    escaped = [line.replace(f"<{P}>", f"<{A}\\u0070>") for line in lines]
    assert load(write(tmp_path, *escaped[::2], "_:b<a:b>_:c.", lines[1])) == [
        Triple(X, P, Y),
        of_y,
        of_relation,
    ]
    labels_alone = write(tmp_path, *lines[:2])
    assert load(labels_alone) == [of_entity, of_y]
    assert load(labels_alone, relation_prefixes=[P]) == [of_y, of_relation]


# ---- formats -------------------------------------------------------------------------------------

TURTLE = f'@prefix a: <{A}> .\n@prefix r: <{RDFS}> .\na:x a:p a:y ; r:label "Ex"@en .\n'
XML = f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="{A}" xmlns:r="{RDFS}">
<rdf:Description rdf:about="{X}">
<a:p rdf:resource="{Y}"/>
<r:label xml:lang="en">Ex</r:label>
</rdf:Description>
</rdf:RDF>
"""
JSON = f"""{{"@context": {{"a": "{A}", "r": "{RDFS}"}}, "@id": "a:x",
"a:p": {{"@id": "a:y"}}, "r:label": {{"@value": "Ex", "@language": "en"}}}}
"""
TRIX = f"""<TriX xmlns="http://www.w3.org/2004/03/trix/trix-1/"><graph>
<triple><uri>{X}</uri><uri>{P}</uri><uri>{Y}</uri></triple>
<triple><uri>{X}</uri><uri>{LABEL}</uri><plainLiteral xml:lang="en">Ex</plainLiteral></triple>
</graph></TriX>
"""
LINES = f"{FACT}\n{LABELLED}\n"
GRAPH = LINES.replace(" .\n", f" <{A}g> .\n")
FORMATS = {
    "nt": LINES, "ntriples": LINES, "nq": GRAPH, "nquads": GRAPH, "ttl": TURTLE, "turtle": TURTLE,
    "trig": TURTLE.replace("a:x", "a:g { a:x").replace("@en .", "@en . }"), "rdf": XML, "owl": XML,
    "xml": XML, "jsonld": JSON, "n3": TURTLE, "trix": TRIX,
}  # fmt: skip
EXPECTED = {Triple(X, P, Y), Text(X, TextKind.LABEL, "Ex", "en")}


def test_every_format_is_tried() -> None:
    assert set(FORMATS) == set(SUFFIXES)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_records(name: str, tmp_path: Path) -> None:
    for start in ("", "\ufeff"):
        path = tmp_path / f"facts.{name}"
        path.write_text(start + FORMATS[name])
        report = DamageReport()
        records = load(path, report)
        assert len(records) == 2
        assert set(records) == EXPECTED
        assert report.n_lines == 2


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("policy", DamagePolicy)
def test_every_format_says_what_is_cut(name: str, policy: DamagePolicy, tmp_path: Path) -> None:
    path = tmp_path / f"facts.{name}"
    path.write_text(FORMATS[name][:-8])
    sink = tmp_path / "bad" if policy is DamagePolicy.QUARANTINE else None
    report = DamageReport(policy, sink)
    if policy is DamagePolicy.STOP:
        with pytest.raises(DamageError, match=rf"facts\.{name}, line \d+"):
            load(path, report)
        return
    records = load(path, report)
    assert report.n_rejected == 1
    assert set(records) <= EXPECTED
    if name not in ("nt", "ntriples", "nq", "nquads"):
        assert re.search("(rest|nothing) of the file was", report.rejections[0].reason)
    assert sink is None or sink.read_bytes()


READERS = {**LINE_FORMATS, **DOCUMENT_FORMATS}
FIRST_NAMES = dict.fromkeys(
    next(n for n in FORMATS if READERS[n] == reader) for reader in READERS.values()
)
"""A format with several names is read by one reader: its other names are tried with gzip alone."""
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "bz2": bz2.compress, "zst": zstandard.compress,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "suffix"), [(n, s) for s in COMPRESS for n in (FORMATS if s == "gz" else FIRST_NAMES)]
)
def test_compressed_files(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"facts.{name}.{suffix}"
    whole = COMPRESS[suffix](FORMATS[name].encode())
    path.write_bytes(whole)
    assert set(load(path)) == EXPECTED
    path.write_bytes(whole[:-4])
    with pytest.raises((SourceError, DamageError), match="cut"):
        load(path)
    report = DamageReport(DamagePolicy.SKIP)
    assert set(load(path, report)) <= EXPECTED
    assert report.n_rejected == 1
    assert "cut" in report.rejections[0].reason


def test_unknown_formats_and_missing_files(tmp_path: Path) -> None:
    assert format_of(Path("a.b.NT.gz")) == "nt"
    assert format_of(Path("facts")) == ""
    with pytest.raises(SourceError, match="no RDF format 'csv'; known: nt,"):
        load(write(tmp_path, FACT, name="facts.csv"))
    assert load(write(tmp_path, FACT, name="facts.csv"), format="nt") == [Triple(X, P, Y)]
    for name in ("none.nt", "none.ttl", "none.n3"):
        with pytest.raises(SourceError, match=name):
            load(tmp_path / name)


RELATIVE = {
    "ttl": "<x> <p> <y> .",
    "trig": "{ <x> <p> <y> . }",
    "n3": "<x> <p> <y> .",
    "rdf": f'''<r:RDF xmlns:r="{RDF_TYPE.removesuffix("type")}" xmlns:a="{A}">
<r:Description r:about="x"><a:p r:resource="y"/></r:Description></r:RDF>''',
    "jsonld": f'{{"@id": "x", "{P}": {{"@id": "y"}}}}',
    "trix": TRIX.replace(A, ""),
}


@pytest.mark.parametrize("name", RELATIVE)
def test_relative_iris_have_a_base(name: str, tmp_path: Path) -> None:
    """The same bytes are the same graph, in whatever folder they are and are read."""
    graphs = []
    for folder in ("one", "two/three"):
        (tmp_path / folder).mkdir(parents=True)
        path = write(tmp_path / folder, RELATIVE[name], name=f"facts.{name}")
        report = DamageReport()
        with contextlib.chdir(tmp_path / folder):
            graphs.append(set(load(path, report)))
        (note,) = report.notes
        assert note.startswith(f"relative IRIs of {path} are relative to {DEFAULT_BASE}; give ")
        base_report = DamageReport()
        assert Triple(X, P, Y) in load(path, base_report, base_iri=A)
        assert not base_report.notes
    assert graphs[0] == graphs[1]
    assert {t.head for t in graphs[0] if isinstance(t, Triple)} == {f"{DEFAULT_BASE}x"}


@pytest.mark.parametrize("base", ["", "x", "/a/b", "urn:kept", "http://a b/", "a.example/"])
def test_a_base_is_an_absolute_iri_with_a_path(base: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not an absolute IRI with a path"):
        load(write(tmp_path, FACT, name="facts.ttl"), base_iri=base)


def test_a_stream_names_the_place_of_its_damage(tmp_path: Path) -> None:
    lines = [f"<{A}{i}> <{P}> <{Y}> ." for i in range(20_000)]
    lines[15_000] = f'<{X}> <{P}> "\\q" .'
    path = write(tmp_path, *lines, name="facts.ttl")
    report = DamageReport(DamagePolicy.SKIP)
    assert len(load(path, report)) == 19_999
    (rejection,) = report.rejections
    assert rejection.line == 15_001
    assert path.read_bytes()[rejection.byte_offset :].startswith(lines[15_000].encode())
    assert "up to the next full stop was not read" in rejection.reason
    assert "q" in rejection.excerpt


# ---- statements about statements ---------------------------------------------------------------
_TRIPLE = f"<{X}> <{P}> <{Y}>"
ABOUT_STATEMENTS = [
    f"<< {_TRIPLE} >> <{A}since> <{Y}> .",
    f'<< {_TRIPLE} >> <{A}since> "1990" .',
    f"<<{_TRIPLE} >>\t<{A}since>\t<{Y}> .",
    f"<< << {_TRIPLE} >> <{A}by> <{Y}> >> <{A}since> <{Y}> .",
    f"<{X}> <{A}says> << {_TRIPLE} >> .",
    f'<< <{X}> <{P}> "a >> b << c" >> <{A}since> <{Y}> .',
    f'<< <{X}> <{P}> "a \\" >> b"@en >> <{A}since> "x >> <{Y}> <<" .',
    f"<< _:b <{P}> <{Y}> >> <{A}since> << {_TRIPLE} >> .",
    f"<{X}> <{A}says> <<( {_TRIPLE} )>> .",
]
MALFORMED = [
    f"<< <{X}> <{P}> >> <{A}since> <{Y}> .",
    f"<< {_TRIPLE} >> <{A}since> .",
    f"<< {_TRIPLE} <{A}since> <{Y}> .",
    f"<< {_TRIPLE} >> <{A}since> <{Y}>",
    f"<< << {_TRIPLE} >> <{A}since> <{Y}> .",
    "VERSION 1.2",
    f'VERSION "1.2" {_TRIPLE} .',
]


@pytest.mark.parametrize("line", ABOUT_STATEMENTS)
def test_lines_of_rdf_star_are_counted(line: str, tmp_path: Path) -> None:
    """In N-Triples as in Turtle; what they say has no place in a graph."""
    report = DamageReport()
    assert load(write(tmp_path, 'VERSION "1.2"', FACT, line, LABELLED), report) == [
        Triple(X, P, Y), Text(X, TextKind.LABEL, "Ex", "en"),
    ]  # fmt: skip
    assert (report.n_lines, report.n_comment) == (4, 1)
    assert report.skipped == {"blank node, quoted triple or formula": 1}


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_of_rdf_star_is_one(line: str, tmp_path: Path) -> None:
    with pytest.raises(DamageError, match="line 2 "):
        load(write(tmp_path, FACT, line))


# ---- names by other predicates -------------------------------------------------------------------
NAMES = [
    ("http://rdf.freebase.com/ns/type.object.name", TextKind.LABEL),
    ("http://rdf.freebase.com/ns/common.topic.alias", TextKind.ALIAS),
    ("http://rdf.freebase.com/ns/common.topic.description", TextKind.DESCRIPTION),
    ("http://id.nlm.nih.gov/mesh/vocab#prefLabel", TextKind.LABEL),
    ("http://id.nlm.nih.gov/mesh/vocab#scopeNote", TextKind.DESCRIPTION),
    ("http://www.ebi.ac.uk/efo/alternative_term", TextKind.ALIAS),
    ("https://d-nb.info/standards/elementset/gnd#preferredName", TextKind.LABEL),
    ("http://d-nb.info/standards/elementset/gnd#variantName", TextKind.ALIAS),
    ("http://purl.uniprot.org/core/scientificName", TextKind.LABEL),
    ("http://purl.uniprot.org/core/commonName", TextKind.ALIAS),
    ("http://www.w3.org/2006/vcard/ns#fn", TextKind.LABEL),
    ("http://dbpedia.org/ontology/alias", TextKind.ALIAS),
]


@pytest.mark.parametrize(("predicate", "kind"), NAMES)
def test_names_of_data_sets(predicate: str, kind: TextKind, tmp_path: Path) -> None:
    path = write(tmp_path, f'<{X}> <{predicate}> "Ex"@en .')
    assert load(path, DamageReport()) == [Text(X, kind, "Ex", "en")]


@pytest.mark.parametrize(
    ("local", "is_noted"),
    [
        ("fullName", True), ("#displayLabel", True), ("title", True), ("P90_writtenRep", True),
        ("writtenRep", True), ("preferredTerm", True), ("height", False), ("nameless", False),
        ("birthDate", False), ("synonyms", True), ("midterm", False), ("NAME", True),
    ],
)  # fmt: skip
def test_literals_that_may_be_names_are_noted(local: str, is_noted: bool, tmp_path: Path) -> None:
    from kg_loaders import load as load_graph

    path = write(tmp_path, FACT, f'<{X}> <{A}{local}> "Ex"@en .')
    notes = [each for each in load_graph([path])[1].notes if "may be names" in each]
    assert bool(notes) == is_noted
    if is_noted:
        option = notes[0].partition("--names ")[2].partition(" ")[0]
        graph, report = load_graph([Source(path, options={"names": [option]})])
        assert graph.label(graph.entities.id(X)) == "Ex"
        assert not report.notes
