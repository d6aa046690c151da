"""The policy "relevance" in a builder: facts towards the text's other mentions come first."""

from __future__ import annotations

from typing import Any

import pytest

from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.graph import NodeKind
from kept.graphs.views import adjacency
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from tests.kept.graphs.graph_oracle import oracle, plain
from tests.kept.kbert_texts import mentioning


@pytest.mark.parametrize(("other", "expected"), [("Q46", "Q46"), ("Q183", "Q183"), ("Q90", "Q90")])
def test_the_fact_that_fits_the_text_is_shown(
    other: str, expected: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    config = BuilderConfig(policy="relevance", max_neighbours=1, replace_mentions=False)
    text = mentioning(["Q142", "near", other], small_graph)  # France and one of its neighbours
    graph = build(text, tokenizer, small_graph, generator=generator(0), config=config)
    relations = graph.origins[(graph.kinds == NodeKind.RELATION) & (graph.origins[:, 0] == 0)]
    tails = [small_graph.entities.name(int(small_graph.triples[row, 2])) for row in relations[:, 1]]
    assert tails == [expected]


def test_against_the_oracle(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    config = BuilderConfig(policy="relevance", max_neighbours=2)
    text = mentioning(["Q142", "near", "Q64", "Q90"], small_graph)
    built = build(text, tokenizer, small_graph, generator=generator(0), config=config)
    expected = oracle(text, tokenizer, small_graph, generator(0), config, None)
    assert plain(built, adjacency(built)) == expected


def test_names_are_listed() -> None:
    with pytest.raises(ConfigError, match=r"'degree', 'file', 'random', 'relevance'"):
        BuilderConfig(policy="best")
