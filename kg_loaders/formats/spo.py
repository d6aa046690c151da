"""K-BERT's `.spo` files: subject, predicate, object by TAB, names instead of identifiers.

The format of Liu et al. 2020, "K-BERT: Enabling Language Representation with Knowledge Graph". As
there, facts are looked up by the name of their subject: each head gets its name as a label. Lines
are taken byte for byte; the original strips white space at their ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kg_loaders.counting import counted
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import MAX_LINE_BYTES, read_lines
from kg_loaders.records import Record, Text, TextKind, Triple


def read(
    path: str | Path,
    report: DamageReport,
    *,
    labels: bool = True,
    language: str = "zh",
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """One triple per line; no comments, since a name may start with any character.

    Labels are counted in `report.n_further`; `labels=False` leaves them out.
    """
    heads: dict[str, None] = {}
    for line_no, offset, line in read_lines(path, report, max_line_bytes=max_line_bytes):
        fields = line.decode().split("\t")
        if len(fields) == 3 and all(fields):
            triple = Triple(*fields)
            yield triple
            if labels and triple.head not in heads:
                heads[triple.head] = None
                report.n_further += 1
                yield Text(triple.head, TextKind.LABEL, triple.head, language)
        elif not line.strip() and b"\t" not in line:
            report.n_blank += 1
        else:
            n_fields = len(fields)
            reason = (
                "empty field" if n_fields == 3 else f"{counted(n_fields, 'fields')} instead of 3"
            )
            report.reject(str(path), line_no, offset, reason, line)
