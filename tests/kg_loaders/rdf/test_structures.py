"""What RDF says in several statements: SKOS-XL, restrictions, deprecated terms, properties."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kg_loaders import DamageReport, KnowledgeGraph, SourceError, Text, TextKind, Triple
from kg_loaders import load as load_graph
from kg_loaders.rdf.names import RDFS, SKOS, TEXT_PREDICATES, text_predicates
from kg_loaders.rdf.reader import read, read_in_blocks
from kg_loaders.rdf.structures import BLANK, PROPERTY, RDF_TYPE, XL_LABEL, is_blank
from kg_loaders.reading.blocks import TextBlock, TripleBlock
from kg_loaders.records import DEPRECATED
from tests.kg_loaders.rdf.statements import LABEL, A, P, X, Y, write

OWL = "http://www.w3.org/2002/07/owl#"
XL = "http://www.w3.org/2008/05/skos-xl#"
OBO_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
WD, WDT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
WIKIBASE = "http://wikiba.se/ontology#"
GENID = "http://a.example/.well-known/genid/"
SUBCLASS = f"{RDFS}subClassOf"
HEAD = f"""@prefix owl: <{OWL}> . @prefix rdfs: <{RDFS}> . @prefix xl: <{XL}> .
@prefix a: <{A}> . @prefix skos: <{SKOS}> . @prefix oio: <{OBO_IN_OWL}> .
@prefix wd: <{WD}> . @prefix wdt: <{WDT}> . @prefix wb: <{WIKIBASE}> .
"""


def by_records(path: Path, report: DamageReport, **options: Any) -> list[Triple | Text]:
    return list(read(path, report, **options))


def by_blocks(path: Path, report: DamageReport, **options: Any) -> list[Triple | Text]:
    records: list[Triple | Text] = []
    for item in read_in_blocks(path, report, **options):
        records += item.records() if isinstance(item, TripleBlock | TextBlock) else [item]
    return records


Reader = Callable[..., list[Triple | Text]]


@pytest.fixture(params=[by_records, by_blocks])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Records of Turtle by both readers, with the report; every statement is accounted for."""

    def read_turtle(text: str, **options: Any) -> tuple[set[Triple | Text], DamageReport]:
        report = DamageReport()
        path = write(tmp_path, HEAD + text, name="facts.ttl")
        result = request.param(path, report, **options)
        report.n_triples, report.n_texts = len(result), 0
        report.check()
        return set(result), report

    return read_turtle


def label(node: str, value: str, language: str = "", **more: Any) -> Text:
    return Text(node, TextKind.LABEL, value, language, 0, **more)


# ---- SKOS-XL -------------------------------------------------------------------------------------
def test_labels_of_skos_xl_are_texts_of_their_concepts(records: Any) -> None:
    actual, report = records(
        'a:x xl:prefLabel a:l1 ; xl:altLabel [ a xl:Label ; xl:literalForm "low dam"@en ] .\n'
        'a:l1 a xl:Label ; xl:literalForm "weir"@en .'
    )
    assert actual == {label(X, "weir", "en"), Text(X, TextKind.ALIAS, "low dam", "en")}
    assert report.skipped == {XL_LABEL: 3, BLANK: 1}


def test_a_label_in_another_file_stays_a_resource(records: Any) -> None:
    actual, _ = records('a:x xl:prefLabel a:l1 . a:l2 xl:literalForm "dam"@en .')
    assert actual == {Triple(X, f"{XL}prefLabel", f"{A}l1"), label(f"{A}l2", "dam", "en")}


def test_one_label_may_have_several_forms_and_owners(records: Any) -> None:
    actual, report = records(
        'a:x xl:prefLabel a:l . a:y xl:hiddenLabel a:l . a:l xl:literalForm "x"@en, "y"@de, "" .',
        languages=["en"],
    )
    assert actual == {label(X, "x", "en"), Text(Y, TextKind.ALIAS, "x", "en")}
    assert report.skipped == {"text in another language": 2, "empty text": 2, XL_LABEL: 3}


# ---- restrictions --------------------------------------------------------------------------------
RESTRICTION = "[ a owl:Restriction ; owl:onProperty a:p ; owl:someValuesFrom a:y ]"


@pytest.mark.parametrize(
    "text",
    [
        f"a:x rdfs:subClassOf {RESTRICTION} .",
        f"a:x owl:equivalentClass {RESTRICTION} .",
        f"a:x owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( a:z {RESTRICTION} ) ] .",
        f"a:x rdfs:subClassOf <{GENID}> . <{GENID}> owl:onProperty a:p ; owl:someValuesFrom a:y .",
    ],
)
def test_a_restriction_is_a_triple(text: str, records: Any) -> None:
    actual, report = records(text + '\na:p rdfs:label "part of" .')
    assert actual == {Triple(X, P, Y), label(P, "part of", is_relation=True)}
    assert set(report.skipped) == {BLANK}
    assert report.notes == ["OWL restrictions (someValuesFrom) read as triples: 1"]


