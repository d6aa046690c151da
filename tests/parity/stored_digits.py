"""The tolerance that stored metrics allow: some originals round what they write."""

from __future__ import annotations

from typing import Any


def half_unit(*stored: Any) -> float:
    """Half a unit in the last decimal place of the stored numbers that has most places.

    Numbers lie in dictionaries and lists of any depth, and whole ones count for nothing. Pass all
    metrics that one program wrote: of one alone, such as 0.5, nobody knows whether it is rounded.
    """
    places = max((n_places(value) for value in stored), default=0)
    return 0.5 * 10.0**-places if places else 0.0


def n_places(value: Any) -> int:
    """The most decimal places among the numbers in `value`."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return max(map(n_places, value), default=0)
    if not isinstance(value, float) or value.is_integer():
        return 0
    digits, _, exponent = repr(value).partition("e")
    return max(len(digits.partition(".")[2]) - int(exponent or 0), 0)
