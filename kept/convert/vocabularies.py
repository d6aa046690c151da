"""Vocabularies that came with released checkpoints: names and the ids they had there.

Several projects pickled a plain dictionary. Such a file is read as a list of pickle's instructions
(`pickletools`): it is never unpickled, and anything but strings and integers in one dictionary is
refused.
"""

from __future__ import annotations

import json
import pickletools
from pathlib import Path

from kept.errors import CheckpointError
from kg_loaders.reading.digits import whole_number

_STRINGS = frozenset({"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"})
_INTEGERS = frozenset({"BININT", "BININT1", "BININT2", "LONG1"})
_FRAMING = frozenset(
    {
        "PROTO", "FRAME", "EMPTY_DICT", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT", "SETITEM",
        "SETITEMS", "STOP",
    }
)  # fmt: skip


def read_vocabulary(path: Path) -> dict[str, int]:
    """Name to id, from JSON (`.json`), a pickled dictionary (`.bin`, `.pkl`) or lines of text.

    A line is `name<TAB>id`, or a name alone whose id is its line, counted from 0. Raises
    `CheckpointError` for anything else, and for duplicate names or ids.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".json":
            pairs = json.loads(data, object_pairs_hook=list)
        elif path.suffix in (".bin", ".pkl"):
            pairs = _read_pickled(data)
        else:
            pairs = _read_lines(data.decode())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as a vocabulary: {error}") from error
    is_table = isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs)
    if not is_table or not all(type(name) is str and type(id) is int for name, id in pairs):
        raise CheckpointError(f"{path} is not a dictionary of names to integer ids")
    vocabulary = dict(pairs)
    if len(vocabulary) < len(pairs) or len(set(vocabulary.values())) < len(pairs):
        raise CheckpointError(f"{path} names the same name or id twice")
    return vocabulary


def _read_lines(text: str) -> list[tuple[str, int]]:
    pairs = []
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        name, separator, value = line.rstrip("\r").partition("\t")
        pairs.append((name, whole_number(value) if separator else number))
    return pairs


def _read_pickled(data: bytes) -> list[tuple[str, int]]:
    names: list[str] = []
    numbers: list[int] = []
    for opcode, value, offset in pickletools.genops(data):
        if opcode.name in _STRINGS and len(names) == len(numbers):
            names.append(str(value))
        elif opcode.name in _INTEGERS and len(names) == len(numbers) + 1:
            numbers.append(int(value or 0))
        elif opcode.name not in _FRAMING:
            raise ValueError(
                "no plain dictionary of names to ids; it could run code when unpickled and was "
                f"not: {opcode.name} at byte {offset}"
            )
    return list(zip(names, numbers, strict=True))
