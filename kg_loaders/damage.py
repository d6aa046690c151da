"""Damage policy and the count of every line of a load.

The identity *lines = triples + texts + duplicates + blank + comment + rejected (+ skipped)* is
asserted by `DamageReport.check`. In formats without lines (Turtle, a dump of JSON items) a "line"
is a unit named by the reader (a statement, an item): `units` says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kg_loaders.budget import ReaderBudget
from kg_loaders.counting import counted
from kg_loaders.errors import DamageError, KgError

Progress = Callable[[int], None]
"""Is called with the number of bytes of a file, as it lies on the disk, that have been read."""
EXCERPT_BYTES = 80
MEND = "mend the line, or "
OPTION = f"{MEND}load with --damage skip or --damage quarantine"
"""The `remedy` of commands with the option --damage."""


class DamagePolicy(StrEnum):
    """What happens at a malformed line."""

    STOP = "stop"
    SKIP = "skip"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One malformed line. `line` counts from 1, `byte_offset` from 0 of the *decompressed* file."""

    file: str
    line: int
    byte_offset: int
    reason: str
    excerpt: str

    def __str__(self) -> str:
        position = f"{self.file}, line {self.line} (byte {self.byte_offset})"
        return f"{position}: {self.reason}: {self.excerpt}"


@dataclass
class DamageReport:
    """Counts of one load, and its first `max_kept` rejections in full.

    Readers count `n_lines`, `n_blank`, `n_comment`, `n_further` and call `reject` and `skip`; the
    build counts `n_triples`, `n_texts` and `n_duplicates`. What one file may cost says `budget`;
    the policy does not apply to it. `progress` is told how far the file at hand has been read.
    `notes` say how files were read where that is not as asked; `read_singly` are the lines that
    were read one by one where others are read many at once. `encoding_remedy` is what to do about
    a line that is not UTF-8, where the reader takes an encoding. `remedy` is what an error says
    under the policy `stop`: commands with an option for it name that.
    """

    policy: DamagePolicy = DamagePolicy.STOP
    quarantine: Path | None = None
    max_kept: int = 1000
    units: str = "lines"
    n_lines: int = 0
    n_triples: int = 0
    n_texts: int = 0
    n_duplicates: int = 0
    n_blank: int = 0
    n_comment: int = 0
    n_rejected: int = 0
    n_skipped: int = 0
    n_further: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    read_singly: int = field(default=0, compare=False)
    budget: ReaderBudget = field(default_factory=ReaderBudget.from_environment)
    progress: Progress | None = None
    encoding_remedy: str = field(default="", compare=False)
    remedy: str = f"{MEND}take it out of the file"

    def __post_init__(self) -> None:
        if (self.policy is DamagePolicy.QUARANTINE) != (self.quarantine is not None):
            raise DamageError("policy 'quarantine' needs a quarantine file, the others take none")

    def reject(
        self,
        file: str,
        line: int,
        byte_offset: int,
        reason: str,
        raw: bytes,
        *,
        more: bool = False,
        remedy: str = "",
    ) -> None:
        """Record a malformed line; raises `DamageError` under the policy `stop`, with `remedy`.

        `raw` is the line without its end. `more` says that `raw` is only its start; the rest, up to
        and with its LF, then goes to `set_aside`.
        """
        start = raw[:EXCERPT_BYTES].decode("utf-8", "backslashreplace")
        size = f"... ({'more than ' if more else ''}{len(raw)} bytes)"
        excerpt = repr(start) + (size if more or len(raw) > EXCERPT_BYTES else "")
        rejection = Rejection(file, line, byte_offset, reason, excerpt)
        if self.policy is DamagePolicy.STOP:
            if not remedy and reason == "not UTF-8":
                remedy = self.encoding_remedy
            general = self.remedy.removeprefix(MEND) if remedy.startswith("mend ") else self.remedy
            advice = f"{remedy}, or {general}" if remedy else self.remedy
            raise DamageError(f"{rejection}; {advice}")
        self.n_rejected += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.rejections) < self.max_kept:
            self.rejections.append(rejection)
        self.set_aside(raw if more else raw + b"\n")

    def set_aside(self, raw: bytes) -> None:
        """Append bytes to the quarantine file, if there is one."""
        if self.quarantine is not None:
            with self.quarantine.open("ab") as sink:
                sink.write(raw)

    def skip(self, reason: str, n: int = 1) -> None:
        """Count well-formed units that a graph has no place for (a date, a deprecated statement).

        They are part of the identity, as are rejected lines, but no policy applies to them.
        """
        self.n_skipped += n
        self.skipped[reason] = self.skipped.get(reason, 0) + n

    def take(self, other: DamageReport) -> None:
        """Add the counts, reasons and first rejections of `other`."""
        for name, value in other.counts().items():
            setattr(self, name, getattr(self, name) + value)
        self.read_singly += other.read_singly
        for ours, theirs in ((self.skipped, other.skipped), (self.reasons, other.reasons)):
            for reason, n in theirs.items():
                ours[reason] = ours.get(reason, 0) + n
        self.rejections += other.rejections[: self.max_kept - len(self.rejections)]

    def counts(self) -> dict[str, int]:
        """Every count by name."""
        return {name: value for name, value in vars(self).items() if name.startswith("n_")}

    def check(self) -> None:
        """Assert the identity; a failure is a fault of kept, not of the data."""
        total = (
            self.n_triples + self.n_texts + self.n_duplicates
            + self.n_blank + self.n_comment + self.n_rejected + self.n_skipped
        )  # fmt: skip
        if self.n_lines + self.n_further != total:
            raise KgError(
                f"internal: {self} does not add up (a fault of a reader, not of the data)"
            )

    def __str__(self) -> str:
        further = f" + {counted(self.n_further, 'further records')}" if self.n_further else ""
        skipped = f" + {self.n_skipped} skipped" if self.n_skipped else ""
        return (
            f"{self.n_lines} {self.units}{further} = {counted(self.n_triples, 'triples')} + "
            f"{counted(self.n_texts, 'texts')} + {counted(self.n_duplicates, 'duplicates')} + "
            f"{self.n_blank} blank + "
            f"{self.n_comment} comment + {self.n_rejected} rejected{skipped}"
        )
