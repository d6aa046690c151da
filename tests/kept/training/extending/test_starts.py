"""Rows of new entities, against loops and against spaces in which the answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kept.training.extending.starts import (
    STARTS,
    StartContext,
    best_first,
    from_names,
    from_neighbours,
    from_translations,
    scores,
)
from kept.vectors import mean_pieces
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

N, WIDTH = 60, 8


def graph_of(triples: list[tuple[int, int, int]], n: int = N) -> KnowledgeGraph:
    names = [Text(f"e{i:03}", TextKind.LABEL, f"the {chr(97 + i % 26)}{i}", "en") for i in range(n)]
    facts = [Triple(f"e{h:03}", f"r{r}", f"e{t:03}") for h, r, t in triples]
    return graph_from_records([*names, *facts])


def world_of(graph: KnowledgeGraph, tokenizer: Any, is_old: Tensor) -> StartContext:
    draws = torch.Generator().manual_seed(0)
    words = torch.randn(len(tokenizer), WIDTH, generator=draws)
    return StartContext(graph, is_old, words, tokenizer)


def draw(n_triples: int = 150) -> tuple[list[tuple[int, int, int]], np.random.Generator]:
    draws = np.random.default_rng(5)
    ends = draws.integers(0, N, (n_triples, 2))
    kinds = draws.integers(0, 3, n_triples)
    return [(int(h), int(r), int(t)) for (h, t), r in zip(ends, kinds, strict=True)], draws


def neighbours_by_loops(
    rows: Tensor, is_known: Tensor, triples: Any, steps: dict[int, Tensor]
) -> dict[int, Tensor]:
    """Pass by pass, from what earlier passes know."""
    vectors_of = {i: rows[i] for i in range(len(rows)) if is_known[i]}
    while True:
        new = {}
        for entity in range(len(rows)):
            if entity in vectors_of:
                continue
            vectors, lengths = [], []
            for head, relation, tail in triples:
                if head == tail:
                    continue
                for to, source, sign in ((head, tail, -1), (tail, head, 1)):
                    if to == entity and source in vectors_of:
                        vectors.append(vectors_of[source] + sign * steps[relation])
                        lengths.append(vectors_of[source].norm())
            if vectors:
                mean = torch.stack(vectors).mean(0)
                new[entity] = mean / mean.norm() * torch.stack(lengths).mean()
        if not new:
            return {i: row for i, row in vectors_of.items() if not is_known[i]}
        vectors_of |= new


@pytest.mark.parametrize("name", ["neighbours", "translations"])
def test_neighbours_equal_loops(name: str, tokenizer: Any) -> None:
    triples, draws = draw()
    graph = graph_of(triples)
    is_known = torch.from_numpy(draws.random(N) < 0.5)
    rows = torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(1))
    vectors, has_row = STARTS[name](rows, is_known, world_of(graph, tokenizer, is_known), False)
    facts = [tuple(row) for row in graph.triples.tolist()]
    steps = {r: torch.zeros(WIDTH) for r in range(3)}
    if name == "translations":
        for r in steps:
            moved = [
                rows[t] - rows[h]
                for h, q, t in facts
                if q == r and h != t and is_known[h] and is_known[t]
            ]
            steps[r] = torch.stack(moved).mean(0)
    wanted = neighbours_by_loops(rows, is_known, facts, steps)
    unknown = (~is_known).nonzero()[:, 0].tolist()
    assert [e for e, has in zip(unknown, has_row.tolist(), strict=True) if has] == sorted(wanted)
    for row, entity in enumerate(unknown):
        if entity in wanted:
            torch.testing.assert_close(vectors[row], wanted[entity], atol=1e-5, rtol=1e-5)


def test_a_space_of_translations_is_guessed_exactly(tokenizer: Any) -> None:
    """Tails are heads plus their relation's vector: the start of the paper's model finds them."""
    draws = torch.Generator().manual_seed(2)
    steps, rows = torch.randn(3, WIDTH, generator=draws), torch.randn(N, WIDTH, generator=draws)
    triples = [(i, i % 3, 30 + i) for i in range(30)]
    rows[30:] = rows[:30] + steps[[i % 3 for i in range(30)]]
    is_known = torch.ones(N, dtype=torch.bool)
    is_known[[35, 44]] = False
    world = world_of(graph_of(triples), tokenizer, is_known)
    vectors, has_row = from_translations(rows, is_known, world, False)
    assert has_row.all()
    likeness = torch.cosine_similarity(vectors, rows[[35, 44]])
    assert likeness.min() > 0.999
    assert from_neighbours(rows, is_known, world, False)[0].shape == (2, WIDTH)


def test_names_in_words_are_means_and_elsewhere_mapped(tokenizer: Any) -> None:
    graph = graph_of([], n=400)
    is_known = torch.ones(400, dtype=torch.bool)
    is_known[[3, 77, 200]] = False
    world = world_of(graph, tokenizer, is_known)
    means, _ = mean_pieces([graph.label(i) for i in range(400)], world.words, tokenizer)
    vectors, has_row = from_names(means, is_known, world, True)
    assert has_row.all()
    assert torch.equal(vectors, means[[3, 77, 200]])
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(3)))[0]
    turned = means @ turn + 1.5
    vectors, _ = from_names(turned, is_known, world, False)
    off = (vectors - turned[[3, 77, 200]]).norm(dim=1) / (means[[3, 77, 200]]).norm(dim=1)
    assert off.max() < 0.1


def test_scores_say_which_start_is_good(tokenizer: Any) -> None:
    triples, _ = draw(600)
    graph = graph_of(triples)
    world = world_of(graph, tokenizer, torch.ones(N, dtype=torch.bool))
    means, _ = mean_pieces([graph.label(i) for i in range(N)], world.words, tokenizer)
    by_name = scores(means, world, in_words=True)
    assert by_name["names"] == pytest.approx(1, abs=1e-5)
    assert by_name["descriptions"] == 0, "none has one"
    noise = torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(4))
    none = scores(noise, world, in_words=True)
    assert all(abs(value or 0) < 0.45 for value in none.values())
    assert best_first(by_name)[0] == "names"
    assert best_first(by_name, ["neighbours"])[0] == "neighbours"
    empty = StartContext(graph_of([], 3), torch.ones(3, dtype=torch.bool), world.words, tokenizer)
    assert set(scores(noise[:3], empty, in_words=True).values()) == {None}
