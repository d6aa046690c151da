"""Questions about names that the graph does not have get the nearest ones that it has."""

from __future__ import annotations

import pytest

from kept.decoders.answering.near_names import NearNames
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

ROWS = [
    ("Brada Okoral", "works as", "welder"),
    ("Brada Okoral", "lives in", "Orlbach"),
    ("Kelsel Tessan", "lives in", "Tanwick"),
]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Where does Brada Okorel live?", ["Brada Okoral"]),
        ("what is brada okoral's job", ["Brada Okoral"]),
        ("Where does Okoral live?", ["Brada Okoral"]),
        ("Who lives in Tanwik?", ["Tanwick"]),
        ("Where does Kelsl Tesan work?", ["Kelsel Tessan"]),
        ("What is the capital of Atlantis?", []),
        ("", []),
    ],
)
def test_names_that_are_nearly_in_a_question_are_offered(question: str, names: list[str]) -> None:
    graph = KnowledgeGraph.from_triples(ROWS)
    assert NearNames(graph).of(question) == names


def test_labels_are_offered_not_identifiers_and_common_words_are_not_compared() -> None:
    records = [Triple("Q1", "P1", "Q2"), Text("Q1", TextKind.LABEL, "Towers of Lund")]
    near = NearNames(graph_from_records(records))
    assert near.of("Who built the Towers of Lunt?") == ["Towers of Lund"]
    assert near.of("How many towers?") == ["Towers of Lund"]
    assert near.of("How many towers?", frozenset({"towers"})) == []
    assert near.of("What is Q1?") == []
