"""Retrieval of facts as passages, without links: BM25 and sentence vectors over every sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from entity_linking.parts import SentenceEncoder
from kg_loaders.disk.writing import whole_file

K1, B = 1.2, 0.75
WORD = re.compile(r"\w+")
BLOCK = 4096


class BM25:
    """Okapi BM25 (Robertson and Zaragoza 2009) with Lucene's idf, over words in lower case.

    >>> BM25(["a cat", "a dog", "a cat and a cat"]).best("the cat", 2).tolist()
    [0, 2]
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.vocabulary: dict[str, int] = {}
        rows, columns, counts = list[int](), list[int](), list[int]()
        for row, text in enumerate(texts):
            words: dict[int, int] = {}
            for word in WORD.findall(text.casefold()):
                number = self.vocabulary.setdefault(word, len(self.vocabulary))
                words[number] = words.get(number, 0) + 1
            rows += [row] * len(words)
            columns += words.keys()
            counts += words.values()
        tf = np.array(counts, np.float32)
        lengths = np.bincount(rows, tf, minlength=len(texts)).astype(np.float32)
        norms = K1 * (1 - B + B * lengths / lengths.mean())
        frequencies = np.bincount(columns, minlength=len(self.vocabulary))
        idf = np.log1p((len(texts) - frequencies + 0.5) / (frequencies + 0.5))
        weights = idf[columns] * tf * (K1 + 1) / (tf + norms[rows])
        shape = len(texts), len(self.vocabulary)
        self.weights = csc_matrix((weights, (rows, columns)), shape, dtype=np.float32)

    def best(self, question: str, n: int) -> NDArray[np.int64]:
        """Return the numbers of the `n` best texts, best first; equal ones in their order."""
        words = [self.vocabulary.get(word) for word in WORD.findall(question.casefold())]
        known = [word for word in words if word is not None]
        scores = np.asarray(self.weights[:, known].sum(axis=1)).ravel()
        return np.argsort(-scores, kind="stable")[:n]


class ByVectors:
    """Cosine of sentence vectors; those of the texts are stored in `path`, made once."""

    def __init__(self, texts: Sequence[str], encoder: SentenceEncoder, path: Path) -> None:
        self.encoder = encoder
        if not path.exists():
            blocks = [
                encoder.encode(texts[start : start + BLOCK]).astype(np.float16)
                for start in range(0, len(texts), BLOCK)
            ]
            with whole_file(path, force=True) as part, part.open("wb") as file:
                np.save(file, np.concatenate(blocks))
        self.vectors: NDArray[np.float32] = np.load(path).astype(np.float32)

    def best(self, question: str, n: int) -> NDArray[np.int64]:
        """Return the numbers of the `n` best texts, best first; equal ones in their order."""
        scores = self.vectors @ self.encoder.encode([question])[0]
        return np.argsort(-scores, kind="stable")[:n]
