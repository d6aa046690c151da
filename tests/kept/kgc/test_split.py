"""Which facts a split holds out, on worlds small enough to say all that may be held out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from entity_linking import LinkedText, Mention, RelationExample, gold_link
from kept.errors import ConfigError
from kept.kgc.split import CompletionSplit, split_examples
from kg_loaders import KnowledgeGraph, Triple, graph_from_records

SEEDS = range(6)


def example(
    head: str, relation: str, tail: str, *, also: Sequence[str | None] = ()
) -> RelationExample:
    """A sentence that mentions head, tail and `also`, in this order, by their names."""
    text, links, end = "", [], 0
    for name in (head, tail, *also):
        text += f"{name or 'nobody'} "
        links.append(gold_link(end, len(text) - 1, name))
        end = len(text)
    places = Mention(0, len(head)), Mention(len(head) + 1, len(head) + 1 + len(tail))
    return RelationExample(
        LinkedText(f"{text}{relation}", tuple(links)), head, relation, tail, *places
    )


def split_of(
    examples: Sequence[RelationExample],
    graph: KnowledgeGraph,
    *,
    seed: int = 0,
    valid: int = 0,
    transductive: int = 0,
    inductive: int = 0,
    heads: Sequence[str] = (),
    most: int | None = None,
) -> CompletionSplit:
    return split_examples(
        examples, graph, n_valid=valid, n_transductive=transductive, n_inductive=inductive,
        inductive_heads=heads, generator=np.random.default_rng(seed), max_sentences_per_fact=most,
    )  # fmt: skip


def graph_of(*triples: str) -> KnowledgeGraph:
    return graph_from_records([Triple(*triple.split()) for triple in triples])


def facts_of(examples: Sequence[RelationExample]) -> set[str]:
    return {f"{e.head} {e.relation} {e.tail}" for e in examples}


def triples_of(graph: KnowledgeGraph) -> set[str]:
    entities, relations = graph.entities, graph.relations
    return {
        f"{entities.name(h)} {relations.name(r)} {entities.name(t)}"
        for h, r, t in graph.triples.tolist()
    }


def test_only_facts_whose_ends_keep_another_triple_are_tested() -> None:
    """b and c are in a circle with a; d hangs on c by its only triple."""
    graph = graph_of("a r b", "b r c", "c r a", "c r d")
    examples = [example(*triple.split()) for triple in ("a r b", "b r c", "c r a", "c r d")]
    tested = set()
    for seed in SEEDS:
        split = split_of(examples, graph, seed=seed, transductive=1)
        tested |= facts_of(split.tests["transductive"])
    assert tested == {"a r b", "b r c", "c r a"}


def test_of_a_triangle_one_side_is_tested() -> None:
    """Without a second one, each corner keeps a triple; with it, one corner would keep none."""
    graph = graph_of("a r b", "b r c", "c r a")
    examples = [example(*triple.split()) for triple in ("a r b", "b r c", "c r a")]
    for seed in SEEDS:
        assert len(split_of(examples, graph, seed=seed, transductive=1).tests["transductive"]) == 1
        with pytest.raises(ConfigError, match="but only 1 facts have a head and a tail"):
            split_of(examples, graph, seed=seed, transductive=2)


def test_two_relations_of_a_pair_are_lost_together() -> None:
    """Both of a's triples join it to b: neither way round can one be tested."""
    graph = graph_of("a r b", "b s a", "b r c", "c r d", "d r b")
    examples = [example("a", "r", "b"), example("b", "s", "a"), example("b", "r", "c")]
    for seed in SEEDS:
        split = split_of(examples, graph, seed=seed, transductive=1)
        assert facts_of(split.tests["transductive"]) == {"b r c"}


def test_a_second_fact_of_a_tested_pair_costs_nothing_more() -> None:
    graph = graph_of("a r b", "a s b", "a r c", "b r c")
    examples = [example("a", "r", "b"), example("a", "s", "b")]
    for seed in SEEDS:
        split = split_of(examples, graph, seed=seed, transductive=2)
        assert facts_of(split.tests["transductive"]) == {"a r b", "a s b"}
        assert triples_of(split.train_graph) == {"a r c", "b r c"}
        assert split.train == ()


def test_heads_are_held_out_until_there_are_enough_facts() -> None:
    """Three heads with two facts each: two heads give three facts, the third stays in training."""
    names = ["p", "q", "s"]
    triples = [f"{name} r {end}" for name in names for end in ("x", "y")]
    graph = graph_of(*triples, "x r y")
    examples = [example(*triple.split()) for triple in triples]
    chosen = set()
    for seed in SEEDS:
        split = split_of(examples, graph, seed=seed, inductive=3, heads=[*names, "x"])
        tested = split.tests["inductive"]
        assert len(facts_of(tested)) == 3
        unseen = {e.head for e in tested}
        assert len(unseen) == 2
        (rest,) = {*names} - unseen
        chosen.add(rest)
        assert {e.head for e in split.train} == {rest}
        assert triples_of(split.train_graph) == {f"{rest} r x", f"{rest} r y", "x r y"}
        remaining = {f"{e.head} r {e.tail}" for e in examples} - facts_of(tested)
        assert triples_of(split.context_graph) == remaining | {"x r y"}
    assert len(chosen) > 1, "which heads are held out depends on the seed"


