"""Packed names are those that a loop over the fields finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kg_loaders.reading.packed import packed_names

FIELDS = st.lists(
    st.tuples(
        st.sampled_from(["", "Q", "/m/0", "http://a.b/c/Q", "http://www.wikidata.org/entity/Q"]),
        st.text("abé東0123456789\x7f", max_size=9),
    ).map("".join),
    min_size=1, max_size=8,
)  # fmt: skip


def places_of(fields: list[str], end: str) -> tuple[bytes, tuple[np.ndarray, np.ndarray]]:
    raw = [field.encode() for field in fields]
    ends = np.cumsum([len(each) + 1 for each in raw]) - 1
    return "\t".join(fields).encode() + end.encode(), (ends - [len(each) for each in raw], ends)


@settings(deadline=None, max_examples=300)
@given(FIELDS, FIELDS, st.sampled_from(["", "\n", "\n and more"]))
@example(["P1", "P1", "P12345678"], ["P2"], "")
@example([""], ["", "a"], "\n")
def test_against_a_loop(fields: list[str], others: list[str], end: str) -> None:
    data, (starts, ends) = places_of([*fields, *others], end)
    n = len(fields)
    packed = packed_names(data, [(starts[:n], ends[:n]), (starts[n:], ends[n:])])
    lengths = [len(each.encode()) for each in (*fields, *others)]
    before = max(max(lengths) - 8, 0)
    shares = {each.encode()[:before] for each in (*fields, *others)}
    assert (packed is not None) == (min(lengths) >= before and len(shares) == 1 and len(data) >= 8)
    if packed is None:
        return
    names, ids = packed
    assert names.validate(full=True) is None
    written = names.to_pylist()
    assert len(set(written)) == len(written)
    assert [[written[i] for i in each] for each in ids] == [fields, others]


@pytest.mark.parametrize("data", [b"a\0bc\tabcdefg", b"short"])
def test_what_cannot_be_packed(data: bytes) -> None:
    assert packed_names(data, [(np.array([0]), np.array([3]))]) is None
