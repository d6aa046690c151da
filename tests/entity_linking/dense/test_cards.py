from __future__ import annotations

import pytest

from entity_linking.dense.cards import CardOptions, card, cards
from entity_linking.errors import LinkingError
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, atlas, graph_from_records


def _card(graph: KnowledgeGraph, name: str, **options: object) -> str:
    return card(graph, graph.entities.id(name), CardOptions(**options))  # type: ignore[arg-type]


def test_a_card_says_names_types_description_and_neighbours() -> None:
    graph = graph_from_records(
        [
            Text("paris", TextKind.LABEL, "Paris", "en"),
            Text("paris", TextKind.ALIAS, "Lutetia", "en", 1),
            Text("paris", TextKind.ALIAS, "City of Light", "en", 9),
            Text("paris", TextKind.TYPE, "city"),
            Text("paris", TextKind.TYPE, "settlement"),
            Text("paris", TextKind.DESCRIPTION, "capital  of France and its largest city.", "en"),
            Text("france", TextKind.LABEL, "France", "en"),
            Text("city", TextKind.LABEL, "big town", "en"),
            Text("r1", TextKind.LABEL, "country", "en", 0, True),
            Text("r2", TextKind.LABEL, "capital", "en", 0, True),
            Triple("paris", "r1", "france"),
            Triple("city", "r1", "france"),
            Triple("france", "r2", "paris"),
        ]
    )
    whole = "Paris (City of Light, Lutetia), big town, settlement, capital of France and its"
    facts = "country: France; France: capital this"
    assert _card(graph, "paris", description_words=5) == f"{whole}. {facts}"
    assert _card(graph, "paris", n_aliases=1, n_types=0, description_words=0, n_neighbours=1) == (
        "Paris (City of Light). country: France"
    )
    assert _card(graph, "paris", max_words=3) == "Paris (City of"
    assert _card(graph, "paris", n_neighbours=0).endswith("and its largest city.")


def test_the_rarest_relation_leads_and_none_takes_all_the_room() -> None:
    names = "abcdefgh"
    records = [Text(name, TextKind.LABEL, name.upper()) for name in names]
    graph = graph_from_records(
        [
            *records,
            *(Triple("a", "knows", name) for name in "bcde"),
            Triple("f", "likes", "d"),
            Triple("a", "likes", "g"),
            Triple("h", "rules", "a"),
        ]
    )
    # d has two triples, so it leads among those that a knows
    assert _card(graph, "a") == "A. likes: G; knows: D; knows: B; H: rules this"
    assert _card(graph, "a", per_relation=1) == "A. likes: G; knows: D; H: rules this"
    assert _card(graph, "a", n_neighbours=2) == "A. likes: G; knows: D"


def test_identifiers_speak_only_where_there_is_nothing_else() -> None:
    triples = [Triple("alice", "knows", "bob"), Triple("alice", "knows", "carol")]
    assert _card(graph_from_records(triples), "alice") == "alice. knows: bob; knows: carol"
    labelled = graph_from_records([*triples, Text("carol", TextKind.LABEL, "Carol C.")])
    assert _card(labelled, "alice") == "alice. knows: Carol C."


def test_other_languages_stay_out() -> None:
    graph = graph_from_records(
        [
            Text("Q1", TextKind.LABEL, "Vienna", "en"),
            Text("Q1", TextKind.LABEL, "Wien", "de"),
            Text("Q1", TextKind.ALIAS, "Vindobona", ""),
            Text("Q1", TextKind.ALIAS, "Bécs", "hu"),
        ]
    )
    assert _card(graph, "Q1", languages=("de",)) == "Wien (Vindobona)"
    assert _card(graph, "Q1", languages=("fr",)) == "Q1 (Vindobona)"


def test_many_at_once_are_each_alone() -> None:
    graph = atlas.graph()
    ids = [5, 0, 5, *range(0, graph.n_entities, 40)]
    assert cards(graph, ids) == [card(graph, i) for i in ids]
    assert cards(graph, []) == []
    assert cards(graph_from_records([Text("x", TextKind.LABEL, "X")]), [0]) == ["X"]


@pytest.mark.parametrize("wrong", [{"n_aliases": -1}, {"max_words": 0}, {"per_relation": 0}])
def test_wrong_options_are_told(wrong: dict[str, int]) -> None:
    with pytest.raises(LinkingError, match=next(iter(wrong))):
        CardOptions(**wrong)
