"""Treebanks as `PretrainingData` for `dependency_heads`: the linguistic adapter's task.

Axis legend: word, piece (word pieces, special ones included).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from entity_linking.alignment import pieces_of_all
from kept import hosts
from kept.batches import IGNORE, KnowledgeBatch, Visibility
from kept.errors import ConfigError
from kept.graphs.words import encode_words
from kept.tasks.datasets.conllu import Sentence

SENTENCES_PER_CALL = 4096
Placement = Literal["first_pieces", "released"]


class DependencyData:
    """Sentences as word pieces whose `node_labels` are the positions of their words' heads.

    A label is 1 + the place of the head's first piece, for a root 1 + 0. With the placement
    "first_pieces" a word's label stands at its first piece, and no other piece has one; a word that
    has no pieces of its own, or whose head has none, has no label. Sentences of more than
    `max_words` pieces are left out.

    "released" places labels as the released code: one after the other from the second piece on,
    whatever the pieces, then zeros, which count as labels too; a sentence is also left out when its
    last word is a head, or when it has exactly `max_words` pieces. `left_out` are the indices of
    sentences that are left out. Raises `ConfigError` when none is left.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        tokenizer: Any,
        *,
        max_words: int = 128,
        placement: Placement = "first_pieces",
    ) -> None:
        if placement not in ("first_pieces", "released"):
            raise ConfigError(f"placement is {placement!r}; use 'first_pieces' or 'released'")
        self._word_pad_id, self._placement = hosts.padding_id(tokenizer), placement
        self._ids: list[NDArray[np.int32]] = []
        self._labels: list[NDArray[np.int64]] = []
        self.left_out: list[int] = []
        for start in range(0, len(sentences), SENTENCES_PER_CALL):
            part = sentences[start : start + SENTENCES_PER_CALL]
            texts = [sentence.text for sentence in part]
            encoded = encode_words(texts, tokenizer, max_words=max_words + 1)
            for index, (sentence, words) in enumerate(zip(part, encoded, strict=True), start):
                first = first_pieces(sentence, words.spans)
                labels = (
                    released_labels(sentence, first, len(words.ids), max_words)
                    if placement == "released"
                    else head_labels(sentence, first, len(words.ids))
                )
                if labels is None or len(words.ids) > max_words:
                    self.left_out.append(index)
                    continue
                self._ids.append(words.ids)
                self._labels.append(labels)
        if not self._ids:
            raise ConfigError(f"none of {len(sentences)} sentences fits max_words {max_words}")

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        n_pieces = sum(map(len, self._ids))
        return (
            f"DependencyData({len(self)} sentences, {n_pieces} word pieces, "
            f"{len(self.left_out)} left out)"
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over word pieces and labels."""
        digest = hashlib.sha256(f"{self._placement} {self._word_pad_id}".encode())
        for ids, labels in zip(self._ids, self._labels, strict=True):
            digest.update(len(ids).to_bytes(8, "little") + ids.tobytes() + labels.tobytes())
        return digest.hexdigest()

    def n_nodes(self, index: int) -> int:
        """Word pieces of sentence `index`."""
        return len(self._ids[index])

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """Sentence `index`, the same in every epoch."""
        ids = torch.from_numpy(self._ids[index].astype(np.int64))[None]
        n = ids.shape[1]
        return KnowledgeBatch(
            node_ids=ids,
            node_kinds=torch.zeros_like(ids),
            node_mask=torch.ones_like(ids, dtype=torch.bool),
            positions=torch.arange(n)[None],
            segment_ids=torch.zeros_like(ids),
            visibility=Visibility.everyone(1, n),
            node_labels=torch.from_numpy(self._labels[index])[None],
        )

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Stacked samples."""
        return KnowledgeBatch.stack(samples, word_pad_id=self._word_pad_id)


def first_pieces(sentence: Sentence, spans: NDArray[np.int32]) -> NDArray[np.int64]:
    """First piece of every word, -1 where it has none of its own, `[word]`.

    A piece belongs to the first word that touches it (words of one multiword token may share).
    """
    words = np.array([(word.start, word.end) for word in sentence.words], np.int32)
    pieces = pieces_of_all(spans, words)
    first = np.where(pieces[:, 0] < pieces[:, 1], pieces[:, 0], -1)
    _, owner = np.unique(first, return_index=True)
    positions = np.full(len(first), -1, np.int64)
    positions[owner] = first[owner]
    return positions


def head_labels(sentence: Sentence, first: NDArray[np.int64], n_pieces: int) -> NDArray[np.int64]:
    """Labels at the words' first pieces, IGNORE elsewhere, `[piece]`."""
    labels = np.full(n_pieces, IGNORE, np.int64)
    positions = np.concatenate([[0], first])  # of the root, then of every word
    for word, piece in zip(sentence.words, first.tolist(), strict=True):
        if piece >= 0 and positions[word.head] >= 0:
            labels[piece] = 1 + positions[word.head]
    return labels


def released_labels(
    sentence: Sentence, first: NDArray[np.int64], n_pieces: int, max_words: int
) -> NDArray[np.int64] | None:
    """Labels of the words one after the other from the second piece on, 0 elsewhere, `[piece]`.

    None for a sentence that the released code drops: its table of first pieces lacks the last word.
    """
    n_words = len(sentence.words)
    if n_pieces >= max_words or any(word.head == n_words for word in sentence.words):
        return None
    positions = np.concatenate([[0], first])
    labels = np.zeros(max(n_pieces, 1 + n_words), np.int64)
    labels[1 : 1 + n_words] = [1 + positions[word.head] for word in sentence.words]
    return labels[:n_pieces]
