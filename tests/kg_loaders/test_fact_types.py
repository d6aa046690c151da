""" "Instance of" as types: only where no file gives any, with the facts kept, counted in a note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pandas as pd
import pytest

from kg_loaders import KnowledgeGraph, Source, load, open_graph
from kg_loaders.fact_types import fact_types
from kg_loaders.growth.adding import add

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
OWL = "http://www.w3.org/2002/07/owl#"


def tsv(folder: Path, *lines: str, name: str = "facts.tsv") -> Path:
    path = folder / name
    path.write_text("\n".join(line.replace(" | ", "\t") for line in lines) + "\n")
    return path


def built(*sources: Path | Source) -> tuple[KnowledgeGraph, list[str]]:
    graph, report = load(sources, types_of_facts=True)
    return graph, [note for note in report.notes if "types" in note]


def types_of(graph: KnowledgeGraph, name: str) -> list[str]:
    row = graph.entities.find(name)
    assert row is not None
    return graph.types(row)


@pytest.mark.parametrize(
    "relation",
    ["P31", "wdt:P31", RDF_TYPE, "rdf:type", "instance of", "instance_of", "Instance-Of",
     "instanceOf", "/r/InstanceOf", "http://example.org/v#instanceOf",
     "http://www.wikidata.org/prop/direct/P31", "INSTANCE OF", "is an instance of"],
)  # fmt: skip
def test_relations_that_say_of_what_kind_a_thing_is(relation: str, tmp_path: Path) -> None:
    graph, notes = built(tsv(tmp_path, f"anna | {relation} | human", "anna | knows | bert"))
    assert types_of(graph, "anna") == ["human"]
    assert types_of(graph, "human") == []
    assert graph.n_triples == 2  # the fact stays
    (note,) = notes
    assert note.startswith(f"1 type of 1 entity taken from the facts of {relation}, since")
    assert "--no-types-of-facts" in note


@pytest.mark.parametrize(
    "relation",
    ["P310", "type", "type of", "subclass of", "P279", "http://example.org/type", "instance",
     "instances of", "for instance of", "is a"],
)  # fmt: skip
def test_other_relations_are_none(relation: str, tmp_path: Path) -> None:
    graph, notes = built(tsv(tmp_path, f"anna | {relation} | human"))
    assert types_of(graph, "anna") == []
    assert notes == []


def test_a_relation_is_known_by_its_label(tmp_path: Path) -> None:
    facts = tsv(tmp_path, "Q1 | P9 | Q2", "Q1 | P9 | Q3", "Q4 | P9 | Q2")
    names = tsv(tmp_path, "P9 | instance of", name="relations.tsv")
    labels = Source(names, "texts", {"columns": ("label",), "is_relation": True})
    graph, notes = built(facts, labels)
    assert types_of(graph, "Q1") == ["Q2", "Q3"]
    assert notes[0].startswith("3 types of 2 entities taken from the facts of P9")


def test_types_of_files_are_all_there_are(tmp_path: Path) -> None:
    facts = tsv(tmp_path, "anna | P31 | human", "bert | P31 | human")
    types_file = tsv(tmp_path, "anna | person", name="types.tsv")
    graph, notes = built(facts, Source(types_file, "texts", {"columns": ("type",)}))
    assert (types_of(graph, "anna"), types_of(graph, "bert")) == (["person"], [])
    assert notes == []


def test_classes_of_schemas_and_marks_of_deprecated_terms_are_no_types(tmp_path: Path) -> None:
    path = tmp_path / "terms.nt"
    lines = [
        f"<http://e.org/a> <{RDF_TYPE}> <{OWL}Class> .",
        f"<http://e.org/b> <{RDF_TYPE}> <http://e.org/a> .",
        f'<http://e.org/c> <{OWL}deprecated> "true"^^<http://www.w3.org/2001/XMLSchema#boolean> .',
    ]
    path.write_text("\n".join(lines) + "\n")
    graph, _ = built(path)
    assert types_of(graph, "http://e.org/a") == []
    assert types_of(graph, "http://e.org/b") == ["http://e.org/a"]


def test_only_on_request_so_that_hashes_of_other_builds_stay(tmp_path: Path) -> None:
    path = tsv(tmp_path, "anna | P31 | human")
    plain, _ = load([path])
    typed, _ = built(path)
    assert types_of(plain, "anna") == []
    assert plain.content_hash != typed.content_hash
    assert plain.id_space_hash == typed.id_space_hash
    nothing = tsv(tmp_path, "anna | knows | bert", name="other.tsv")
    assert load([nothing])[0].content_hash == built(nothing)[0].content_hash


def test_the_same_graph_by_texts_and_by_adding(tmp_path: Path) -> None:
    one, two = tsv(tmp_path, "a | P31 | x"), tsv(tmp_path, "b | P31 | y", name="two.tsv")
    both, _ = built(one, two)
    load([one], out=tmp_path / "kg", types_of_facts=True)
    added = add(tmp_path / "kg", [two], out=tmp_path / "more", types_of_facts=True)
    assert added.graph.content_hash == both.content_hash
    load([one], out=tmp_path / "plain")
    added = add(tmp_path / "plain", [two], out=tmp_path / "plain2", types_of_facts=True)
    assert added.graph.content_hash == load([one, two])[0].content_hash
    types_file = tsv(tmp_path, "a | x", "b | y", name="types.tsv")
    report, _ = load(
        [one, two, Source(types_file, "texts", {"columns": ("type",), "language": ""})]
    )
    assert [types_of(report, name) for name in "ab"] == [types_of(both, name) for name in "ab"]


def test_types_by_labels(tmp_path: Path) -> None:
    facts = tsv(tmp_path, "Q1 | P31 | Q5")
    names = tsv(tmp_path, "Q5 | human", "Q1 | Anna", name="labels.tsv")
    graph, _ = built(facts, Source(names, "texts", {"columns": ("label",)}))
    assert graph["Anna"].types == ["human"]
    assert graph.type_labels(graph["Anna"].index) == ["human"]


def test_facts_of_types_are_distinct_and_sorted(tmp_path: Path) -> None:
    graph, _ = load([tsv(tmp_path, "b | P31 | x", "a | instance of | x", "a | P31 | x")])
    assert fact_types(graph).pairs.tolist() == [[0, 2], [1, 2]]
    assert fact_types(graph).n_entities == 2


def test_spacy_labels_follow_by_the_label_of_the_class(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    facts = tsv(tmp_path, "Q1 | P31 | Q5", "Q2 | knows | Q1")
    names = tsv(tmp_path, "Q5 | human", "Q1 | Anna", "Q2 | Bert", name="labels.tsv")
    labels = Source(names, "texts", {"columns": ("label",)})
    load([facts, labels], out=tmp_path / "kg", types_of_facts=True)
    nlp = spacy.blank("en")
    nlp.add_pipe("kept_linker", config={"kg": str(tmp_path / "kg"), "typed": True})
    ents = [(each.text, each.label_) for each in nlp("Anna met Bert.").ents]
    assert ents[0] == ("Anna", "human")
    assert ents[1][1] != "human"


@pytest.mark.parametrize("way", ["triples", "tsv", "csv", "pandas", "networkx", "rdf", "open"])
def test_every_way_into_python_has_the_types_of_facts(way: str, tmp_path: Path) -> None:
    """As `kept kg build` has them, with the same content hash; types of files go first."""
    rows = [("anna", "instance of", "human"), ("anna", "role", "guard")]

    def graph_of(**options: Any) -> KnowledgeGraph:
        if way == "triples":
            return KnowledgeGraph.from_triples(rows, **options)
        if way == "pandas":
            columns = ["head", "relation", "tail"]
            return KnowledgeGraph.from_pandas(pd.DataFrame(rows, columns=columns), **options)
        if way == "networkx":
            edges: Any = networkx.MultiDiGraph()
            for head, relation, tail in rows:
                edges.add_edge(head, tail, relation=relation)
            return KnowledgeGraph.from_networkx(edges, **options)
        if way == "rdf":
            lines = ["@prefix : <http://x/> .", ":anna a :human ; :role :guard ."]
            (tmp_path / "a.ttl").write_text("\n".join(lines), encoding="utf-8")
            return KnowledgeGraph.from_rdf(tmp_path / "a.ttl", **options)
        separator, name = (",", "a.csv") if way == "csv" else ("\t", "a.tsv")
        text = "".join(separator.join(row) + "\n" for row in rows)
        (tmp_path / name).write_text(text, encoding="utf-8")
        ways = {"csv": KnowledgeGraph.from_csv, "tsv": KnowledgeGraph.from_tsv}
        return ways.get(way, open_graph)(tmp_path / name, **options)

    anna, human = ("http://x/anna", "http://x/human") if way == "rdf" else ("anna", "human")
    assert graph_of()[anna].types == [human]
    assert graph_of(types_of_facts=False)[anna].types == []
    if way in ("tsv", "open"):
        built, _ = load([tmp_path / "a.tsv"], types_of_facts=True)
        assert graph_of().content_hash == built.content_hash
        (tmp_path / "types.tsv").write_text("anna\tperson\n", encoding="utf-8")
        assert graph_of(types=tmp_path / "types.tsv")["anna"].types == ["person"]
