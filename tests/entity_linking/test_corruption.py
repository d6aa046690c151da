"""Corrupted links: exact shares, nested sets, and where the wrong entities come from."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import Candidate, Link, LinkedText, LinkingError, Mention, gold_link
from entity_linking.annotations import to_json
from entity_linking.calibration.reliability import calibration_score
from entity_linking.corruption import CorruptionReport, corrupt
from entity_linking.parts import Candidates
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

TWO = (Candidate("Q1", 0.7, 3.0, "alias 'a'"), Candidate("Q2", 0.3, 1.0, "label 'a'"))
WORDS = "aaaa bbbb cccc dddd"


def some_texts(sizes: Sequence[int]) -> list[LinkedText]:
    """Links with two candidates, and a NIL before each."""
    results = []
    for number, size in enumerate(sizes):
        links: list[Link] = []
        for i in range(size):
            links += [gold_link(i, i + 1, None), Link(Mention(i, i + 1), TWO, "Q1", 0.8)]
        results.append(LinkedText(WORDS, tuple(links), str(number % 2)))
    return results


def spoiled(before: list[LinkedText], after: list[LinkedText]) -> tuple[set[object], set[object]]:
    """Where links were dropped and swapped; each text has one link with an entity a place."""
    dropped: set[object] = set()
    swapped: set[object] = set()
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        now = {link.mention: link.entity for link in new.links if link.entity}
        for link in old.links:
            if link.entity and link.mention not in now:
                dropped.add((i, link.mention))
            elif link.entity and now[link.mention] != link.entity:
                swapped.add((i, link.mention))
    return dropped, swapped


SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=6)
RATE = st.integers(0, 100).map(lambda i: i / 100)


@settings(deadline=None, max_examples=30)
@given(SIZES, RATE, RATE, RATE, st.integers(0, 3))
def test_shares_are_exact_and_nested(
    sizes: list[int], drop: float, swap: float, more: float, seed: int
) -> None:
    drop, swap, more = drop / 2, swap / 2, more / 2
    low, high = sorted((drop, more))
    texts = some_texts(sizes)
    n = sum(sizes)
    result, report = corrupt(texts, drop=low, swap=swap, seed=seed)
    dropped, swapped = spoiled(texts, result)
    wanted = math.floor(low * n + 0.5 + 1e-9)
    assert (len(dropped), report.n_dropped, report.n_links) == (wanted, wanted, n)
    assert len(swapped) == report.n_swapped == min(math.floor(swap * n + 0.5 + 1e-9), n - wanted)
    worse, _ = corrupt(texts, drop=high, swap=swap, seed=seed)
    dropped_worse, swapped_worse = spoiled(texts, worse)
    assert dropped <= dropped_worse
    assert swapped_worse <= swapped
    other, _ = corrupt(texts, swap=high, seed=seed)
    _, swapped_other = spoiled(texts, other)
    mildly, _ = corrupt(texts, swap=low, seed=seed)
    assert spoiled(texts, mildly)[1] <= swapped_other
    n_nil = [[link.entity for link in t.links].count(None) for t in result]
    assert n_nil == list(sizes)


@pytest.mark.parametrize(("swap", "spread"), [(0.25, 1.0), (0.5, 2.0), (0.5, 20.0), (0.75, 0.5)])
def test_a_calibrated_linker_knows_how_sure_it_may_be(swap: float, spread: float) -> None:
    texts = some_texts([12] * 400)
    result, _ = corrupt(texts, swap=swap, seed=1, spread=spread)
    plain, _ = corrupt(texts, swap=swap, seed=1)
    links = [k for text in result for k in text.links if k.entity]
    assert [k.entity for k in links] == [k.entity for t in plain for k in t.links if k.entity]
    sure = np.array([k.confidence for k in links])
    right = np.array([k.entity == "Q1" for k in links])
    assert calibration_score(sure, right).ece_width < 0.025
    assert sure.var() == pytest.approx(swap * (1 - swap) / (spread + 1), rel=0.06)  # of the Beta


def test_at_the_ends_all_is_known() -> None:
    for swap in (0.0, 1.0):
        result, _ = corrupt(some_texts([5]), swap=swap, seed=1, spread=1.0)
        assert {k.confidence for k in result[0].links if k.entity} == {1.0 - swap}
    with pytest.raises(LinkingError, match=r"spread is 0\.0"):
        corrupt(some_texts([5]), swap=0.5, seed=1, spread=0.0)


def test_a_swap_trades_places_among_the_candidates() -> None:
    (result,), report = corrupt(some_texts([1]), swap=1.0, seed=0)
    link = result.links[1]
    assert (link.entity, link.confidence) == ("Q2", 0.8)
    assert link.candidates == (
        Candidate("Q2", 0.7, 3.0, "label 'a'"), Candidate("Q1", 0.3, 1.0, "alias 'a'"),
    )  # fmt: skip
    assert report == CorruptionReport(1, 0, 1, {"candidates": 1, "type": 0, "degree": 0, "any": 0})
    assert str(report) == "0 dropped, 1 swapped (1 candidates) of 1 link"


def gold(entity: str) -> list[LinkedText]:
    return [LinkedText(WORDS, (gold_link(0, 4, entity),), "7")]


@pytest.fixture(scope="module")
def typed_graph() -> KnowledgeGraph:
    """Q1 and Q2 are cities; Q3 to Q6 have one triple each; Q1 has two."""
    pairs = [("Q1", "Q3"), ("Q1", "Q4"), ("Q5", "Q6")]
    records: list[Triple | Text] = [Triple(a, "P", b) for a, b in pairs]
    records += [Text(q, TextKind.TYPE, "city") for q in ("Q1", "Q2")]
    return graph_from_records(records)


def test_the_graph_gives_type_then_degree_then_any(typed_graph: KnowledgeGraph) -> None:
    origins: dict[str, set[tuple[str | None, str]]] = {}
    for entity in ("Q1", "Q3", "unknown"):
        for seed in range(30):
            (result,), report = corrupt(gold(entity), swap=1.0, seed=seed, graph=typed_graph)
            (origin,) = (name for name, n in report.swapped_by.items() if n)
            link = result.links[0]
            assert link.candidates == (Candidate(str(link.entity), 1.0, 1.0, "swapped on purpose"),)
            origins.setdefault(entity, set()).add((link.entity, origin))
    assert origins["Q1"] == {("Q2", "type")}
    assert origins["Q3"] == {("Q4", "degree"), ("Q5", "degree"), ("Q6", "degree")}
    assert origins["unknown"] == {(f"Q{i}", "any") for i in range(1, 7)}


def test_a_lonely_degree_falls_back_to_any(small_graph: KnowledgeGraph) -> None:
    lonely = graph_from_records([Triple("Q1", "P", f"Q{i}") for i in range(2, 9)])
    (result,), report = corrupt(gold("Q1"), swap=1.0, seed=0, graph=lonely)
    assert result.links[0].entity in {f"Q{i}" for i in range(2, 9)}
    assert report.swapped_by["any"] == 1


class _Source:
    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        return [[TWO for _ in text.links] for text in texts]


def test_a_source_proposes_for_links_without_wrong_candidates() -> None:
    (result,), report = corrupt(gold("Q1"), swap=1.0, seed=0, source=_Source())
    assert (result.links[0].entity, report.swapped_by["candidates"]) == ("Q2", 1)


def test_texts_alike_are_corrupted_each_for_itself() -> None:
    texts = some_texts([4] * 30)
    alike = [replace(text, id="") for text in texts]
    result, report = corrupt(alike, drop=0.5, seed=0)
    assert report.n_dropped == 60
    assert len({to_json(text) for text in result}) > 5


def test_every_process_corrupts_alike() -> None:
    code = (
        "from entity_linking import LinkedText, gold_link\n"
        "from entity_linking.corruption import corrupt\n"
        "from entity_linking.annotations import to_json\n"
        "texts = [LinkedText('ab cd', (gold_link(0, 1, 'Q1'), gold_link(3, 4, 'Q2')), str(i))\n"
        "         for i in range(9)]\n"
        "made, _ = corrupt(texts, drop=.4, seed=5)\n"
        "print(b''.join(map(to_json, made)).decode())"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    texts = [
        LinkedText("ab cd", (gold_link(0, 1, "Q1"), gold_link(3, 4, "Q2")), str(i))
        for i in range(9)
    ]
    here, _ = corrupt(texts, drop=0.4, seed=5)
    assert outputs == [b"".join(map(to_json, here)).decode() + "\n"] * 2


def test_faults_are_named(typed_graph: KnowledgeGraph) -> None:
    with pytest.raises(LinkingError, match=r"drop is 1.5; give a share"):
        corrupt([], drop=1.5, seed=0)
    with pytest.raises(LinkingError, match="more than all links"):
        corrupt([], drop=0.6, swap=0.6, seed=0)
    with pytest.raises(LinkingError, match=r"start=0, end=4\) of text '7' has no candidate but Q1"):
        corrupt(gold("Q1"), swap=1.0, seed=0)
    alone = graph_from_records([Text("Q1", TextKind.LABEL, "one")])
    with pytest.raises(LinkingError, match="a graph of two entities"):
        corrupt(gold("Q1"), swap=1.0, seed=0, graph=alone)
    assert corrupt(gold("Q1"), seed=0)[0] == gold("Q1")
