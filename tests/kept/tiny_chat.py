"""A word-level tokenizer with ChatML's marks, and sentence vectors by words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

MARKS = ["[UNK]", "<|im_start|>", "<|im_end|>"]


def chat_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Every word of `texts`, with the blank before it, is a piece; padding is the end of a turn."""
    splitter = pre_tokenizers.Split(Regex(r"\n| ?[^\s\w]| ?\w+"), "isolated")
    words = {w for text in texts for w, _ in splitter.pre_tokenize_str(text)}
    vocabulary = {word: i for i, word in enumerate([*MARKS, *sorted(words - set(MARKS))])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer, inner.decoder = splitter, decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", eos_token="<|im_end|>",
        pad_token="<|im_end|>", additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip


class WordVectors:
    """The sum of fixed random vectors of a sentence's words, of length 1."""

    name, width = "words", 16

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [sum(self._word(word) for word in text.split()) for text in texts]
        vectors = np.array(rows, np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _word(self, word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
        return np.random.default_rng(seed).normal(size=self.width)
