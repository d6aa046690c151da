"""The made-up company: the graph alone knows, and the texts are what they say they are."""

from __future__ import annotations

from collections import Counter

from kept.lab.demo.private.world import company
from kept.lab.reading.worlds import OCCUPATIONS

COMPANY = company(1, n_train=24, n_test=16, n_new=8)


def test_each_person_is_asked_about_once_and_has_three_facts() -> None:
    examples = [*COMPANY.world.train, *COMPANY.world.test, *COMPANY.new]
    assert len({example.linked.id for example in examples}) == 48
    graph = COMPANY.later
    heads = Counter(graph.entities.name(head) for head in graph.triples[:, 0].tolist())
    assert {heads[example.linked.id] for example in examples} == {3}
    for example in examples:
        (target,) = example.targets
        (link,) = [link for link in example.linked.links if link.mention == target]
        assert link.entity == example.linked.id
        name = graph.label(graph.entities.find(example.linked.id))
        assert example.linked.text[target.start : target.end] == name


def test_the_role_stands_in_the_graph_and_in_no_text() -> None:
    graph = COMPANY.later
    works_as = graph.relations.find(COMPANY.world.telling)
    roles = {
        graph.entities.name(head): graph.label(tail)
        for head, relation, tail in graph.triples.tolist()
        if relation == works_as
    }
    for example in (*COMPANY.world.train, *COMPANY.world.test, *COMPANY.new):
        assert example.labels == (roles[example.linked.id],)
        assert not any(role in example.linked.text for role in OCCUPATIONS)
    assert set(Counter(roles.values()).values()) == {6}


def test_newcomers_are_in_the_later_graph_alone() -> None:
    for example in COMPANY.new:
        assert COMPANY.world.graph.entities.find(example.linked.id) is None
        assert COMPANY.later.entities.find(example.linked.id) is not None
    for example in (*COMPANY.world.train, *COMPANY.world.test):
        linked = {link.entity for link in example.linked.links}
        assert all(COMPANY.world.graph.entities.find(entity or "") is not None for entity in linked)


def test_a_seed_is_a_company() -> None:
    again = company(1, n_train=24, n_test=16, n_new=8)
    assert again.world.test == COMPANY.world.test
    assert again.later.content_hash == COMPANY.later.content_hash
    assert company(2, n_train=24, n_test=16, n_new=8).world.test != COMPANY.world.test
