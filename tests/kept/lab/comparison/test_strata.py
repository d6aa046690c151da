"""Slices of items by what the graph holds of them, for items made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.lab.comparison.items import item_traits
from kept.lab.study.slices import ENTITY_ALONE, FACT, KNOWLEDGE, NOTHING, no_fact, slices
from kept.tasks.datasets.example import TaskExample
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    """a and b stand in triples, a as head of three, b as tail of two; c stands in none."""
    triples = [Triple("a", "r", "b"), Triple("a", "s", "b"), Triple("a", "r", "d")]
    return graph_from_records([*triples, Text("c", TextKind.LABEL, "c", "en")])


def item(*entities: str, pair: tuple[str, str] | None = None, words: int = 1) -> TaskExample:
    """A text of one mention an entity, of so many words each."""
    text, links = "", []
    for name in entities:
        surface = " ".join([name] * words)
        mention = Mention(len(text), len(text) + len(surface))
        links.append(Link(mention, (Candidate(name, 1.0, 1.0),), name, 1.0))
        text += surface + " "
    return TaskExample(LinkedText(text + "end", tuple(links)), ("x",), pair=pair)


def test_traits_by_hand(graph: KnowledgeGraph) -> None:
    items = [
        item("a", words=2), item("c"), item("unknown"), item(), item("b", "c"),
        item("a", "b", pair=("a", "b")), item("b", pair=("a", "b")),
    ]  # fmt: skip
    traits = item_traits(items, [item("a"), item("b")], graph)
    assert [t.has_entity for t in traits] == [True, True, False, False, True, True, True]
    assert [t.has_fact for t in traits] == [True, False, False, False, True, True, False]
    assert [t.degree for t in traits] == [3, 0, 0, 0, 2, 3, 2]
    assert [t.popularity for t in traits] == [0, 0, 0, 0, 2, 2, 2]
    assert [t.is_seen for t in traits] == [True, False, True, True, False, True, True]
    assert [t.n_words for t in traits] == [2, 1, 1, 0, 1, 1, 1]
    slices_ = slices(traits)
    strata = slices_[KNOWLEDGE]
    assert {name: np.flatnonzero(mask).tolist() for name, mask in strata.items()} == {
        FACT: [0, 4, 5], ENTITY_ALONE: [1, 6], NOTHING: [2, 3],
    }  # fmt: skip
    assert np.flatnonzero(no_fact(strata)).tolist() == [1, 2, 3, 6]
    assert {name: int(mask.sum()) for name, mask in slices_["degree"].items()} == {
        "0 to 2": 3, "3": 2,
    }  # fmt: skip
    assert set(slices_["entities"]) == {"all seen in training", "one unseen"}
    assert set(slices_["mention"]) == {"one word", "two words"}


def test_every_item_with_an_entity_is_in_one_third(graph: KnowledgeGraph) -> None:
    items = [item("a")] * 8 + [item("b")] * 8 + [item("d")] * 8 + [item()] * 4
    slices_ = slices(item_traits(items, [], graph))
    for kind in ("degree", "popularity", "entities"):
        assert sum(slices_[kind].values()).tolist() == [1] * 24 + [0] * 4  # type: ignore[union-attr]
    assert list(slices_["degree"]) == ["1", "2", "3"]
    assert sum(slices_[KNOWLEDGE].values()).tolist() == [1] * 28  # type: ignore[union-attr]
    assert not no_fact({FACT: np.ones(3, np.bool_)}).any()


def test_a_graph_that_links_lead_nowhere_in_has_no_thirds(graph: KnowledgeGraph) -> None:
    slices_ = slices(item_traits([item(), item("unknown")], [], graph))
    assert list(slices_[KNOWLEDGE]) == [NOTHING]
    assert slices_["degree"] == slices_["entities"] == {}


@pytest.mark.parametrize(
    ("words", "name"),
    [(1, "one word"), (2, "two words"), (3, "more words"), (4, "more words"), (9, "more words")],
)
def test_mentions_by_their_words(words: int, name: str, graph: KnowledgeGraph) -> None:
    traits = item_traits([item("a", words=words)], [], graph)
    assert [trait.n_words for trait in traits] == [words]
    assert list(slices(traits)["mention"]) == [name]


def test_the_longest_mention_of_an_item_counts(graph: KnowledgeGraph) -> None:
    text = "a b and a of the sea"
    mentions = [Mention(0, 1), Mention(2, 3), Mention(8, 20)]
    links = tuple(Link(m, (Candidate("a", 1.0, 1.0),), "a", 1.0) for m in mentions)
    (trait,) = item_traits([TaskExample(LinkedText(text, links), ("x",))], [], graph)
    assert trait.n_words == 4
