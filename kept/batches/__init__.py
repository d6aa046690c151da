"""The one input of every encoder. Tensors only; strings stop here."""

from kept.batches.batch import (
    IGNORE,
    MASK_ROW,
    N_KINDS,
    N_SPECIAL_ROWS,
    NONE,
    PAD_ROW,
    PIECE,
    UNKNOWN_ROW,
    KnowledgeBatch,
    Layout,
    Role,
    TripleBatch,
)
from kept.batches.packed import Packed, pack
from kept.batches.visibility import Visibility

__all__ = [
    "IGNORE",
    "MASK_ROW",
    "NONE",
    "N_KINDS",
    "N_SPECIAL_ROWS",
    "PAD_ROW",
    "PIECE",
    "UNKNOWN_ROW",
    "KnowledgeBatch",
    "Layout",
    "Packed",
    "Role",
    "TripleBatch",
    "Visibility",
    "pack",
]
