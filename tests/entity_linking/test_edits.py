from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.fuzzy.edits import edit_similarities

WORDS = st.text(alphabet="abé汉 ", max_size=8)


def _distance(a: str, b: str) -> int:
    """The recurrence, cell by cell."""
    table = [[i + j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            ways = [
                table[i - 1][j] + 1,
                table[i][j - 1] + 1,
                table[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
            ]
            if i > 1 and j > 1 and a[i - 2 : i] == b[j - 2 : j][::-1]:
                ways.append(table[i - 2][j - 2] + 1)
            table[i][j] = min(ways)
    return table[-1][-1]


@settings(deadline=None)
@given(WORDS, st.lists(WORDS, max_size=5))
def test_like_the_recurrence(text: str, others: list[str]) -> None:
    expected = [1 - _distance(text, other) / max(len(text), len(other), 1) for other in others]
    assert edit_similarities(text, others).tolist() == pytest.approx(expected)


def test_swaps_count_once_and_nothing_is_edited_twice() -> None:
    assert edit_similarities("ca", ["ac", "abc"]).tolist() == pytest.approx([0.5, 0.0])


def test_no_others() -> None:
    assert edit_similarities("a", []).dtype == np.float64
