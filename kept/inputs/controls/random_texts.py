"""False texts of a graph's nodes: random words of the same length, or those of other nodes.

Axis legend: text, word (between blanks), node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kept.randomness import generator
from kg_loaders.records import TextKind
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import strings


def random_words(texts: Texts, seed: int, what: str) -> Texts:
    """`texts` with every word replaced by a random other one of as many characters.

    Words are what stands between blanks; they are drawn evenly from the distinct words of all texts
    of the same kind (labels, aliases, descriptions, types). One that has no other of its length is
    written anew in random characters of those texts. The number of words and of characters stays,
    and so nearly the number of word pieces; languages, counts and places stay.
    """
    values: list[str] = texts.values.to_pylist()
    for kind in TextKind:
        rows = np.flatnonzero(texts.kinds == kind).tolist()
        new_values = _replaced(
            [values[row] for row in rows], generator(seed, "random words", what, kind)
        )
        for row, value in zip(rows, new_values, strict=True):
            values[row] = value
    return Texts(
        offsets=texts.offsets,
        kinds=texts.kinds,
        languages=texts.languages,
        counts=texts.counts,
        values=strings(values),
        language_names=texts.language_names,
    )


def _replaced(values: Sequence[str], draws: np.random.Generator) -> list[str]:
    split = [value.split(" ") for value in values]
    words = [word for parts in split for word in parts]
    replaced = list(words)
    characters = sorted({character for word in words for character in word})
    positions: dict[int, list[int]] = {}
    for position, word in enumerate(words):
        if word:
            positions.setdefault(len(word), []).append(position)
    for length, where in sorted(positions.items()):
        pool = sorted({words[position] for position in where})
        if len(pool) == 1:
            for position in where:
                replaced[position] = "".join(draws.choice(characters, length))
            continue
        numbers = {word: i for i, word in enumerate(pool)}
        word_ids = np.array([numbers[words[position]] for position in where])
        rows = draws.integers(len(pool) - 1, size=len(where))
        rows += rows >= word_ids
        for position, i in zip(where, rows.tolist(), strict=True):
            replaced[position] = pool[i]
    remaining = iter(replaced)
    return [" ".join(next(remaining) for _ in parts) for parts in split]


def texts_of_others(texts: Texts, others: NDArray[np.int64]) -> Texts:
    """All texts of every node at node `others[node]` instead; `others` is one to one."""
    order = np.argsort(others[texts.nodes()], kind="stable")
    sizes = np.empty(len(others), np.int64)
    sizes[others] = np.diff(texts.offsets)
    return Texts(
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        kinds=texts.kinds[order],
        languages=texts.languages[order],
        counts=texts.counts[order],
        values=texts.values.take(pa.array(order)),
        language_names=texts.language_names,
    )
