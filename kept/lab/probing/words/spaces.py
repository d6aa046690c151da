"""Where words stand: the word table of a host or a run, or a file of vectors.

Axis legend: word, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kept import hosts
from kept.auto import AutoEncoder
from kept.lab.probing.opening import is_ours
from kept.vectors import Wikipedia2VecFile, mean_pieces


@dataclass(frozen=True, eq=False)
class Space:
    """Vectors of words, of length 1; where `known` is False there is none, and the row is 0."""

    vectors: Float[Tensor, "word width"]
    known: Bool[Tensor, " word"]

    @classmethod
    def of(cls, vectors: Tensor, is_known: Tensor) -> Space:
        """The same vectors, each divided by its length; one of length 0 is none."""
        lengths = vectors.norm(dim=1, keepdim=True)
        is_known = is_known & (lengths[:, 0] > 0)
        return cls(
            torch.where(is_known[:, None], vectors / lengths.clamp_min(1e-12), 0.0), is_known
        )


def open_space(name: str, words: Sequence[str]) -> Space:
    """The space called `name`: a `.txt` file of vectors, a folder of a run, or a host.

    A model's word is the mean of its pieces' rows of the word table. Raises as the opening of a
    host, a run or a file does.
    """
    if name.endswith(".txt"):
        return _of_file(Wikipedia2VecFile(Path(name)), words)
    if is_ours(name):
        encoder = AutoEncoder.from_pretrained(name)
        host, tokenizer = encoder.encoder.host, encoder.tokenizer
    else:
        host, tokenizer = hosts.load_host(name), hosts.load_tokenizer(name)
    table = hosts.word_table(host).weight.detach()
    return Space.of(*mean_pieces(words, table, tokenizer))


def random_space(space: Space, seed: int) -> Space:
    """The control: as many random directions, for the same words."""
    draws = torch.randn(space.vectors.shape, generator=torch.Generator().manual_seed(seed))
    return Space.of(draws, space.known)


def _of_file(file: Wikipedia2VecFile, words: Sequence[str]) -> Space:
    rows = file.words(set(words))
    vectors, is_known = torch.zeros(len(words), file.width), torch.zeros(len(words)).bool()
    for i, word in enumerate(words):
        if word in rows:
            vectors[i], is_known[i] = torch.from_numpy(rows[word]), True
    return Space.of(vectors, is_known)
