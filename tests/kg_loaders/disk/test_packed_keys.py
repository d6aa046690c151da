"""Rows of ids as one number each: the same order, and the rows again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders.disk.keys import order_by_tail, packed, sorted_distinct, unpacked

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), max_size=30)
LARGE = 2**31 - 1
"""With three columns of so many ids, keys do not fit."""


@given(ROWS)
def test_keys_sort_as_rows_do(rows: list[tuple[int, int, int]]) -> None:
    triples = np.array(rows, np.int32).reshape(-1, 3)
    keys = packed(triples.T, (5, 3, 5))
    assert keys is not None
    assert triples[np.argsort(keys, kind="stable")].tolist() == sorted(map(list, rows))
    assert unpacked(keys, (5, 3, 5)).tolist() == triples.tolist()


@given(ROWS)
def test_triples_are_sorted_with_keys_and_without(rows: list[tuple[int, int, int]]) -> None:
    triples = np.array(rows, np.int32).reshape(-1, 3)
    assert packed(triples.T, (LARGE, LARGE, LARGE)) is None
    expected = sorted(map(list, {*rows}))
    by_tail = sorted(range(len(expected)), key=lambda i: expected[i][::-1])
    for n_entities, n_relations in ((5, 3), (LARGE, LARGE)):
        distinct = sorted_distinct(triples, n_entities, n_relations)
        assert distinct.tolist() == expected
        assert order_by_tail(distinct, n_entities, n_relations).tolist() == by_tail
