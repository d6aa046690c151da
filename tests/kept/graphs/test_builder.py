"""The builder against a second, stupid implementation, and each of its options alone."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.mentions import Link, LinkedText, Mention
from kept.errors import BatchError, ConfigError, HostError
from kept.graphs.builder import (
    BuilderConfig,
    Exclusion,
    RequiredFacts,
    build,
    build_many,
    join_words,
)
from kept.graphs.checks import check
from kept.graphs.edit import with_object
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views import adjacency, is_anchor
from kept.graphs.words import encode_words
from kept.randomness import generator
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from tests.kept.graphs.graph_oracle import oracle, plain

PARIS = LinkedText("Paris lies near Berlin", (
    Link(Mention(0, 5), (), "Q90", 0.9), Link(Mention(16, 22), (), "Q64", 0.8)
))  # fmt: skip


def labels(built: WordKnowledgeGraph, graph: KnowledgeGraph, kind: NodeKind) -> list[str]:
    vocabulary = graph.entities if kind is NodeKind.ENTITY else graph.relations
    return [vocabulary.name(int(i)) for i in built.ids[built.kinds == kind]]


def make(
    linked: LinkedText, tokenizer: Any, graph: KnowledgeGraph, seed: int = 0, **options: Any
) -> WordKnowledgeGraph:
    exclude = options.pop("exclude", None)
    return build(
        linked,
        tokenizer,
        graph,
        generator=generator(seed, "graph", 0, 0),
        config=BuilderConfig(**options),
        exclude=exclude,
    )


CONFIGS = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["file", "random", "degree"]),
        "max_neighbours": st.integers(0, 5),
        "directions": st.sampled_from(["head", "both"]),
        "replace_mentions": st.booleans(),
        "repeats": st.sampled_from(["all", "first"]),
        "drop_probability": st.sampled_from([None, 0.0, 0.5]),
        "drop": st.sampled_from(["triple", "anchor"]),
        "max_words": st.sampled_from([8, 20, 60]),
        "max_nodes": st.sampled_from([120, 126, 140]),
    }
)


@given(options=CONFIGS, seed=st.integers(0, 2**20), data=st.data())
@settings(max_examples=75, deadline=None)
def test_builder_equals_the_loops(
    tokenizer: Any,
    linked: list[LinkedText],
    small_graph: KnowledgeGraph,
    options: dict[str, Any],
    seed: int,
    data: st.DataObject,
) -> None:
    text = data.draw(st.sampled_from(linked))
    rows = data.draw(st.lists(st.integers(0, small_graph.n_triples - 1), max_size=4))
    exclude = Exclusion(
        triples=small_graph.triples[rows[:2]], pairs=small_graph.triples[rows[2:]][:, [0, 2]]
    )
    config = BuilderConfig(**options)
    ours = build(
        text, tokenizer, small_graph, generator=np.random.default_rng(seed), config=config,
        exclude=exclude,
    )  # fmt: skip
    theirs = oracle(text, tokenizer, small_graph, np.random.default_rng(seed), config, exclude)
    assert plain(ours, adjacency(ours)) == theirs
    assert check(ours, small_graph, exclude=exclude, visible_mask=adjacency(ours)) == []
    assert ours.n_nodes <= config.max_nodes


def test_a_small_budget_keeps_the_best_facts_of_each_anchor(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    places = ((4, 9, "Q90"), (15, 19, "Q64"))
    links = [Link(Mention(start, stop), (), name, 1.0) for start, stop, name in places]
    text = LinkedText("the river near city", tuple(links))
    full = make(text, tokenizer, small_graph, policy="file")
    n_fixed = 6
    sizes = []
    for n_nodes in range(n_fixed, full.n_nodes + 1):
        options = {"policy": "file", "max_words": n_fixed, "max_nodes": n_nodes}
        ours = make(text, tokenizer, small_graph, **options)
        theirs = oracle(
            text, tokenizer, small_graph, generator(0, "graph", 0, 0), BuilderConfig(**options)
        )
        assert plain(ours, adjacency(ours)) == theirs
        sizes.append(ours.n_nodes)
    assert sizes[0] == n_fixed
    assert sizes[-1] == full.n_nodes
    assert len(set(sizes)) > 3


def test_positions_of_colake(tokenizer: Any, small_graph: KnowledgeGraph) -> None:
    built = make(PARIS, tokenizer, small_graph, policy="file")
    anchors = is_anchor(built)
    first, second = built.positions[anchors]
    assert first == 1
    words = built.positions[built.kinds == NodeKind.WORD]
    assert sorted([*words, first, second]) == list(range(len(words) + 2))
    is_new = (built.kinds == NodeKind.ENTITY) & ~anchors
    assert set(built.positions[is_new]) <= {first + 2, second + 2}
    assert set(built.positions[built.kinds == NodeKind.RELATION]) <= {first + 1, second + 1}


def test_kept_mentions_are_joined_to_their_anchor(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    built = make(PARIS, tokenizer, small_graph, replace_mentions=False)
    joined = built.edge_kinds == EdgeKind.MENTION_ENTITY
    words = tokenizer.convert_ids_to_tokens(built.ids[built.edges[joined, 0]].tolist())
    assert "".join(words).replace("##", "") == "parisberlin"
    assert set(built.edge_weights[joined].tolist()) == {np.float32(0.9), np.float32(0.8)}


def test_exclusion_of_triples_and_pairs(tokenizer: Any, small_graph: KnowledgeGraph) -> None:
    ids = [
        small_graph.entities.id("Q90"),
        small_graph.relations.id("P17"),
        small_graph.entities.id("Q142"),
    ]
    triple = np.array([ids], np.int32)
    options = {"policy": "file", "directions": "both"}
    free = make(PARIS, tokenizer, small_graph, **options)
    exact = make(PARIS, tokenizer, small_graph, exclude=Exclusion(triples=triple), **options)
    pair = make(PARIS, tokenizer, small_graph, exclude=Exclusion(pairs=triple[:, ::-2]), **options)
    counts = [labels(b, small_graph, NodeKind.RELATION) for b in (free, exact, pair)]
    assert sorted(counts[0]) == sorted([*counts[1], "P17"])
    assert sorted(counts[0]) == sorted([*counts[2], "P17", "P1376", "P36"])
    assert [p.code for p in check(free, small_graph, exclude=Exclusion(triples=triple))] == ["G111"]
    with pytest.raises(BatchError, match=r"\[n 3\]"):
        Exclusion(triples=triple[:, :2])


def test_both_directions_show_a_fact_between_anchors_once(tokenizer: Any) -> None:
    graph = graph_from_records(
        [Triple("A", "r", "B"), Triple("A", "r", "A"), Triple("C", "r", "B")]
    )
    text = LinkedText("a b", (Link(Mention(0, 1), (), "A", 1.0), Link(Mention(2, 3), (), "B", 1.0)))
    built = make(text, tokenizer, graph, directions="both", policy="file")
    rows = built.origins[built.kinds == NodeKind.RELATION, 1]
    assert sorted(rows.tolist()) == [0, 1, 2]
    assert labels(built, graph, NodeKind.ENTITY) == ["A", "B", "C"]
    assert check(built, graph) == []


def test_overlapping_and_cut_links_stay_words(tokenizer: Any, small_graph: KnowledgeGraph) -> None:
    text = "Paris the Texas river Berlin"
    links = (
        Link(Mention(0, 9), (), "Q830149", 1.0),
        Link(Mention(6, 9), (), "Q90", 1.0),
        Link(Mention(22, 28), (), "Q64", 1.0),
    )
    built = make(LinkedText(text, links), tokenizer, small_graph, max_words=12)
    assert built.origins[is_anchor(built), 0].tolist() == [0]


def test_repeated_mentions(tokenizer: Any, small_graph: KnowledgeGraph) -> None:
    links = tuple(Link(Mention(i, i + 5), (), "Q90", 1.0) for i in (0, 10))
    text = LinkedText("Paris and Paris", links)
    both = make(text, tokenizer, small_graph)
    assert is_anchor(both).sum() == 2
    facts = both.origins[both.kinds == NodeKind.RELATION, 0]
    assert len(facts) == 3
    assert set(facts.tolist()) == {0}
    assert is_anchor(make(text, tokenizer, small_graph, repeats="first")).sum() == 1


@pytest.mark.parametrize("directions", ["head", "both"])
def test_facts_of_a_hub_are_drawn(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, directions: Literal["head", "both"]
) -> None:
    """As many, of the same entity, each as often, as when all its facts are shuffled."""
    triples = [Triple("Q1", "P1", f"Q{i}") for i in range(2, 8)]
    triples += [Triple(f"Q{i}", "P2", "Q1") for i in range(8, 12)]
    graph = graph_from_records(triples)
    texts = [LinkedText("Paris", (Link(Mention(0, 5), (), "Q1", 0.9),))] * 900
    config = BuilderConfig(max_neighbours=3, directions=directions)
    expected = 900 * 3 / (6 if directions == "head" else 10)
    for hub in (5, 100):
        monkeypatch.setattr("kept.graphs.building.facts.HUB", hub)
        graphs = build_many(texts, tokenizer, graph, seed=1, config=config)
        names_of_graphs = [labels(each, graph, NodeKind.ENTITY) for each in graphs]
        assert all(len(names) == len(set(names)) == 4 for names in names_of_graphs)
        counts = Counter(name for names in names_of_graphs for name in names)
        assert counts.pop("Q1") == len(texts)
        assert all(abs(count - expected) < 5 * np.sqrt(expected) for count in counts.values())
        assert len(counts) == (6 if directions == "head" else 10)


def test_dropping(tokenizer: Any, small_graph: KnowledgeGraph) -> None:
    def n_visible(seed: int, drop: str, probability: float) -> int:
        built = make(PARIS, tokenizer, small_graph, seed, drop=drop, drop_probability=probability)
        return int((built.kinds == NodeKind.RELATION).sum())

    assert n_visible(0, "triple", 1.0) == n_visible(0, "anchor", 1.0) == 0
    by_anchor = {n_visible(seed, "anchor", 0.5) for seed in range(40)}
    assert by_anchor == {0, 2, 3, 5}  # Berlin has two facts, Paris three
    assert {n_visible(seed, "triple", 0.5) for seed in range(200)} == {0, 1, 2, 3, 4, 5}


def test_a_graph_depends_on_its_own_key_alone(
    tokenizer: Any, small_graph: KnowledgeGraph, linked: list[LinkedText]
) -> None:
    config = BuilderConfig(drop_probability=0.3, directions="both", max_neighbours=3)
    whole = build_many(linked, tokenizer, small_graph, seed=5, epoch=2, config=config)
    samples = [7, 3, 21]
    some = build_many(
        [linked[i] for i in samples], tokenizer, small_graph, seed=5, epoch=2, config=config,
        samples=samples,
    )  # fmt: skip
    for i, ours in zip(samples, some, strict=True):
        assert plain(ours, adjacency(ours)) == plain(whole[i], adjacency(whole[i]))
    other = build_many(linked, tokenizer, small_graph, seed=5, epoch=3, config=config)
    assert any(a.n_nodes != b.n_nodes for a, b in zip(whole, other, strict=True))
    assert build_many([], tokenizer, small_graph, seed=5) == []


def test_faulty_configuration_is_named_at_once() -> None:
    wrong: dict[str, Any] = {
        "policy": "best", "max_neighbours": -1, "directions": "tail", "replace_mentions": "links",
        "repeats": "last", "drop": "facts", "drop_probability": 1.5, "max_words": 2,
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        BuilderConfig(**wrong)
    policy, *others = str(caught.value).removeprefix("BuilderConfig: ").split("; ")
    assert policy.startswith("policy 'best': one of ['degree', ")
    room = "so that words and anchors fit into max_nodes"
    assert others == [
        "max_neighbours -1: 0 or more", "directions 'tail': 'head' or 'both'",
        "replace_mentions 'links': true, false or 'facts'", "repeats 'last': 'all' or 'first'",
        "drop 'facts': 'triple' or 'anchor'", "drop_probability 1.5: from 0 to 1",
        f"max_words 2: from 3 to 256, {room} 256",
    ]  # fmt: skip
    for replaced, most in ((True, 300), (False, 150), ("facts", 300)):
        fitting: dict[str, Any] = {"replace_mentions": replaced, "max_nodes": 300}
        BuilderConfig(max_words=most, max_neighbours=0, drop_probability=1.0, **fitting)
        with pytest.raises(
            ConfigError, match=f"max_words {most + 1}: from 3 to {most}, {room} 300"
        ):
            BuilderConfig(max_words=most + 1, **fitting)
    BuilderConfig(max_words=3, drop_probability=0.0)


def test_slow_tokenizers_are_refused() -> None:
    with pytest.raises(HostError, match="no character offsets"):
        encode_words(["a"], object(), max_words=8)


def test_anchors_cover_the_pieces_that_alignment_gives(
    tokenizer: Any, small_graph: KnowledgeGraph, linked: list[LinkedText]
) -> None:
    alignment = pytest.importorskip("entity_linking.alignment", reason="no alignment module")
    for max_words in (8, 20, 128):
        config = BuilderConfig(replace_mentions=False, max_words=max_words)
        built = build_many(linked, tokenizer, small_graph, seed=0, config=config)
        aligned = alignment.align_batch(linked, tokenizer, max_length=max_words)
        for ours, theirs in zip(built, aligned, strict=True):
            spans = dict(zip(theirs.links, theirs.spans, strict=True))
            for anchor in np.flatnonzero(is_anchor(ours)).tolist():
                joined = (ours.edges[:, 1] == anchor) & (ours.edge_kinds == EdgeKind.MENTION_ENTITY)
                pieces = ours.edges[joined, 0]
                start, stop = spans.pop(ours.links[ours.origins[anchor, 0]])
                assert pieces.tolist() == list(range(start, stop))
            rest = {link.entity for link in spans}
            assert all(name is None or name not in small_graph.entities for name in rest)


NOT_IN_TRIPLES = "Q830149"
BARE_FIRST = LinkedText("Paris lies near Berlin", (
    Link(Mention(0, 5), (), NOT_IN_TRIPLES, 0.9), Link(Mention(16, 22), (), "Q64", 0.8)
))  # fmt: skip


def test_with_facts_alone_a_mention_without_any_stays_words(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    """As if the bare link were not there, but for the number of the other link."""
    settings = {"policy": "degree", "max_neighbours": 3}
    built = make(BARE_FIRST, tokenizer, small_graph, replace_mentions="facts", **settings)
    second = LinkedText(BARE_FIRST.text, BARE_FIRST.links[1:])
    alone = make(second, tokenizer, small_graph, **settings)
    assert labels(built, small_graph, NodeKind.ENTITY)[0] == "Q64"
    for name in ("kinds", "ids", "positions", "spans", "edges", "edge_kinds"):
        assert np.array_equal(getattr(built, name), getattr(alone, name)), name
    assert {int(i) for i in built.origins[:, 0]} == {-1, 1}
    assert check(built, small_graph) == []


def test_with_facts_alone_all_or_nothing_may_stay(
    tokenizer: Any, small_graph: KnowledgeGraph
) -> None:
    whole = make(PARIS, tokenizer, small_graph, policy="degree", replace_mentions="facts")
    published = make(PARIS, tokenizer, small_graph, policy="degree")
    assert np.array_equal(whole.ids, published.ids)
    assert np.array_equal(whole.edges, published.edges)
    none = make(PARIS, tokenizer, small_graph, replace_mentions="facts", drop_probability=1.0)
    assert (none.kinds == NodeKind.WORD).all()
    assert len(none.ids) == len(encode_words([PARIS.text], tokenizer, max_words=128)[0].ids)


def insisted(
    graph: KnowledgeGraph, tokenizer: Any, row: int, *, seed: int, within: int, **options: Any
) -> WordKnowledgeGraph:
    config = BuilderConfig(**options)
    (words,) = encode_words([PARIS.text], tokenizer, max_words=config.max_words, pair_starts=[None])
    return join_words(
        PARIS,
        words,
        graph,
        generator=generator(seed, "graph", 0, 0),
        config=config,
        insist=RequiredFacts((row,), within),
    )


def test_a_fact_that_is_insisted_on_is_shown_at_a_random_place(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    paris = small_graph.entities.find("Q90")
    assert paris is not None
    rows = range(int(small_graph.out_offsets[paris]), int(small_graph.out_offsets[paris + 1]))
    assert len(rows) > 2
    for row in rows:
        places = set()
        for seed in range(20):
            built = insisted(
                small_graph, tokenizer, row, seed=seed, within=2, max_neighbours=2,
                drop_probability=0.9,
            )  # fmt: skip
            (rank,) = built.origins[
                (built.origins[:, 1] == row) & (built.kinds == NodeKind.RELATION), 2
            ].tolist()
            places.add(rank)
        assert places == {0, 1}


def test_another_object_takes_the_node_of_the_fact(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    apart = small_graph.entities.find("Q830149")  # in no triple
    assert apart is not None
    built = make(PARIS, tokenizer, small_graph, policy="file")
    anchors = {"Q90", "Q64"}
    relations = np.flatnonzero(built.kinds == NodeKind.RELATION)
    rows = built.origins[relations, 1].tolist()
    tails = [small_graph.entities.name(int(small_graph.triples[row, 2])) for row in rows]
    row = next(row for row, tail in zip(rows, tails, strict=True) if tail not in anchors)
    changed = with_object(built, row, apart)
    old = small_graph.triples[row, 2]
    assert (built.ids != changed.ids).sum() == 1
    assert built.ids[built.ids != changed.ids].tolist() == [old]
    assert changed.ids[built.ids != changed.ids].tolist() == [apart]
    assert with_object(built, small_graph.n_triples, apart).ids.tolist() == built.ids.tolist()
