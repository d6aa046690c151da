"""An entity beside a graph: by a text, by facts, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kept.errors import ConfigError
from kept.kgc.completers.new_entity import missing_entity, records_of, with_entity
from kept.kge.splits import Splits
from kg_loaders import KnowledgeGraph, SourceError, Text, TextKind, Triple, graph_from_records

Fact = tuple[str, str, str]


@pytest.fixture
def graph() -> KnowledgeGraph:
    return graph_from_records(
        [
            Triple("m", "likes", "z"), Triple("z", "likes", "m"), Triple("m", "knows", "p"),
            Text("m", TextKind.LABEL, "Mira", "en"), Text("z", TextKind.LABEL, "Zoe", "en"),
            Text("m", TextKind.DESCRIPTION, "a writer", "en"),
            Text("likes", TextKind.LABEL, "is fond of", "en", 0, True),
        ]
    )  # fmt: skip


@pytest.fixture
def splits(graph: KnowledgeGraph) -> Splits:
    rows = graph.triples.astype(np.int32)
    return Splits(graph, rows[:1], rows[1:2], rows[2:])


def named(graph: KnowledgeGraph, rows: np.ndarray) -> list[Fact]:
    return [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
        for h, r, t in rows.tolist()
    ]


def facts(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "facts.tsv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_the_one_that_is_missing(graph: KnowledgeGraph) -> None:
    assert missing_entity(graph, ("new", "likes", "?")) == "new"
    assert missing_entity(graph, ("m", "likes", "new")) == "new"
    with pytest.raises(ConfigError, match="'new' and 'other' are both missing from the graph"):
        missing_entity(graph, ("new", "likes", "other"))
    with pytest.raises(ConfigError, match="'m' is in the graph"):
        missing_entity(graph, ("m", "likes", "?"))


@pytest.mark.parametrize(
    ("text", "label", "description"),
    [
        ("Ada: a writer", "Ada", "a writer"), ("a writer", "new", "a writer"), (None, "new", ""),
        (": a writer", "new", "a writer"), ("Ada: ", "Ada", ""),
        ("Ada: born in: Rome", "Ada", "born in: Rome"),
    ],
)  # fmt: skip
def test_a_text_is_a_name_and_a_description(
    splits: Splits, text: str | None, label: str, description: str
) -> None:
    grown = with_entity(splits, "new", text=text).graph
    new = grown.entities.id("new")
    assert grown.label(new) == label
    assert (grown.description(new) or "") == description


def test_splits_are_of_the_same_facts_with_other_numbers(splits: Splits) -> None:
    grown = with_entity(splits, "b")
    assert grown.graph.n_entities == splits.graph.n_entities + 1
    assert grown.graph.entities.id("b") < grown.graph.entities.id("m"), "ids are moved"
    for name, rows in splits.as_mapping().items():
        before = named(splits.graph, rows)
        assert named(grown.graph, grown.as_mapping()[name]) == before
    mira = grown.graph.entities.id("m")
    assert (grown.graph.label(mira), grown.graph.description(mira)) == ("Mira", "a writer")
    likes = grown.graph.relations.id("likes")
    assert grown.graph.relation_label(likes) == "is fond of"


def test_facts_join_the_training_split(splits: Splits, tmp_path: Path) -> None:
    """The other end and the relation may be labels."""
    path = facts(tmp_path, "new\tlikes\tz", "Mira\tis fond of\tnew")
    grown = with_entity(splits, "new", facts=path)
    new = [("new", "likes", "z"), ("m", "likes", "new")]
    assert named(grown.graph, grown.train) == [*named(splits.graph, splits.train), *new]
    assert len(grown.valid) == len(splits.valid)
    assert grown.graph.n_triples == splits.graph.n_triples + 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("m\tlikes\tz", r"line 1: .* has not 'new' at one end; drop the line"),
        ("new\tlikes\tnew", r"line 1: .* has not 'new' at one end"),
        ("new\tlikes\tnobody", "line 1: .*drop the line or correct it"),
        ("new\thates\tz", "line 1: .*drop the line or correct it"),
        ("", "holds no triple; write head, relation, tail in a line"),
    ],
)
def test_facts_that_do_not_fit(splits: Splits, tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        with_entity(splits, "new", facts=facts(tmp_path, line))


def test_records_of_a_graph_make_it_again(graph: KnowledgeGraph) -> None:
    again = graph_from_records(list(records_of(graph)))
    assert again.id_space_hash == graph.id_space_hash
    assert again.triples.tolist() == graph.triples.tolist()
    texts = [record for record in records_of(graph) if isinstance(record, Text)]
    assert [text.value for text in texts if text.kind == TextKind.DESCRIPTION] == ["a writer"]
