"""Candidate answers as word pieces of a model's tokenizer.

Axis legend: candidate, piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kept.errors import HostError
from kept.objectives.word_starts import word_starts

Pieces = tuple[int, ...]
UNSPELLED = "the tokenizer has no pieces for it"
REPEATED = "the same pieces as an earlier one"
LONG = "more than one piece"


@dataclass(frozen=True, eq=False)
class Candidates:
    """Answers in order, each with its pieces; no two have the same pieces.

    `left_out`: names that are not candidates, by reason.
    """

    names: tuple[str, ...]
    pieces: tuple[Pieces, ...]
    left_out: dict[str, int]

    @classmethod
    def of(cls, names: Iterable[str], tokenizer: Any, *, single: bool = False) -> Candidates:
        """Those `names` that the tokenizer has pieces for; with `single`, one piece."""
        ordered = list(names)
        names_of: dict[Pieces, str] = {}
        left_out: dict[str, int] = {}
        for name, pieces in zip(ordered, spelled(ordered, tokenizer), strict=True):
            reason = UNSPELLED if not pieces else LONG if single and len(pieces) > 1 else None
            reason = REPEATED if reason is None and pieces in names_of else reason
            if reason is None:
                names_of[pieces] = name
            else:
                left_out[reason] = left_out.get(reason, 0) + 1
        return cls(tuple(names_of.values()), tuple(names_of), left_out)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def places(self) -> dict[Pieces, int]:
        """The place of the candidate with these pieces."""
        return {pieces: index for index, pieces in enumerate(self.pieces)}

    @cached_property
    def by_length(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Number of pieces to the places `[candidate]` and pieces `[candidate piece]` of it."""
        lengths = np.array([len(pieces) for pieces in self.pieces], np.int64)
        return {
            n: (rows, np.array([self.pieces[i] for i in rows], np.int64))
            for n in np.unique(lengths).tolist()
            for rows in (np.flatnonzero(lengths == n),)
        }


def spelled(names: Sequence[str], tokenizer: Any) -> list[Pieces]:
    """Each name's pieces as a word within a sentence, after a blank; () where one is unknown.

    Raises `HostError` for a slow tokenizer.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise HostError(f"{type(tokenizer).__name__} is a slow tokenizer; load the fast one")
    inner, unknown = tokenizer.backend_tokenizer, tokenizer.unk_token_id
    inner.no_truncation()  # both are set anew by each call of the tokenizer around it
    inner.no_padding()
    texts = [f" {name.strip()}" for name in names]
    encoded = [each.ids for each in inner.encode_batch_fast(texts, add_special_tokens=False)]
    return [() if unknown in ids else tuple(ids) for ids in encoded]


def whole_words(tokenizer: Any) -> list[str]:
    """Words that the tokenizer writes as one piece, in the order of its vocabulary.

    A piece counts when it begins a word and has a letter or a digit.
    """
    starts, special = word_starts(tokenizer), frozenset(tokenizer.all_special_ids)
    ids = [i for i in np.flatnonzero(starts).tolist() if i not in special]
    words = [tokenizer.decode([i]).strip() for i in ids]
    pairs = zip(ids, words, spelled(words, tokenizer), strict=True)
    return [
        word
        for i, word, pieces in pairs
        if pieces == (i,) and any(character.isalnum() for character in word)
    ]