def test_no_more_heads_are_held_out_than_the_facts_need() -> None:
    graph = graph_of("p r x", "p r y", "q r x", "q r y", "x r y")
    examples = [example(*t.split()) for t in ("p r x", "p r y", "q r x", "q r y")]
    for seed in SEEDS:
        split = split_of(examples, graph, seed=seed, inductive=2, heads=["p", "q"])
        assert len({e.head for e in split.tests["inductive"]}) == 1
        assert len(split.train) == 2
        again = split_of(examples, graph, seed=seed, inductive=2, heads=["q", "p"])
        assert again.tests == split.tests, "whatever the order in which the heads are given"


def test_heads_that_may_not_be_held_out_stay() -> None:
    graph = graph_of("p r x", "q r x", "x r y")
    examples = [example("p", "r", "x"), example("q", "r", "x")]
    for seed in SEEDS:
        split = split_of(examples, graph, seed=seed, inductive=1, heads=["q"])
        assert facts_of(split.tests["inductive"]) == {"q r x"}
    with pytest.raises(ConfigError, match="n_inductive is 2, but only 1 facts have a head"):
        split_of(examples, graph, inductive=2, heads=["q"])


def test_triples_of_unseen_heads_do_not_carry_a_transductive_fact() -> None:
    """a keeps another triple only by p, which is held out."""
    graph = graph_of("p r a", "p r b", "a r b", "b r c", "c r d", "d r b", "b r d")
    examples = [example(*triple.split()) for triple in ("p r a", "a r b", "b r c")]
    for seed in SEEDS:
        split = split_of(examples, graph, seed=seed, inductive=1, transductive=1, heads=["p"])
        assert facts_of(split.tests["transductive"]) == {"b r c"}


def test_validation_and_test_share_the_transductive_facts() -> None:
    graph = graph_of("a r b", "b r c", "c r d", "d r a", "a r c", "b r d")
    examples = [example(*triple.split()) for triple in ("a r b", "b r c", "c r d")]
    split = split_of(examples, graph, valid=1, transductive=2)
    assert len(split.valid) == 1
    assert len(split.tests["transductive"]) == 2
    everything = facts_of(split.valid) | facts_of(split.tests["transductive"])
    assert everything == {"a r b", "b r c", "c r d"}
    assert repr(split) == "CompletionSplit(train 0, valid 1, transductive 2, inductive 0)"


def test_why_sentences_are_dropped() -> None:
    """By the entities that a sentence mentions, also beside the pair that it is about."""
    graph = graph_of("p r x", "a r b", "x r y", "y r z")
    tested = example("p", "r", "x")
    examples = [
        tested,
        example("a", "r", "b"),
        example("a", "r", "b", also=["c"]),
        example("a", "r", "b", also=["c", "d"]),
        example("a", "s", "b", also=[None, "p"]),
        example("x", "r", "y"),
    ]
    split = split_of(examples, graph, inductive=1, heads=["p"], most=2)
    assert split.dropped == {"mentions an unseen entity": 2, "over max_sentences_per_fact": 1}
    assert split.train == (examples[1], examples[2], examples[5])
    unlimited = split_of(examples, graph, inductive=1, heads=["p"])
    assert unlimited.train == (*examples[1:4], examples[5])


def test_a_sentence_that_mentions_a_tested_pair_is_dropped() -> None:
    graph = graph_of("a r b", "b r c", "c r a", "a r d", "d r b")
    about_others = example("a", "r", "d", also=["b"])
    same_words = RelationExample(
        LinkedText("a b r", ()), "b", "r", "c", Mention(0, 1), Mention(2, 3)
    )
    also_mentioned = example("d", "r", "c", also=["a", "b"])
    examples = [
        example("a", "r", "b"),
        about_others,
        same_words,
        also_mentioned,
        example("c", "r", "a"),
    ]
    split = split_of(examples[:1], graph, transductive=1)
    assert facts_of(split.tests["transductive"]) == {"a r b"}
    dropped: list[dict[str, int]] = []
    for seed in range(30):
        split = split_of(examples, graph, seed=seed, transductive=1)
        if facts_of(split.tests["transductive"]) == {"a r b"}:
            dropped.append(dict(split.dropped))
            assert split.train == (examples[4],)
    assert dropped
    assert [*dropped[0]] == sorted(dropped[0])
    assert dropped[0] == {"is a held-out sentence": 1, "mentions a tested pair": 3}


def test_a_loop_that_is_tested_leaves_other_sentences_about_its_entity() -> None:
    graph = graph_of("a r a", "a r b", "b r c", "c r b")
    examples = [example("a", "r", "a"), example("c", "r", "a")]
    for seed in range(30):
        split = split_of(examples, graph, seed=seed, transductive=1)
        if facts_of(split.tests["transductive"]) == {"a r a"}:
            assert split.train == (examples[1],)
            return
    pytest.fail("the loop is never tested")


def test_a_fact_is_tested_in_its_first_sentence() -> None:
    graph = graph_of("p r x", "x r y")
    examples = [example("p", "r", "x", also=["y"]), example("p", "r", "x")]
    split = split_of(examples, graph, inductive=1, heads=["p"])
    assert split.tests["inductive"] == (examples[0],)
