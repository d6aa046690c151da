"""`summary_of`: what `kept kg info` and others print about a graph."""

from __future__ import annotations

import pytest

from kept.apps.cli.kg.summary import summary_of
from kg_loaders import Text, TextKind, Triple, graph_from_records

RECORDS = [
    Triple("Q90", "P17", "Q142"),
    Text("Q90", TextKind.LABEL, "Paris", "en"),
    Text("Q90", TextKind.ALIAS, "Lutetia", "la"),
    Text("Q90", TextKind.ALIAS, "Paname", "fr"),
    Text("P17", TextKind.LABEL, "country", "en", 0, True),
]


@pytest.mark.parametrize(("licence", "printed"), [("CC0-1.0", "CC0-1.0"), ("", "not stated")])
def test_summary_states_the_licence_or_that_there_is_none(licence: str, printed: str) -> None:
    assert summary_of(graph_from_records(RECORDS, licence=licence))["licence"] == printed


def test_summary_counts_entities_relations_and_texts_by_kind() -> None:
    graph = graph_from_records(RECORDS, sources=["a.tsv"])
    summary = summary_of(graph)
    counts = {name: value for name, value in summary.items() if name.startswith("n_")}
    assert counts == {
        "n_entities": 2, "n_relations": 1, "n_triples": 1, "n_label": 1, "n_alias": 2,
        "n_description": 0, "n_type": 0, "n_relation_texts": 1,
    }  # fmt: skip
    assert [*summary["sources"]] == ["a.tsv"]  # type: ignore[misc]
    assert (summary["content_hash"], summary["id_space_hash"]) == (
        graph.content_hash, graph.id_space_hash,
    )  # fmt: skip
