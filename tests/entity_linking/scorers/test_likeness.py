"""Many names compared at once: as two of them compared in a loop."""

from __future__ import annotations

from collections import Counter
from itertools import product, takewhile

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entity_linking.names.rules.variants import acronyms, name_words, without_possessive
from entity_linking.scorers.likeness import NameScorer, likenesses
from entity_linking.surfaces import normalise
from kg_loaders import KnowledgeGraph
from tests.rerank_worlds import linked

WORDS = ["Alan", "M.", "J", "R", "the", "of", "Corp", "Inc.", "Two", "2", "II", "Müller", "U.S."]
WORDS += ["US", "USA", "U", "S", "AT&T", "O'Neil", "Jean-Luc", "ﬁx", "ß", "İ", "(band)", "(a"]
WORDS += ["b)'s", "'s", "s'", ".", "ＮＹ", "名前"]
names = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    st.text(st.sampled_from("aAbB .-'&()éß2\u00ad"), min_size=1, max_size=12),
)


@pytest.mark.parametrize(
    ("surface", "name", "expected"),
    [
        ("Paris", "Paris", 1.0),
        ("PARIS", "Paris", 0.95),
        ("Paris\u00adian", "Parisian", 1.0),
        ("New York", "York New", 0.9),  # the same words
        ("Pari", "Parises", 0.9 * 8 / 13),  # pairs: 4 of 5 and 8
        ("abcd", "abcdxyzw", 0.9 * 8 / 14),
        ("Rome", "Qux", 0.0),
        ("The Rolling Stones (band)", "Rolling Stones", 0.92),
        ("W.H.O.", "World Health Organization", 0.92),
        ("Henry Two", "Henry 2", 0.92),
    ],
)
def test_name_likeness(surface: str, name: str, expected: float) -> None:
    both = likenesses([surface, name], np.array([0, 1]), np.array([1, 0]))
    assert both.tolist() == pytest.approx([expected, expected])


@given(st.lists(names, min_size=1, max_size=8))
@example(["(rock a)'s", "(rock", "the rock band)'s", "rock"])
@example(["J. R. R. Tolkien", "JRR Tolkien", "Tolkien", "jrr", "J R R"])
def test_many_at_once_are_compared_as_two_in_a_loop(some: list[str]) -> None:
    first, second = np.array(list(product(range(len(some)), repeat=2)), np.int64).T
    actual = likenesses(some, first, second)
    for a, b, likeness in zip(first, second, actual, strict=True):
        assert likeness == pytest.approx(likeness_by_loops(some[a], some[b])), (some[a], some[b])


def test_steps_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = np.array(list(product(range(len(WORDS)), repeat=2)), np.int64).T
    whole = likenesses(WORDS, first, second)
    monkeypatch.setattr("entity_linking.scorers.likeness.PAIRS_PER_STEP", 7)
    assert likenesses(WORDS, first, second).tolist() == whole.tolist()
    assert not len(likenesses(WORDS, first[:0], second[:0]))


def test_best_name_counts(small_graph: KnowledgeGraph) -> None:
    text = linked("City of Light", ("City of Light", [("Q90", 1.0), ("Q830149", 0.1)], None))
    first, second = NameScorer(small_graph).scores([text])[0][0]
    assert first == 1.0
    one, other = np.array([0]), np.array([1])
    assert [second] == pytest.approx(likenesses(["City of Light", "Paris"], one, other).tolist())


def likeness_by_loops(one: str, other: str) -> float:
    a, b = normalise(one, fold=False)[0], normalise(other, fold=False)[0]
    x, y = a.casefold(), b.casefold()
    if a == b or x == y:
        return 1.0 if a == b else 0.95
    report = telling(a)
    is_short = any(
        short.isupper() and len(short) > 2 and short in acronyms(name)
        for short, name in ((a.replace(".", ""), b), (b.replace(".", ""), a))
    )
    if (report and report == telling(b)) or is_short:
        return 0.92
    prefix = len(list(takewhile(lambda two: two[0] == two[1], zip(x, y, strict=False))))
    words = dice(x.split(), y.split())
    pairs = dice(*([*zip(f" {z}", f"{z} ", strict=True)] for z in (x, y)))
    return 0.9 * max(prefix / max(len(x), len(y)), words, pairs)


def telling(name: str) -> list[str]:
    words = name_words(without_possessive(name))
    return [word for word in words if len(word) > 1] or words


def dice(a: list[object], b: list[object]) -> float:
    common = (Counter(a) & Counter(b)).total()
    return 2 * common / (len(a) + len(b)) if a or b else 0.0
