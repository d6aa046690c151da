"""Mentions without an entity do not keep a linker away; those with one stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from entity_linking import DictionaryLinker, LinkedText, gold_link
from entity_linking.completing import has_entity, needs_links, touch, with_links
from entity_linking.mentions import Mention
from kg_loaders import Text, TextKind, graph_from_records

PARIS, SEINE, ROME = "Q90", "Q1471", "Q220"
GRAPH = graph_from_records(
    [
        Text(entity, TextKind.LABEL, name)
        for entity, name in ((PARIS, "Paris"), (SEINE, "Seine"), (ROME, "Rome"))
    ]
)
SENTENCE = "Paris lies on the Seine, and Rome does not."


def _links(*links: tuple[int, int, str | None], text: str = SENTENCE) -> list[tuple[str, str]]:
    linked = LinkedText(text, tuple(gold_link(*link) for link in links))
    (done,) = with_links([linked], DictionaryLinker(GRAPH))
    return [(text[k.start : k.end], k.entity or "-") for k in done.links]


@pytest.mark.parametrize(
    "placed",
    [
        (),
        ((0, 5, None),),
        ((0, 5, None), (18, 23, None)),
        ((18, 23, None), (29, 33, None)),
        ((0, 4, None),),
        ((14, 23, None),),
    ],
)
def test_a_text_without_any_entity_gets_all_links(
    placed: tuple[tuple[int, int, None], ...],
) -> None:
    assert _links(*placed) == [("Paris", PARIS), ("Seine", SEINE), ("Rome", ROME)]


def test_mentions_that_no_link_touches_stay() -> None:
    assert ("lies", "-") in _links((6, 10, None))
    assert len(_links((6, 10, None))) == 4


def test_of_a_text_with_an_entity_the_mentions_without_one_are_completed() -> None:
    assert _links((0, 5, PARIS), (18, 23, None)) == [("Paris", PARIS), ("Seine", SEINE)]
    assert _links((0, 5, ROME), (14, 23, None)) == [("Paris", ROME), ("the Seine", SEINE)]
    assert _links((0, 5, PARIS), (6, 10, None)) == [("Paris", PARIS), ("lies", "-")]


def test_a_text_whose_mentions_all_have_entities_is_the_same_object() -> None:
    whole = LinkedText(SENTENCE, (gold_link(0, 5, PARIS),))
    assert not needs_links(whole)
    assert with_links([whole], DictionaryLinker(GRAPH))[0] is whole


def test_no_link_reaches_across_the_border_of_a_pair() -> None:
    graph = graph_from_records([Text("Q60", TextKind.LABEL, "New York")])
    n_links = {}
    for border in (6, 10, 14):
        text = LinkedText("It is New York, he says", (), pair_start=border)
        n_links[border] = len(with_links([text], DictionaryLinker(graph))[0].links)
    assert n_links == {6: 1, 10: 0, 14: 1}, "it may begin or end there"


def test_mentions_side_by_side_do_not_touch() -> None:
    for one, other, expected in (
        ((0, 5), (5, 9), False), ((0, 5), (4, 9), True), ((0, 5), (6, 9), False),
        ((0, 9), (3, 4), True), ((2, 3), (2, 3), True),
    ):  # fmt: skip
        assert touch(Mention(*one), Mention(*other)) is expected
        assert touch(Mention(*other), Mention(*one)) is expected
    assert _links((5, 6, None), text="Paris+Seine") == [
        ("Paris", PARIS), ("+", "-"), ("Seine", SEINE),
    ]  # fmt: skip


class _Proposes:
    """A linker with the same links for every text."""

    def __init__(self, *links: tuple[int, int, str | None]) -> None:
        self.links = tuple(gold_link(*link) for link in links)

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        return [LinkedText(text, self.links) for text in texts]


def test_a_proposal_without_entity_takes_no_mentions_place() -> None:
    """The text's own mention stays where the linker finds a longer one that it cannot link."""
    text = LinkedText(SENTENCE, (gold_link(6, 10, None),))
    (done,) = with_links([text], _Proposes((0, 5, PARIS), (6, 13, None)))
    assert [(k.start, k.end, k.entity) for k in done.links] == [
        (0, 5, PARIS), (6, 10, None), (6, 13, None),
    ]  # fmt: skip


def test_a_completed_mention_keeps_its_own_words() -> None:
    seine = replace(gold_link(14, 23, None), text="the Seine")
    proposal = _Proposes((0, 5, PARIS), (18, 23, SEINE))
    proposal.links = tuple(replace(link, text="Seine", label="river") for link in proposal.links)
    (done,) = with_links([LinkedText(SENTENCE, (gold_link(0, 5, ROME), seine))], proposal)
    link = done.links[1]
    assert (link.text, link.label, link.entity, link.start) == ("the Seine", "river", SEINE, 14)


def test_some_link_with_an_entity_is_enough() -> None:
    mixed = (gold_link(0, 5, PARIS), gold_link(6, 10, None))
    assert has_entity(LinkedText(SENTENCE, mixed))
    assert not has_entity(LinkedText(SENTENCE, mixed[1:]))
    assert not has_entity(LinkedText(SENTENCE, ()))
