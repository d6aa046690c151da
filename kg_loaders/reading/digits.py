"""Numbers as files write them.

`int()` and `float()` also take what no file means by a number: `0_1`, white space around, digits of
every script, `+1` where numbers are counted. Taken so, two lines that differ say the same.
"""

from __future__ import annotations

import re

MOST_DIGITS = 4000
"""Python converts no more than 4,300 at once: beyond that lies an attack, not a number."""
_WHOLE = re.compile(r"[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]+", re.ASCII)


def whole_number(text: str | bytes) -> int:
    """Return the number of one or more ASCII digits; ValueError for anything else.

    >>> whole_number("012")
    12
    """
    return int(_matching(_WHOLE, text, "whole"))


def hexadecimal_number(text: str) -> int:
    """Return the number of one or more hexadecimal digits; ValueError for anything else."""
    return int(_matching(_HEXADECIMAL, text, "hexadecimal"), 16)


def decimal_number(text: str) -> float:
    """Return the number of ASCII digits with sign, point and exponent, if it has them.

    One that is too large is infinite. ValueError for anything else.

    >>> decimal_number("-.5e1")
    -5.0
    """
    return float(_matching(_DECIMAL, text, "decimal"))


def _matching(form: re.Pattern[str], text: str | bytes, name: str) -> str:
    printable = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    if len(printable) > MOST_DIGITS or not form.fullmatch(printable):
        raise ValueError(f"{printable[:40]!r} is no {name} number")
    return printable
