"""A format of graphs: a fact a line, `Paris -capital of-> France`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kg_loaders import Record, Triple
from kg_loaders.build import Format
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines

_FACT = re.compile(r"(.+?) -(.+?)-> (.+)")


def read(path: Path, report: DamageReport) -> Iterator[Record]:
    """Yield the facts of a file; a line that holds none is rejected with its number."""
    for line, offset, raw in read_lines(path, report):
        if not raw.strip():
            report.n_blank += 1
            continue
        match = _FACT.fullmatch(raw.decode().strip())
        if match is None:
            report.reject(str(path), line, offset, "no HEAD -RELATION-> TAIL", raw)
            continue
        report.n_triples += 1
        yield Triple(match[1], match[2], match[3])


FORMAT = Format("example_parts.arrows", (".arrows",))
