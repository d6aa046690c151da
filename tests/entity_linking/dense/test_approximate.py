"""faiss behind the index of entities: kinds by size, what they find, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_linking.dense import approximate
from entity_linking.dense.approximate import (
    FLAT_MOST,
    HNSW_MOST,
    copied,
    feed,
    kind_for,
    nearest,
    new_searcher,
    read_searcher,
    searcher_bytes,
    write_searcher,
)
from entity_linking.errors import LinkIndexError

KINDS: Any = ["flat", "hnsw", "ivf", "pq"]


def vectors(n: int, width: int = 16) -> Any:
    rows = np.random.default_rng(n).normal(size=(n, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-9)


def test_kinds_by_size() -> None:
    assert [kind_for(n) for n in (0, FLAT_MOST, FLAT_MOST + 1, HNSW_MOST, HNSW_MOST + 1)] == [
        "flat", "flat", "hnsw", "hnsw", "ivf",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 60])
def test_a_vector_is_nearest_to_itself(kind: Any, n: int) -> None:
    rows = vectors(n)
    searcher = new_searcher(kind, rows)
    assert searcher.ntotal == n
    actual = nearest(searcher, kind, rows, 1)
    assert actual.shape == (n, min(4, n) if kind == "pq" else 1)
    for row, near in enumerate(actual.tolist()):
        assert row in near or (kind == "pq" and n > 4)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_index_is_filled_later(kind: Any) -> None:
    rows = vectors(5)
    searcher = new_searcher(kind, rows[:0])
    assert searcher.ntotal == 0
    feed(searcher, rows)
    assert searcher.ntotal == 5
    assert set(nearest(searcher, kind, rows[:1], 5)[0].tolist()) == set(range(5))


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_the_nearest_come_first_and_minus_one_where_there_are_no_more(kind: Any) -> None:
    rows = vectors(4)
    actual = nearest(new_searcher(kind, rows), kind, rows[:1], 6)[0].tolist()
    assert actual[:4] == np.argsort(-(rows @ rows[0]), kind="stable").tolist()
    assert actual[4:] == [-1, -1]


def test_codes_fetch_four_times_as_many() -> None:
    rows = vectors(60)
    searcher = new_searcher("pq", rows)
    assert nearest(searcher, "pq", rows[:2], 3).shape == (2, 12)
    assert nearest(searcher, "pq", rows[:2], 30).shape == (2, 60)


@pytest.mark.parametrize(
    ("n", "wanted", "expected"),
    [
        (0, 5, [[0, 0]] * 2), (1, 5, [[0, 0]] * 2), (2, 5, [[0, 1], [2, 3]]),
        (4, 2, [[0, 1], [4, 5]]), (5, 3, [[0, 1], [2, 3], [6, 7]]), (4, 1, [[0, 0]] * 2),
    ],
)  # fmt: skip
def test_rows_to_learn_from_are_spread_evenly(n: int, wanted: int, expected: list[Any]) -> None:
    rows = np.arange(2 * n, dtype=np.float16).reshape(n, 2)
    actual = approximate._training_rows(rows, wanted)
    assert actual.tolist() == expected
    assert actual.dtype == np.float32


def test_rows_are_fed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "ROWS_PER_STEP", 3)
    rows = vectors(7)
    searcher = new_searcher("flat", rows)
    assert nearest(searcher, "flat", rows, 1)[:, 0].tolist() == list(range(7))


@pytest.mark.parametrize("mapped", [False, True])
def test_a_written_index_is_read_again(tmp_path: Path, mapped: bool) -> None:
    rows, path = vectors(9), tmp_path / "index"
    searcher = new_searcher("hnsw", rows)
    write_searcher(searcher, path)
    again = read_searcher(path, (9, 16), mapped=mapped)
    assert nearest(again, "hnsw", rows, 1)[:, 0].tolist() == list(range(9))
    for shape in ((8, 16), (9, 15)):
        with pytest.raises(
            LinkIndexError, match=rf"holds 9 vectors of 16, not {shape[0]} of {shape[1]}; "
        ):
            read_searcher(path, shape, mapped=mapped)
    path.write_bytes(b"nothing")
    with pytest.raises(LinkIndexError, match="cannot be read"):
        read_searcher(path, (9, 16), mapped=mapped)


def test_sizes_and_copies(tmp_path: Path) -> None:
    assert searcher_bytes(None) == 0
    searcher = new_searcher("flat", vectors(9))
    write_searcher(searcher, tmp_path / "index")
    assert searcher_bytes(searcher) == (tmp_path / "index").stat().st_size
    other = copied(searcher)
    feed(other, vectors(3))
    assert (searcher.ntotal, other.ntotal) == (9, 12)
