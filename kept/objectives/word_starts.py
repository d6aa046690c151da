"""Which pieces of a tokenizer's vocabulary begin a word, read off the tokenizer itself.

Axis legend: piece (rows of the tokenizer's vocabulary).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import models
from transformers import PreTrainedTokenizerBase

from kept.errors import ConfigError

_BYTE_LEVEL_MARKS = ("\u0120", "\u010a", "\u0109")
"""How byte-level BPE writes a space, a line feed and a tab in front of a word."""


def word_starts(tokenizer: PreTrainedTokenizerBase) -> NDArray[np.bool_]:
    """Whether each piece begins a word, bool `[piece]`.

    WordPiece: every piece without the continuation prefix ("##") does, so punctuation is a word of
    its own. Byte-level BPE and SentencePiece: a piece that carries the mark of a space does, so
    punctuation belongs to the word before it, as in fairseq's whole-word masking. A vocabulary of
    whole words: every piece. Raises `ConfigError` for any other tokenizer.
    """
    vocabulary = tokenizer.get_vocab()
    pieces = [""] * (max(vocabulary.values()) + 1)
    for piece, index in vocabulary.items():
        pieces[index] = piece
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and isinstance(backend.model, models.WordPiece):
        prefix = backend.model.continuing_subword_prefix
        starts = [not piece.startswith(prefix) for piece in pieces]
    elif backend is not None and isinstance(backend.model, models.WordLevel):
        starts = [True] * len(pieces)
    else:
        marks = _space_marks(None if backend is None else backend.pre_tokenizer)
        if not marks:
            raise ConfigError(
                f"{type(tokenizer).__name__} does not say where words begin (no '##', no byte-level"
                " or SentencePiece mark of a space); mask with strategy='piece'"
            )
        starts = [piece.startswith(marks) for piece in pieces]
    is_start = np.array(starts, np.bool_)
    is_start[sorted(tokenizer.all_special_ids)] = True
    return is_start


def _space_marks(pre_tokenizer: Any) -> tuple[str, ...]:
    """What stands in front of a piece that follows a space; nothing for an unknown kind."""
    if pre_tokenizer is None:
        return ()
    state = json.loads(pre_tokenizer.__getstate__())
    marks: list[str] = []
    for step in state.get("pretokenizers", [state]):
        if step["type"] == "ByteLevel":
            marks.extend(_BYTE_LEVEL_MARKS)
        if step["type"] == "Metaspace":
            marks.append(step["replacement"])
    return tuple(marks)
