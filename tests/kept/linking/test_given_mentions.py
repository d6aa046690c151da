"""Mentions that are given with a text are linked by parts and inflections of names."""

from __future__ import annotations

import pytest

from entity_linking.annotations import gold_link
from entity_linking.mentions import LinkedText, Mention
from kept.linking.given_mentions import link_given
from kg_loaders import KnowledgeGraph

GRAPH = KnowledgeGraph.from_triples(
    [
        ("Anna Berg", "works as", "pilot"),
        ("Anna Holt", "works as", "judge"),
        ("Bo Weber", "works as", "baker"),
    ]
)


@pytest.mark.parametrize(
    ("text", "mention", "entity"),
    [
        ("Weber kam.", "Weber", "Bo Weber"),
        ("Bo Webers Hund bellt.", "Bo Webers", "Bo Weber"),
        ("Weber, Bo: baker.", "Weber, Bo", "Bo Weber"),
        ("Das ist Webers Hund.", "Webers", "Bo Weber"),
        ("Anna left.", "Anna", None),
        ("Tom Weber left.", "Tom Weber", None),
        ("Nobody left.", "Nobody", None),
    ],
)
def test_a_given_mention_is_linked_where_one_entity_has_all_of_its_words(
    text: str, mention: str, entity: str | None
) -> None:
    start = text.index(mention)
    target = Mention(start, start + len(mention))
    (linked,) = link_given([LinkedText(text, ())], [[target]], GRAPH)
    assert [link.entity for link in linked.links] == ([] if entity is None else [entity])
    assert all(link.mention == target for link in linked.links)


def test_links_that_a_text_has_stay() -> None:
    text = LinkedText("Anna Berg met Weber.", (gold_link(0, 9, "Anna Berg"),))
    (linked,) = link_given([text], [[Mention(0, 9), Mention(14, 19)]], GRAPH)
    assert linked.links[0] is text.links[0]
    assert [link.entity for link in linked.links] == ["Anna Berg", "Bo Weber"]
    assert link_given([text], [[Mention(0, 9)]], GRAPH) == [text]
