"""What an addition says beyond an index: names, counts, popularity; strings and keys by place."""

from __future__ import annotations

import pyarrow as pa
import pytest

from entity_linking.names import NameIndex
from entity_linking.names.identifiers import IDENTIFIERS, by_identifiers, identifiers_note
from entity_linking.names.segment import Source, fold_keys
from entity_linking.names.texts import Texts
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records


def graph_of(names: dict[str, str], *triples: tuple[str, str]) -> KnowledgeGraph:
    labels = [Text(entity, TextKind.LABEL, name) for entity, name in names.items()]
    return graph_from_records([*labels, *(Triple(h, "P1", t) for h, t in triples)])


def popularity(index: NameIndex) -> dict[str, float]:
    numbers = range(index.n_entities)
    return dict(zip(index.identifiers(numbers), index.popularity.tolist(), strict=True))


def test_popularity_is_the_highest_degree_and_what_was_counted() -> None:
    names = {"Q1": "Paris", "Q2": "Rome", "Q3": "Berlin"}
    old = graph_of(names, ("Q1", "Q2"), ("Q1", "Q3"), ("Q3", "Q2"), ("Q2", "Q1"))
    index = NameIndex.build(old, counts=[("Paris", "Q1", 5)])
    assert popularity(index) == {"Q1": 3 + 5, "Q2": 3, "Q3": 2}
    smaller = graph_of(names | {"Q4": "Oslo"}, ("Q1", "Q4"))
    more = index.add(smaller)
    assert popularity(more) == {"Q1": 8, "Q2": 3, "Q3": 2, "Q4": 1}, "a lower degree lowers none"
    edges = [("Q3", entity) for entity in ("Q1", "Q2", "Q4", "Q5", "Q6")]
    last = more.add(graph_of({"Q3": "Berlin"}, *edges), counts=[("Roma", "Q2", 4)])
    assert popularity(last) == {"Q1": 8, "Q2": 3 + 4, "Q3": 5, "Q4": 1}


def test_entities_have_numbers_and_identifiers_over_all_segments() -> None:
    index = NameIndex.build(graph_of({"Q2": "Rome", "Q5": "Oslo"}))
    more = index.add(graph_of({"Q1": "Paris", "Q5": "Oslo", "Q9": "Bonn"}))
    identifiers = [more.entity(number) for number in range(more.n_entities)]
    assert identifiers == ["Q2", "Q5", "Q1", "Q9"]
    assert more.numbers([*identifiers, "Q3"]).tolist() == [0, 1, 2, 3, -1]
    assert [index.entity(number) for number in range(2)] == ["Q2", "Q5"]


def test_counts_reach_entities_that_have_no_name_of_their_own() -> None:
    nameless = graph_of({}, ("Q1", "Q2"))
    index = NameIndex.build(nameless, counts=[("Paris", "Q1", 3), ("Rome", "Q7", 2)])
    assert (index.n_names, index.n_entities) == (1, 1)
    (entry,) = index.find("paris")
    assert (index.entity(entry.entity), entry.source, entry.n_seen) == ("Q1", Source.COUNTED, 3)
    assert index.manifest.parts[0].n_counts_skipped == 1, "no graph has Q7"
    empty = NameIndex.build(nameless)
    assert (empty.n_names, empty.find("paris")) == (0, [])


def test_counts_of_an_entity_that_only_the_index_knows_are_taken() -> None:
    """Of the very first one, too, whose number is 0."""
    index = NameIndex.build(graph_of({"Q1": "Paris"}))
    more = index.add(graph_of({"Q2": "Rome"}), counts=[("Lutetia", "Q1", 3), ("Nowhere", "Q3", 1)])
    assert (more.manifest.parts[1].n_counts, more.manifest.parts[1].n_counts_skipped) == (1, 1)
    assert [more.entity(entry.entity) for entry in more.find("Lutetia")] == ["Q1"]


def test_a_name_that_was_said_is_written_again_only_with_a_higher_count() -> None:
    def aliases(count: int) -> KnowledgeGraph:
        return graph_from_records([Text("Q1", TextKind.ALIAS, "Paris", "", count)])

    index = NameIndex.build(aliases(0))
    assert index.add(graph_of({}, ("Q1", "Q2"))).n_names == 1
    assert index.add(aliases(2)).n_names == 2
    assert index.add(aliases(2)).add(aliases(1)).n_names == 2


