"""Each leak is planted once and must be found; clean data must pass."""

from __future__ import annotations

import numpy as np

from kept.evaluation.leakage import (
    LeakCheck,
    answers_in_subjects,
    audit_table,
    exit_code,
    inverses_in_graph,
    pairs_in_graph,
    sentences_in_training,
    shared_triples,
    triples_in_graph,
)
from kg_loaders import KnowledgeGraph, Triple, graph_from_records


def ids(graph: KnowledgeGraph, *names: tuple[str, str, str]) -> np.ndarray:
    return np.array(
        [(graph.entities.id(h), graph.relations.id(r), graph.entities.id(t)) for h, r, t in names]
    )


def test_tested_triples_in_the_graph(small_graph: KnowledgeGraph):
    tested = ids(small_graph, ("Q90", "P1376", "Q142"), ("Q90", "P1376", "Q183"))
    expected = LeakCheck("tested triple in the graph", 2, 1, ("Paris / capital of / France",))
    assert triples_in_graph(tested, small_graph) == expected


def test_reversed_pairs_in_the_graph(small_graph: KnowledgeGraph):
    tested = ids(small_graph, ("Q142", "P206", "Q90"), ("Q46", "P30", "Q46"), ("Q2", "P17", "Q183"))
    check = inverses_in_graph(tested, small_graph)
    assert (check.n_checked, check.n_found) == (3, 1)
    assert check.examples == ("France / located next to body of water / Paris",)


def test_pairs_under_another_relation(small_graph: KnowledgeGraph):
    tested = ids(small_graph, ("Q2", "P36", "Q183"), ("Q2", "P17", "Q142"))
    assert pairs_in_graph(tested, small_graph).n_found == 1


def test_a_pair_may_be_that_of_a_triple_of_the_graph():
    graph = graph_from_records(
        [Triple("a", "r", "b"), Triple("a", "s", "b"), Triple("a", "r", "c")]
    )
    tested = ids(graph, ("a", "r", "b"), ("a", "r", "c"), ("b", "r", "a"))
    check = pairs_in_graph(np.concatenate([tested, [[-1, 0, 0]]]), graph)
    assert (check.n_found, check.examples) == (1, ("a / r / b",))
    assert pairs_in_graph(tested, graph.with_triples(graph.triples[:0], note="none")).n_found == 0


def test_an_unknown_end_is_in_no_pair():
    """The id -1 beside another must not be read as the pair before it."""
    graph = graph_from_records([Triple("a", "r", "c"), Triple("b", "s", "b")])
    last = graph.n_entities - 1
    assert graph.triples[0].tolist()[::2] == [0, last]
    for head, tail in ((1, -1), (-1, 1), (-1, -1)):
        tested = np.array([[head, 0, tail]])
        assert pairs_in_graph(tested, graph).n_found == 0
        assert inverses_in_graph(tested, graph).n_found == 0


def test_triples_shared_by_splits(small_graph: KnowledgeGraph):
    train, test = small_graph.triples[:10], small_graph.triples[9:]
    check = shared_triples({"train": train, "test": test}, small_graph)
    assert (check.n_checked, check.n_found) == (16, 1)
    assert shared_triples({"train": train, "test": test[1:]}, small_graph).n_found == 0


def test_sentences_in_the_training_text():
    check = sentences_in_training(
        ["Paris is in France .", "Bonn is a city.", "?", "in __Bonn__"],
        iter(["x", "paris  is\tin FRANCE.", "!", "In Bonn"]),
    )
    assert (check.n_checked, check.n_found) == (4, 2)
    assert check.examples == ("Paris is in France .", "in __Bonn__")


def test_answers_inside_the_subject():
    check = answers_in_subjects([("Bank of France", "france"), ("Seine", "France"), ("x", " ")])
    assert answers_in_subjects([("Bank of France", " France\n")]).n_found == 1
    assert (check.n_checked, check.n_found) == (2, 1)  # one has no answer to look for


def test_table_and_exit_code():
    clean, leaky = LeakCheck("a", 4, 0), LeakCheck("b", 4, 1, ("x | y",))
    assert exit_code([clean]) == 0
    assert exit_code([clean, leaky]) == 1
    assert exit_code([clean, leaky], allowed={"b": 0.25}) == 0
    assert audit_table([clean, leaky]).splitlines()[-1] == "| b | 4 | 1 | 25.00% | x \\| y |"
