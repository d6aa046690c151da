"""`ReaderBudget`: limits on the size, depth and time of reading one file.

A file of a kilobyte can ask for gigabytes (compression, entities, nesting). Each limit is there to
be raised for a file that one trusts: `ReaderBudget(depth=2000)` in Python; on the command line
`kept --limits "document_bytes=4G depth=2000" COMMAND ...`, or `KEPT_LIMITS` in the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from kg_loaders.errors import BudgetError, KgError

VARIABLE = "KEPT_LIMITS"
FREE_BYTES = 64 * 1024 * 1024
"""What any compressed file may unfold to, whatever its ratio."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SETTING = re.compile(r"(\w+)=([0-9]{1,15})([KMG]?)")


@dataclass(frozen=True, slots=True)
class ReaderBudget:
    """The limits of one file.

    Args:
        document_bytes: size, unpacked, of a file that can only be read as a whole: RDF/XML,
            JSON-LD, N3, TriX, a JSON file of one value, an archive of probing files. Formats of
            lines and Turtle are streamed and have no such limit.
        expansion: unpacked bytes for each byte of a compressed file, or of XML with entities,
            beyond the first 64 MiB (`FREE_BYTES`). Text packs to a tenth, repetitive text to a
            fiftieth; gzip cannot go beyond 1,032, Zstandard and bzip2 can.
        depth: levels of nesting: JSON arrays and objects, XML elements, N3 brackets, quoted
            triples.
        entities: `<!ENTITY` declarations in XML that are not plain text: entities made of entities
            grow without bound, those in other files read them. Plain ones have no limit of their
            own.
        rows: values in the outer two levels of a JSON document.
        memory_bytes: address space of the process that parses a document.
        seconds: processor time of that process; of Turtle and TriG, which may be of any length,
            between one batch of statements and the next.

    Memory and processor time are limited where the system can (Unix).
    """

    document_bytes: int = 1 << 30
    expansion: int = 200
    depth: int = 256
    entities: int = 0
    rows: int = 10_000_000
    memory_bytes: int = 4 << 30
    seconds: int = 300

    def __post_init__(self) -> None:
        for name in LIMITS:
            if getattr(self, name) < (name != "entities"):
                raise KgError(f"{name} is {getattr(self, name)}; give a number above 0")

    @classmethod
    def from_environment(cls) -> ReaderBudget:
        """The defaults, save what `KEPT_LIMITS` names; KgError for what it cannot name."""
        return cls.from_settings(os.environ.get(VARIABLE, ""))

    @classmethod
    def from_settings(cls, settings: str) -> ReaderBudget:
        """A budget from `NAME=NUMBER` with blanks between; K, M and G count in 1,024.

        >>> ReaderBudget.from_settings("depth=9 memory_bytes=2G").memory_bytes
        2147483648
        """
        values: dict[str, int] = {}
        for setting in settings.split():
            match = _SETTING.fullmatch(setting)
            if match is None or match[1] not in LIMITS:
                raise KgError(
                    f"{VARIABLE}: {setting!r} is not a limit; write NAME=NUMBER, the number "
                    f"perhaps "
                    f"with K, M or G, with one of {', '.join(LIMITS)}"
                )
            values[match[1]] = int(match[2]) * _UNITS[match[3]]
        return cls(**values)

    def check(self, location: str, seen: Mapping[str, int]) -> None:
        """Raise `BudgetError` for the first value of `seen` (by limit) that is above its limit."""
        for name, value in seen.items():
            if value > getattr(self, name):
                raise self.error(location, name, _WHAT[name].format(value))

    def error(self, location: str, name: str, what: str) -> BudgetError:
        """The error that `what` was seen at `location`, and how to raise the limit `name`."""
        limit = getattr(self, name)
        return BudgetError(
            f"{location}: {what}, and the limit {name} is {limit}; it may be hostile or "
            f"damaged. If "
            f"you trust it, raise it: kept --limits {name}=NUMBER ..., {VARIABLE}={name}=NUMBER in "
            f"the environment, or in Python ReaderBudget({name}=NUMBER)"
        )


def bytes_of(text: str) -> int:
    """Return a number of bytes that is written with K, M or G; raises `KgError` for another text.

    >>> bytes_of("2G")
    2147483648
    """
    match = re.fullmatch("([0-9]{1,15})([KMG]?)", text)
    if match is None:
        raise KgError(f"{text!r} is not a number of bytes; write one such as 512M or 2G")
    return int(match[1]) * _UNITS[match[2]]


LIMITS = tuple(field.name for field in fields(ReaderBudget))
_WHAT = {
    "document_bytes": "{} bytes or more, to be read as a whole",
    "expansion": "it unfolds to more than {} times its size",
    "depth": "nested {} levels deep or more",
    "entities": "{} entities (<!ENTITY) made of others, of markup or in other files",
    "rows": "{} values or more",
}