def test_an_intersection_may_hold_several_restrictions(records: Any) -> None:
    actual, report = records(
        "a:x owl:equivalentClass [ owl:intersectionOf ( [ owl:onProperty a:p ; owl:someValuesFrom "
        "a:y ] [ owl:onProperty a:q ; owl:someValuesFrom a:z ] ) ] ."
    )
    assert actual == {Triple(X, P, Y), Triple(X, f"{A}q", f"{A}z")}
    assert report.n_further == 1


@pytest.mark.parametrize(
    "inner",
    [
        "owl:onProperty a:p ; owl:allValuesFrom a:y",  # what is not said to exist
        "owl:onProperty a:p ; owl:someValuesFrom [ a owl:Class ]",
        "owl:onProperty [ owl:inverseOf a:p ] ; owl:someValuesFrom a:y",
        "owl:unionOf ( [ owl:onProperty a:p ; owl:someValuesFrom a:y ] )",  # one of them
        "owl:complementOf [ owl:onProperty a:p ; owl:someValuesFrom a:y ]",
    ],
)
def test_other_class_expressions_are_counted(inner: str, records: Any) -> None:
    actual, report = records(f"a:x rdfs:subClassOf [ {inner} ] .")
    assert not actual
    assert report.skipped == {BLANK: report.n_lines}
    assert not report.notes


def test_a_list_that_ends_in_itself_ends(records: Any) -> None:
    actual, _ = records(
        "a:x rdfs:subClassOf _:c . _:c owl:intersectionOf _:l . "
        "_:l <http://www.w3.org/1999/02/22-rdf-syntax-ns#rest> _:l ; "
        f"<http://www.w3.org/1999/02/22-rdf-syntax-ns#first> {RESTRICTION} ."
    )
    assert actual == {Triple(X, P, Y)}


# ---- deprecated terms ----------------------------------------------------------------------------
MARK = Text(X, TextKind.TYPE, DEPRECATED)


@pytest.mark.parametrize(
    "text",
    [
        "a:x owl:deprecated true .",
        'a:x owl:deprecated "true" .',
        'a:x owl:deprecated "1"^^<http://www.w3.org/2001/XMLSchema#boolean> .',
        'a:x oio:is_obsolete "true" .',
        "a:x a owl:DeprecatedClass .",
    ],
)
def test_deprecated_terms_are_marked(text: str, records: Any) -> None:
    for types in ("triple", "text"):
        assert records(text, types=types)[0] == {MARK}


def test_an_obsolete_class_keeps_its_class(records: Any) -> None:
    actual, _ = records("a:x rdfs:subClassOf oio:ObsoleteClass .")
    assert actual == {MARK, Triple(X, SUBCLASS, f"{OBO_IN_OWL}ObsoleteClass")}


def test_a_deprecated_type_stays_where_types_are_both(records: Any) -> None:
    assert records("a:x a owl:DeprecatedClass .", types="both")[0] == {
        MARK,
        Triple(X, RDF_TYPE, DEPRECATED),
    }


@pytest.mark.parametrize("value", ["false", '"0"', '"no"'])
def test_what_is_not_deprecated_is_not_marked(value: str, records: Any) -> None:
    actual, report = records(f"a:x owl:deprecated {value} .")
    assert not actual
    assert report.skipped == {f"literal of {OWL}deprecated": 1}


def test_a_deprecated_relation_is_marked_as_a_relation(records: Any) -> None:
    actual, _ = records("a:x a:p a:y . a:p owl:deprecated true .")
    assert actual == {
        Triple(X, P, Y), Text(P, TextKind.TYPE, DEPRECATED, is_relation=True),
    }  # fmt: skip


# ---- Wikidata ------------------------------------------------------------------------------------
def test_labels_of_a_property_belong_to_its_relation(records: Any) -> None:
    text = 'wd:Q1 wdt:P22 wd:Q2 . wd:P22 rdfs:label "father"@en ; a wb:Property .'
    expected = {
        Triple(f"{WD}Q1", f"{WDT}P22", f"{WD}Q2"),
        label(f"{WDT}P22", "father", "en", is_relation=True),
    }
    actual, report = records(text + " wd:P22 wb:directClaim wdt:P22 .")
    assert actual == expected
    assert report.skipped == {PROPERTY: 2}
    assert records(text)[0] == expected


