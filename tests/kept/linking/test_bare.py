"""What a re-ranker does not know while it learns: all but the names of a share of the entities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from entity_linking import LinkedText, gold_link, write_jsonl
from entity_linking.errors import LinkingError
from kept.apps.cli import app
from kept.linking.bare import drawn_entities, names_only
from kept.linking.linkers import LinkerSettings, open_for_training
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records


@pytest.fixture
def graph() -> KnowledgeGraph:
    names = ("Arden", "Holm", "Garth", "Elsby", "Ulm", "Olma")
    records: list[Triple | Text] = [
        Triple(f"Q{i}", "P1", f"Q{(i + 1) % len(names)}") for i in range(len(names))
    ]
    for i, name in enumerate(names):
        records += [
            Text(f"Q{i}", TextKind.LABEL, name),
            Text(f"Q{i}", TextKind.ALIAS, name.upper()),
            Text(f"Q{i}", TextKind.DESCRIPTION, "a place"),
            Text(f"Q{i}", TextKind.TYPE, "place"),
        ]
    return graph_from_records(records)


def test_bare_entities_keep_their_names_alone(graph: KnowledgeGraph) -> None:
    by_name_only = np.array([True, False, False, False, False, False])
    known = names_only(graph, by_name_only)
    assert list(known.entities) == list(graph.entities)
    assert known.n_triples == 4  # two of the six touch it
    for entity in range(graph.n_entities):
        assert known.label(entity) == graph.label(entity)
        assert known.aliases(entity) == graph.aliases(entity)
        assert (known.description(entity) is None) == by_name_only[entity]
    assert not known.entity_texts.of(0, TextKind.TYPE)
    assert known.entity_texts.of(1, TextKind.TYPE) == graph.entity_texts.of(1, TextKind.TYPE)
    assert known.content_hash != graph.content_hash
    assert names_only(graph, ~by_name_only & False).n_triples == graph.n_triples
    with pytest.raises(LinkingError, match=r"give \[6\]"):
        names_only(graph, by_name_only[:2])


def test_a_share_is_drawn_by_the_seed(graph: KnowledgeGraph) -> None:
    assert drawn_entities(graph, 0.0, 0).sum() == 0
    assert drawn_entities(graph, 1.0, 0).all()
    assert (drawn_entities(graph, 0.5, 3) == drawn_entities(graph, 0.5, 3)).all()
    with pytest.raises(LinkingError, match=r"is 1\.5; give 0 to 1"):
        drawn_entities(graph, 1.5, 0)


def test_scorers_of_training_read_the_bare_graph(graph: KnowledgeGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "kg")
    settings = LinkerSettings(kg=str(tmp_path / "kg"))
    text = LinkedText("Arden", (gold_link(0, 5, "Q0"),))
    by_name_only = np.ones(graph.n_entities, np.bool_)
    popularity = {}
    for name, mask in (("known", None), ("bare", by_name_only)):
        pipeline, scorers = open_for_training(settings, graph, ("coherence",), by_name_only=mask)
        proposed = pipeline.propose([text])
        popularity[name] = scorers["popularity"].scores(proposed)[0][0][0]
        assert scorers["coherence"].scores(proposed)[0][0].shape == (1,)
    assert popularity["known"] > popularity["bare"] == 0
    with pytest.raises(LinkingError, match="leave --bare or dense away"):
        open_for_training(settings, graph, ("dense",), by_name_only=by_name_only)


def test_the_command_trains_with_names_alone(graph: KnowledgeGraph, tmp_path: Path) -> None:
    graph.save(tmp_path / "kg")
    texts = [
        LinkedText(f"{name} burned in {year}", (gold_link(0, len(name), f"Q{i}"),))
        for year in range(1800, 1810)
        for i, name in enumerate(("Arden", "Holm", "Garth"))
    ]
    write_jsonl(texts, tmp_path / "gold.jsonl")
    arguments = ["link", "train", tmp_path / "gold.jsonl", "--kg", tmp_path / "kg", "--bare", "0.5"]
    result = CliRunner().invoke(app, [*map(str, arguments), "-o", str(tmp_path / "model")])
    assert result.exit_code == 0, result.output
    assert "mentions with candidates" in result.output
