"""A JSON object that names a key twice: decoders take the last value and say nothing."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any


class _RepeatedKeyError(Exception):
    """The key is the message."""


def repeated_key(raw: bytes) -> str | None:
    """Return the first key that an object anywhere in the JSON value `raw` holds twice, or None.

    ValueError for bytes that are no JSON, or hold a number that Python does not convert.

    >>> repeated_key(b'{"a": [{"b": 1, "b": 2}]}')
    'b'
    """
    try:
        _DECODER.decode(raw.decode())
    except _RepeatedKeyError as error:
        return str(error)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return None


def repeats_fault(raw: bytes) -> str:
    """Return the reason to reject a repeated key in well-formed JSON, or ""."""
    try:
        key = repeated_key(raw)
    except ValueError as error:
        return json_reason(error)
    return "" if key is None else f"the key {key!r} occurs twice in one object"


def json_reason(error: ValueError | RecursionError) -> str:
    """Return why JSON cannot be read; for a long number Python's own words name a setting."""
    if isinstance(error, json.JSONDecodeError) or "integer string" not in str(error):
        return str(error)
    return f"a number of more than {sys.get_int_max_str_digits()} digits"


def _check(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _RepeatedKeyError(next(name for name, count in counts.items() if count > 1))


_DECODER = json.JSONDecoder(object_pairs_hook=_check)