def test_labels_of_a_property_belong_to_all_its_relations(records: Any) -> None:
    prop = "http://www.wikidata.org/prop/"
    actual, report = records(
        f'wd:Q1 <{prop}P22> a:s . a:s <{prop}statement/P22> wd:Q2 . wd:P22 rdfs:label "father" .'
    )
    assert {text.node for text in actual if isinstance(text, Text) and text.is_relation} == {
        f"{prop}P22", f"{prop}statement/P22",
    }  # fmt: skip
    assert report.n_further == 1


def test_a_property_is_no_entity(records: Any) -> None:
    actual, report = records(
        'wd:P22 rdfs:label "father" ; wdt:P1696 wd:P40 ; wdt:P31 wd:Q5 . wd:Q5 wdt:P1963 wd:P22 .'
    )
    assert actual == {label(f"{WDT}P22", "father", is_relation=True)}
    assert report.skipped == {PROPERTY: 3}


@pytest.mark.parametrize(
    "text",
    [
        'a:x <http://w.example/prop/direct/P5> a:y . <http://w.example/entity/P5> rdfs:label "p" .',
        'a:f rdfs:label "p" ; wb:directClaim r: . a:x r: a:y .',
    ],
)
def test_other_wikibases(text: str, records: Any) -> None:
    relation = "http://w.example/prop/direct/P5"
    text = f"@prefix r: <{relation}> . {text}"
    assert records(text)[0] == {Triple(X, relation, Y), label(relation, "p", is_relation=True)}


def test_what_only_looks_like_a_property(records: Any) -> None:
    node = "http://w.example/entity/P5"
    assert records(f'<{node}> a:p a:y ; rdfs:label "p" .')[0] == {
        Triple(node, P, Y), label(node, "p"),
    }  # fmt: skip


def test_prefixes_shorten_properties_and_relations_alike(records: Any) -> None:
    actual, _ = records(
        'wd:Q1 wdt:P22 wd:Q2 . wd:P22 rdfs:label "father" .', prefixes={WD: "", WDT: ""}
    )
    assert actual == {Triple("Q1", "P22", "Q2"), label("P22", "father", is_relation=True)}


# ---- skolem IRIs ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("term", "blank"),
    [
        (f"{GENID}1", True),
        ("https://a.example:80/.well-known/genid/", True),
        ("_:x", True),
        ("http://a.example/x/.well-known/genid/1", False),
        ("http://a.example/?/.well-known/genid/1", False),
        ("urn:.well-known/genid/1", False),
        (X, False),
    ],
)
def test_skolem_iris_are_blank_nodes(term: str, blank: bool, records: Any) -> None:
    assert is_blank(term) is blank
    if term.startswith("_:"):
        return
    actual, report = records(f'a:x a:p <{term}> . <{term}> rdfs:label "l" ; a:p a:y .')
    assert bool(actual) is not blank
    assert report.skipped == ({BLANK: 3} if blank else {})


# ---- names ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("predicate", "kind"), TEXT_PREDICATES.items())
def test_every_predicate_of_texts(predicate: str, kind: TextKind, records: Any) -> None:
    assert records(f'a:x <{predicate}> "one"@en .')[0] == {Text(X, kind, "one", "en")}


def test_predicates_may_be_named(records: Any) -> None:
    called, title = f"{A}called", "http://purl.org/dc/terms/title"
    texts = text_predicates([f"{called}=label", f"<{title}>=none", f"{LABEL}=alias"])
    actual, report = records(
        f'a:x a:called "Ex" ; <{title}> "Title" ; rdfs:label "Also" .', texts=texts
    )
    assert actual == {label(X, "Ex"), Text(X, TextKind.ALIAS, "Also")}
    assert report.skipped == {f"literal of {title}": 1}
    assert text_predicates({called: TextKind.LABEL}) == text_predicates({called: "label"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label", "has no ="),
        ("skos=label", "not an absolute IRI"),
        ("=label", "not an absolute IRI"),
        (f"{A}called=name", "none of label, alias, description, none"),
        (f"{A} called=label", "not an absolute IRI"),
    ],
)
def test_names_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        text_predicates([text])


def test_a_graph_made_of_all_this_is_the_same_after_export(tmp_path: Path) -> None:
    text = (
        f"a:x rdfs:subClassOf {RESTRICTION} ; owl:deprecated true ; xl:prefLabel a:l .\n"
        'a:l xl:literalForm "weir"@en . a:p owl:deprecated true ; rdfs:label "part of" .\n'
        'wd:Q1 wdt:P22 wd:Q2 . wd:P22 rdfs:label "father"@en .'
    )
    graph, _ = load_graph([write(tmp_path, HEAD + text, name="facts.ttl")])
    from kg_loaders.export import export

    for name in ("out.nt", "out.ttl"):
        export(graph, tmp_path / name)
        again, _ = load_graph([tmp_path / name])
        assert isinstance(again, KnowledgeGraph)
        assert again.content_hash == graph.content_hash
