"""Triples that a split repeats, and those that training has the other way round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kept.kge.splits import read_splits


def splits_of(folder: Path, **parts: str) -> object:
    """A benchmark of triples such as `arb`: head a, relation r, tail b."""
    for name in ("train", "valid", "test"):
        rows = ["\t".join(triple) for triple in parts[name].split()]
        (folder / f"{name}.txt").write_text("".join(f"{row}\n" for row in rows))
    return read_splits(folder, holdout=0.1, seed=0)


@pytest.mark.parametrize(
    ("test", "n_repeats", "n_reversed"),
    [
        ("arc bsc", 0, 0),
        ("arc arc arc bsc", 2, 0),
        ("brc bra", 0, 1),  # arb is trained
        ("bsa bsa", 1, 2),  # by another relation
        ("ara", 0, 0),  # the only way round
        ("arb", 0, 0),  # the same, which is `shared`
    ],
)
def test_repeats_and_inverses_are_counted(
    test: str, n_repeats: int, n_reversed: int, tmp_path: Path
) -> None:
    splits = splits_of(tmp_path, train="arb ara csd", valid="csa", test=test)
    assert splits.repeats().get("test", 0) == n_repeats  # type: ignore[attr-defined]
    assert splits.reversed_in_train().get("test", 0) == n_reversed  # type: ignore[attr-defined]


def test_the_first_of_each_triple_is_kept_in_its_order(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, train="arb", valid="csa", test="bsc arc bsc drb arc bsc")
    rows = splits.test[[0, 1, 3]]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(splits.distinct("test"), rows)  # type: ignore[attr-defined]
