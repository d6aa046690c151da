"""The picture of what a method reads holds what its view's batch holds: each node, slot, prior."""

from __future__ import annotations

from typing import Any

import pytest

from entity_linking.mentions import LinkedText
from kept.batches import N_SPECIAL_ROWS, NONE, KnowledgeBatch
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.drawing.form import EMPTY, Column, form_of
from kept.graphs.drawing.form_svg import columns_in_words, draw_form
from kept.graphs.graph import NodeKind
from kept.inputs.views import builder_for, view_for
from kept.methods import METHODS
from kept.randomness import generator
from kg_loaders import KnowledgeGraph


def _read(
    method: str, linked: LinkedText, graph: KnowledgeGraph, tokenizer: Any, **options: Any
) -> tuple[KnowledgeBatch, tuple[Column, ...]]:
    chosen = METHODS[method]
    view = view_for(chosen, graph, tokenizer, options)
    config = builder_for(chosen, BuilderConfig(policy="degree", max_neighbours=3), options)
    built = build(linked, tokenizer, graph, generator=generator(0, "form"), config=config)
    batch = view(built)
    return batch, form_of(built, batch, view, graph, tokenizer)


def _heads(columns: tuple[Column, ...]) -> list[str]:
    return [cell.text for column in columns for cell in column.head]


def _tokens(tokenizer: Any, batch: KnowledgeBatch) -> list[str]:
    tokens: list[str] = tokenizer.convert_ids_to_tokens(batch.node_ids[0].tolist())
    return tokens


METHODS_OF_WORDS = [n for n in METHODS if n not in ("kbert", "colake", "ebert", "luke", "words")]


@pytest.mark.parametrize("method", METHODS_OF_WORDS)
def test_the_words_are_the_words(
    method: str, linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    n_hung = 0
    for text in linked:
        batch, columns = _read(method, text, small_graph, tokenizer)
        assert _heads(columns) == _tokens(tokenizer, batch)
        positions = [cell.note for column in columns for cell in column.head]
        assert positions == [str(p) for p in batch.positions[0].tolist()]
        n_hung += sum(len(column.rows) for column in columns)
    assert bool(n_hung) == (method not in ("none", "kepler", "libert"))


@pytest.mark.parametrize("soft", [True, False])
def test_branches_are_the_nodes_behind_the_words(
    soft: bool, linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    n_branches = 0
    for text in linked:
        batch, columns = _read(
            "kbert", text, small_graph, tokenizer, max_branches=3, soft_positions=soft
        )
        nodes = list(
            zip(
                _tokens(tokenizer, batch), batch.positions[0].tolist(),
                batch.node_kinds[0].tolist(), strict=True,
            )
        )  # fmt: skip
        n_words = sum(kind == NodeKind.WORD for _, _, kind in nodes)
        assert _heads(columns) == [token for token, _, _ in nodes[:n_words]]
        roles = {int(NodeKind.RELATION): "relation", int(NodeKind.ENTITY): "neighbour"}
        hung = [cell for column in columns for row in column.rows for cell in row]
        assert [(cell.text, cell.note, cell.role) for cell in hung] == [
            (token, str(position), roles[kind]) for token, position, kind in nodes[n_words:]
        ]
        n_branches += sum(len(column.rows) for column in columns)
    assert n_branches > 20


def test_entities_of_luke_are_below_their_mentions(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    n_entities = 0
    for text in linked:
        batch, columns = _read("luke", text, small_graph, tokenizer)
        n_words = int((batch.node_kinds[0] == NodeKind.WORD).sum())
        assert _heads(columns) == _tokens(tokenizer, batch)[:n_words]
        names = [cell.text for column in columns for row in column.rows for cell in row]
        rows = batch.node_ids[0][n_words:].tolist()
        assert sorted(names) == sorted(small_graph.label(n - N_SPECIAL_ROWS)[:40] for n in rows)
        n_entities += len(rows)
    assert n_entities > 5


def test_each_word_has_a_slot(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    for text in linked:
        batch, columns = _read("ernie", text, small_graph, tokenizer)
        assert batch.entity_ids is not None
        expected = [
            small_graph.label(row - N_SPECIAL_ROWS) if row >= N_SPECIAL_ROWS else EMPTY
            for row in batch.entity_ids[0].tolist()
        ]
        assert [row[0].text for column in columns for row in column.rows] == expected


def test_candidates_hang_with_their_priors(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    n_candidates = 0
    for text in linked:
        batch, columns = _read("knowbert", text, small_graph, tokenizer)
        assert batch.candidate_ids is not None
        assert batch.candidate_priors is not None
        pairs = zip(
            batch.candidate_ids.flatten().tolist(), batch.candidate_priors.flatten().tolist(),
            strict=True,
        )  # fmt: skip
        expected = sorted(
            (small_graph.label(row - N_SPECIAL_ROWS), f"{prior:.2f}")
            for row, prior in pairs
            if row >= N_SPECIAL_ROWS
        )
        hung = [(row[0].text, row[0].note) for column in columns for row in column.rows]
        assert sorted(hung) == expected
        n_candidates += len(hung)
    assert n_candidates


def test_entities_stand_between_the_words(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    n_entities = 0
    for text in linked:
        batch, columns = _read("ebert", text, small_graph, tokenizer)
        kinds, ids = batch.node_kinds[0].tolist(), batch.node_ids[0].tolist()
        expected = [
            small_graph.label(number - N_SPECIAL_ROWS) if kind == NodeKind.ENTITY else token
            for kind, number, token in zip(kinds, ids, _tokens(tokenizer, batch), strict=True)
        ]
        assert _heads(columns) == expected
        n_entities += kinds.count(int(NodeKind.ENTITY))
    assert n_entities


@pytest.mark.parametrize("method", ["ktnet", "sensebert", "sentilare"])
def test_what_is_added_to_words_hangs_below_them(
    method: str, linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    for text in linked:
        batch, columns = _read(method, text, small_graph, tokenizer)
        assert batch.extra_ids is not None
        expected = sum(int((ids != NONE).sum()) for ids in batch.extra_ids.values())
        assert sum(len(column.rows) for column in columns) == expected


def test_the_picture_says_in_words_what_hangs(
    linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    names = set(small_graph.entities)
    sure = (each for each in linked if each.links and each.links[0].confidence > 0.3)
    text = next(each for each in sure if each.links[0].entity in names)
    batch, columns = _read("ernie", text, small_graph, tokenizer)
    assert batch.entity_ids is not None
    entities = [
        row - N_SPECIAL_ROWS for row in batch.entity_ids[0].tolist() if row >= N_SPECIAL_ROWS
    ]
    assert entities
    assert all(small_graph.label(entity) in columns_in_words(columns) for entity in entities)
    for width in (1120, 400):
        svg = draw_form(columns, "<ERNIE>", page_width=width)
        assert f'viewBox="0 0 {width} ' in svg
        assert "&lt;ERNIE&gt;" in svg
        assert "<ERNIE>" not in svg
        places = [float(part.split('"')[0]) for part in svg.split('<rect x="')[1:]]
        assert max(places) < width
    _, plain = _read("none", text, small_graph, tokenizer)
    assert columns_in_words(plain) == "word pieces alone"