@pytest.mark.parametrize(("n", "order"), [(512, "rows"), (513, "popular")])
def test_of_more_than_512_names_of_a_key_the_most_popular_are_found(n: int, order: str) -> None:
    names = {f"Q{i:04}": "Smith" for i in range(n)}
    index = NameIndex.build(graph_of(names, (f"Q{n - 1:04}", "P"), (f"Q{n - 1:04}", "R")))
    entities = [entry.entity for entry in index.find("smith")]
    rest = list(range(n - 1))
    assert entities == ([*rest, n - 1] if order == "rows" else [n - 1, *rest[:511]])


@pytest.mark.parametrize("values", [[], ["a"], ["a", "", "é", "bc", "東京"]])
def test_strings_are_read_by_place(values: list[str]) -> None:
    column = pa.array(values, pa.large_string())
    for start in range(len(values) + 1):
        for stop in range(start, len(values) + 1):
            texts, values_of_part = Texts(column[start:stop]), values[start:stop]
            assert len(texts) == len(values_of_part)
            places = [*range(len(values_of_part)), *reversed(range(len(values_of_part)))]
            assert texts.take(places) == values_of_part + values_of_part[::-1]


def test_a_form_without_letters_has_no_key() -> None:
    assert fold_keys([" ", "Paris", "\u00ad", "", "Rome"]) == ["", " paris ", "", "", " rome "]


def test_a_graph_without_names_is_named_by_its_identifiers() -> None:
    described = Text("New_York", TextKind.DESCRIPTION, "a city", "en")
    typed = Text("Albany", TextKind.TYPE, "city", "en")
    triples = [Triple("New_York", "near", "Albany"), Triple("Albany", "near", "Utica")]
    without_names = graph_from_records([*triples, described, typed])
    named = by_identifiers(without_names)
    kept = ("triples", "id_space_hash", "relations")
    assert all(str(getattr(named, name)) == str(getattr(without_names, name)) for name in kept)
    assert named.content_hash != without_names.content_hash
    assert named.manifest.sources == (*without_names.manifest.sources, IDENTIFIERS)
    labels = {name: named.label(entity) for entity, name in enumerate(named.entities)}
    assert labels == {"Albany": "Albany", "New_York": "New York", "Utica": "Utica"}
    texts = named.entity_texts
    assert [texts.language_names[language] for language in texts.languages] == [
        "", "en", "", "en", "",
    ]  # fmt: skip
    for entity in range(named.n_entities):
        assert [count for _, count in texts.of(entity, TextKind.LABEL)] == [0]
        for kind in (TextKind.ALIAS, TextKind.DESCRIPTION, TextKind.TYPE):
            assert texts.of(entity, kind) == without_names.entity_texts.of(entity, kind)
    assert by_identifiers(named) is named
    for kind in (TextKind.LABEL, TextKind.ALIAS):
        one = graph_from_records([*triples, Text("Albany", kind, "Albany", "")])
        assert by_identifiers(one) is one, "a single name, and it is a graph with names"
    names = NameIndex.build(named)
    assert [names.entity(e.entity) for e in names.find("new york")] == ["New_York"]


def test_iris_are_linked_by_their_last_part_and_codes_are_said() -> None:
    iris = [f"http://example.org/{name}" for name in ("Lea_Holt", "staff#lives_in", "Troms%C3%B8/")]
    graph = graph_from_records([Triple(*iris)])
    named = by_identifiers(graph)
    assert [named.label(n) for n in range(named.n_entities)] == ["Lea Holt", "Tromsø"]
    assert identifiers_note(graph) == ""
    coded = graph_from_records([Triple("http://example.org/Q1", "r", "http://example.org/Q2")])
    assert "such as http://example.org/Q1" in identifiers_note(coded)
    label = Text("p1", TextKind.LABEL, "Lea Holt")
    assert identifiers_note(graph_from_records([Triple("p1", "r", "p2"), label])) == ""
