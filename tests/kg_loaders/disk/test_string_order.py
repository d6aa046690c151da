"""Strings sorted by several threads: as Python sorts them; shares that part no equal strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders.disk import string_order
from kg_loaders.disk.string_order import shares_of, sorted_strings

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(deadline=None)
@given(st.lists(TEXT, unique=True, max_size=60), st.integers(1, 4))
def test_sorted_as_python_sorts(values: list[str], n_threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(string_order, "_LEAST", 5)
        actual, ranks = sorted_strings(pa.array(values, pa.large_string()), n_threads)
    assert actual.to_pylist() == sorted(values)
    assert [sorted(values).index(value) for value in values] == ranks.tolist()


@settings(deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 3))
def test_equal_strings_share_a_share(values: list[str], n: int, first: int) -> None:
    for type in (pa.string(), pa.large_string()):
        some = pa.array([*values, *values], type)[first:]
        shares = shares_of(some, n).tolist()
        of_value = dict(zip(some.to_pylist(), shares, strict=True))
        assert [of_value[value] for value in some.to_pylist()] == shares
        assert all(share < n for share in shares)


def test_shares_are_of_about_one_size() -> None:
    names = pa.array([f"http://example.org/entity/Q{i}" for i in range(40_000)])
    for n in (2, 3, 7):
        sizes = np.bincount(shares_of(names, n), minlength=n)
        assert sizes.min() > 0.8 * len(names) / n
