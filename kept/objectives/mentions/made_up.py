"""Made-up names of syllables, so that no pre-training has seen their bearers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

ONSETS = (
    "b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z",
    "br", "dr", "gr", "kr", "tr", "vl", "zh",
)  # fmt: skip
VOWELS = ("a", "e", "i", "o", "u")
CODAS = ("b", "d", "f", "g", "k", "l", "m", "n", "r", "s", "t", "v", "x", "z")


def made_up_names(n: int, draws: np.random.Generator) -> list[str]:
    """Return `n` different names of two syllables, capitalised.

    There are 24 · 5 · 24 · 5 · 14 = 201,600 of them. Raises `ValueError` for more than half.

    >>> made_up_names(2, np.random.default_rng(0))
    ['Krosek', 'Babav']
    """
    n_all = (len(ONSETS) * len(VOWELS)) ** 2 * len(CODAS)
    if n > n_all // 2:
        raise ValueError(f"{n} names were requested; at most {n_all // 2} can be made")
    names: dict[str, None] = {}
    for name in _syllables(draws):
        if len(names) == n:
            break
        names.setdefault(name)
    return list(names)


def _syllables(draws: np.random.Generator) -> Iterator[str]:
    parts = (ONSETS, VOWELS, ONSETS, VOWELS, CODAS)
    while True:
        yield "".join(part[int(draws.integers(len(part)))] for part in parts).capitalize()
