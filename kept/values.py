"""A value as an error message shows it: on one line, however long it is."""

from __future__ import annotations

import math

LONGEST = 120


def shown_value(value: object) -> str:
    """Return the value as Python writes it, cut to a line; a long whole number by its digits.

    >>> shown_value("Paris"), shown_value(10**5000)
    ("'Paris'", 'a number of about 5,001 digits')
    """
    if isinstance(value, int) and value.bit_length() > 400:
        return f"a number of about {math.floor(value.bit_length() * math.log10(2)) + 1:,} digits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a long number, or a long nesting, inside it
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
