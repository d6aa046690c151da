"""Controls: what is taken away is gone, what must stay stays, and the same seed does the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.errors import ConfigError
from kept.inputs.controls.conditions import (
    COMPARED,
    KNOWLEDGE,
    controlled_graph,
    controlled_text,
    n_true,
    random_entities,
    random_facts,
)
from kept.inputs.controls.redrawing import relinking
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

TEXTS = [Text(f"e{i}", TextKind.LABEL, f"n{i:02d} of {'x' * (i % 4 + 1)}", "en") for i in range(12)]


@st.composite
def graphs(draw: Any) -> KnowledgeGraph:
    """Up to twelve entities and four relations; sparse, so that false facts can be found."""
    ends = st.integers(0, 11)
    rows = draw(st.sets(st.tuples(ends, st.integers(0, 3), ends), min_size=1, max_size=30))
    triples = [Triple(f"e{h}", f"r{r}", f"e{t}") for h, r, t in sorted(rows)]
    return graph_from_records([*triples, *TEXTS, *relations()])


def relations() -> list[Text]:
    return [Text(f"r{i}", TextKind.LABEL, f"to be {i}", "en", 0, True) for i in range(4)]


def degrees(graph: KnowledgeGraph) -> Any:
    return np.diff(graph.out_offsets) + np.diff(graph.in_offsets)


@given(graphs(), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_random_entities_are_others_of_the_same_degree(graph: KnowledgeGraph, seed: int) -> None:
    others = random_entities(graph, seed)
    ids = np.arange(graph.n_entities)
    assert sorted(others.ids.tolist()) == ids.tolist()
    assert (others.ids != ids).all()
    counts = Counter(degrees(graph).tolist())
    unlike = degrees(graph)[others.ids] != degrees(graph)
    assert unlike.sum() <= 3 * sum(n == 1 for n in counts.values())  # trades of those left alone
    if 1 not in counts.values():
        assert not unlike.any()
    assert others.n_exact == sum(n for n in counts.values() if n > 1)
    assert (random_entities(graph, seed).ids == others.ids).all()


@given(graphs(), st.integers(0, 3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_random_facts_keep_every_count(graph: KnowledgeGraph, seed: int, keep_pairs: bool) -> None:
    triples = random_facts(graph, np.random.default_rng(seed), keep_pairs=keep_pairs)
    for column in range(3):
        assert Counter(triples[:, column].tolist()) == Counter(graph.triples[:, column].tolist())
    if keep_pairs:
        assert (triples[:, [0, 2]] == graph.triples[:, [0, 2]]).all()


def test_no_true_fact_is_left(world: KnowledgeGraph) -> None:
    for reads in ("links", "pairs"):
        changed = controlled_graph(world, "random-tokens", 0, reads=reads)
        assert (changed.n_triples, n_true(changed, world)) == (world.n_triples, 0)
        again = controlled_graph(world, "random-tokens", 0, reads=reads)
        assert again.content_hash == changed.content_hash
        other = controlled_graph(world, "random-tokens", 1, reads=reads)
        assert other.content_hash != changed.content_hash
    assert n_true(world, world) == world.n_triples
    assert n_true(controlled_graph(world, "off", 0), world) == 0


@given(graphs(), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_random_words_are_others_of_the_same_length(graph: KnowledgeGraph, seed: int) -> None:
    changed = controlled_graph(graph, "random-tokens", seed)
    for ours, theirs in (
        (changed.entity_texts, graph.entity_texts),
        (changed.relation_texts, graph.relation_texts),
    ):
        pairs = list(zip(ours.values.to_pylist(), theirs.values.to_pylist(), strict=True))
        assert pairs
        for one, other in pairs:
            assert [*map(len, one.split(" "))] == [*map(len, other.split(" "))]
            assert one != other
        assert (ours.kinds == theirs.kinds).all()
    assert changed.id_space_hash == graph.id_space_hash


@given(graphs(), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_shuffled_tails_are_those_of_their_relation(graph: KnowledgeGraph, seed: int) -> None:
    changed = controlled_graph(graph, "shuffled", seed)
    assert changed.id_space_hash == graph.id_space_hash
    for relation in range(graph.n_relations):
        ours = changed.triples[changed.triples[:, 1] == relation]
        theirs = graph.triples[graph.triples[:, 1] == relation]
        for column in (0, 2):
            assert set(ours[:, column].tolist()) == set(theirs[:, column].tolist())
        if len(ours) == len(theirs):  # none was merged
            assert sorted(ours[:, 2].tolist()) == sorted(theirs[:, 2].tolist())
    again = controlled_graph(graph, "shuffled", seed)
    assert again.content_hash == changed.content_hash


def test_shuffling_changes_the_facts_and_says_so(world: KnowledgeGraph) -> None:
    changed = controlled_graph(world, "shuffled", 0)
    assert n_true(changed, world) < 0.7 * world.n_triples
    assert controlled_graph(world, "shuffled", 1).content_hash != changed.content_hash
    assert "shuffled" in changed.manifest.sources[-1]
    nothing = controlled_graph(world, "off", 0)
    assert nothing.n_triples == 0
    assert "removed" in nothing.manifest.sources[-1]


def linked(*entities: str | None) -> LinkedText:
    links = tuple(
        Link(Mention(2 * i, 2 * i + 1), tuple(Candidate(c, 0.5, 0.5) for c in ("Q90", "Q2")), e, 1)
        for i, e in enumerate(entities)
    )
    return LinkedText("x " * len(entities), links, "id")


def test_links_go_to_other_entities_and_take_their_candidates_along(
    small_graph: KnowledgeGraph,
) -> None:
    others = random_entities(small_graph, 5)
    text = linked("Q90", None, "Q-unknown", "Q90")
    moved_text = controlled_text(text, "random-entity", others)
    entities = [link.entity for link in moved_text.links]
    assert entities == [others["Q90"], None, "Q-unknown", others["Q90"]]
    assert others["Q90"] != "Q90"
    moved = [c.entity for c in moved_text.links[0].candidates]
    assert moved == [others["Q90"], others["Q2"]]
    assert [link.mention for link in moved_text.links] == [link.mention for link in text.links]
    for knowledge in ("true", "shuffled", "random-tokens"):
        assert controlled_text(text, knowledge) is text
    assert controlled_text(text, "off").links == ()
    with pytest.raises(ConfigError, match="random_entities"):
        controlled_text(text, "random-entity")


def test_candidates_of_a_link_to_nothing_are_moved_too(small_graph: KnowledgeGraph) -> None:
    others = random_entities(small_graph, 5)
    (link,) = controlled_text(linked(None), "random-entity", others).links
    assert link.entity is None
    assert [c.entity for c in link.candidates] == [others["Q90"], others["Q2"]]
    alone = LinkedText("x", (Link(Mention(0, 1), (), "Q90", 1.0), Link(Mention(0, 1), (), None, 1)))
    entities = [each.entity for each in controlled_text(alone, "random-entity", others).links]
    assert entities == [others["Q90"], None], "a link is moved without candidates as well"


def test_where_texts_are_read_they_go_to_the_other_entity(small_graph: KnowledgeGraph) -> None:
    others = random_entities(small_graph, 2)
    assert controlled_graph(small_graph, "random-entity", 2) is small_graph
    changed = controlled_graph(small_graph, "random-entity", 2, reads="texts")
    for entity, other in enumerate(others.ids.tolist()):
        assert changed.label(other) == small_graph.label(entity)
        assert changed.description(other) == small_graph.description(entity)
        assert changed.aliases(other) == small_graph.aliases(entity)
    assert (changed.triples == small_graph.triples).all()


def test_anchors_only_takes_the_facts_and_leaves_the_links(small_graph: KnowledgeGraph) -> None:
    assert controlled_graph(small_graph, "anchors-only", 0).n_triples == 0
    text = linked("Q90")
    assert controlled_text(text, "anchors-only") is text
    assert relinking("anchors-only", small_graph) is None


def test_redrawn_entities_have_facts_where_facts_were(small_graph: KnowledgeGraph) -> None:
    assert controlled_graph(small_graph, "redrawn", 0) is small_graph
    relink = relinking("redrawn", small_graph)
    assert relink is not None
    has_facts = np.diff(small_graph.out_offsets) > 0
    entities = [small_graph.entities.name(i) for i in range(small_graph.n_entities)]
    text = LinkedText(
        "x" * len(entities),
        tuple(Link(Mention(i, i + 1), (), entity, 1.0) for i, entity in enumerate(entities)),
    )
    met = set()
    for seed in range(4):
        moved = [link.entity for link in relink(text, generator(seed, "moved")).links]
        met.add(tuple(moved))
        for old, new in zip(entities, moved, strict=True):
            assert new is not None
            ends = [small_graph.entities.find(name) for name in (old, new)]
            assert ends[0] != ends[1]
            assert has_facts[ends[0]] == has_facts[ends[1]]
    assert len(met) == 4


def test_a_redrawn_link_leads_to_one_of_its_candidates(small_graph: KnowledgeGraph) -> None:
    relink = relinking("redrawn", small_graph)
    assert relink is not None
    first, nowhere, unknown = relink(linked("Q90", None, "Q-unknown"), generator(0, "moved")).links
    assert first.entity == first.candidates[0].entity != "Q90"
    assert nowhere.entity is None
    assert unknown.entity == "Q-unknown"
    assert [c.prior for c in first.candidates] == [0.5, 0.5]


def test_controls_that_cannot_be_made_say_so() -> None:
    alone = graph_from_records([Triple("a", "r", "a")])
    with pytest.raises(ConfigError, match="no other entity"):
        random_entities(alone, 0)
    with pytest.raises(ConfigError, match="no other relation"):
        controlled_graph(alone, "random-tokens", 0, reads="pairs")


def test_grids_that_were_there_before_keep_their_three() -> None:
    assert COMPARED == ("true", "off", "shuffled")
    assert set(COMPARED) < set(KNOWLEDGE)
