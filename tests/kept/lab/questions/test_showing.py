"""Whose facts are shown under a control, and which graph is asked under edits."""

from __future__ import annotations

import numpy as np
import pytest

from entity_linking.mentions import Mention
from kept.errors import NoControlError
from kept.lab.questions.items import Item, QuestionSet
from kept.lab.questions.showing import edited_graph, other_entities
from kg_loaders import Triple, graph_from_records


def questions(facts: list[tuple[str, str, str]]) -> QuestionSet:
    """One question about every fact."""
    graph = graph_from_records([Triple(*fact) for fact in facts])
    items = [Item("who", Mention(0, 3), head, relation, (tail,)) for head, relation, tail in facts]
    return QuestionSet(graph, tuple(items), {})


def cycle(of: dict[str, str]) -> set[str]:
    """The entities that a walk over `of` meets from the first one."""
    seen, at = set(), next(iter(of))
    while at not in seen:
        seen.add(at)
        at = of[at]
    return seen


BORN = [(f"person{i}", "born", f"town{i}") for i in range(4)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "facts",
    [
        [*BORN, ("film", "shown", "1990")],  # one alone
        [*BORN, ("film", "shown", "1990"), ("river", "length", "9")],  # two alone
        [*BORN, *[(f"person{i}", "died", "Rome") for i in range(2)]],  # two groups
    ],
)
def test_every_entity_is_shown_the_facts_of_another(
    facts: list[tuple[str, str, str]], seed: int
) -> None:
    others = other_entities(questions(facts), seed)
    assert {*others} == {*others.values()} == {head for head, _, _ in facts}
    assert [one for one, other in others.items() if one == other] == []


@pytest.mark.parametrize("seed", range(4))
def test_entities_of_the_same_relations_trade_among_themselves(seed: int) -> None:
    facts = [*BORN, ("film", "shown", "1990"), ("river", "length", "9")]
    others = other_entities(questions(facts), seed)
    people = {name: other for name, other in others.items() if name.startswith("person")}
    assert cycle(people) == {*people} == {*people.values()}
    assert (others["film"], others["river"]) == ("river", "film")


def test_an_entity_that_has_the_only_facts_has_no_other() -> None:
    with pytest.raises(NoControlError, match="there is no other"):
        other_entities(questions([("film", "shown", "1990")]), 0)


@pytest.mark.parametrize("seed", range(4))
def test_edits_change_every_value_of_a_relation_with_more_than_one(seed: int) -> None:
    facts = [("a", "born", "x"), ("b", "born", "y"), ("c", "born", "x"), ("a", "lives", "z")]
    graph = graph_from_records([Triple(*fact) for fact in facts])
    edited = edited_graph(graph, np.random.default_rng(seed))
    names, relations = graph.entities.name, graph.relations.name
    triples = {(names(h), relations(r), names(t)) for h, r, t in edited.triples.tolist()}
    assert triples == {
        ("a", "born", "y"), ("b", "born", "x"), ("c", "born", "y"), ("a", "lives", "z"),
    }  # fmt: skip
