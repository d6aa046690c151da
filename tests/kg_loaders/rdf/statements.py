"""A few statements, and how tests write and read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kg_loaders import Text, Triple
from kg_loaders.damage import DamageReport
from kg_loaders.rdf.reader import read
from kg_loaders.rdf.records import RDFS

A = "http://a.example/"
X, Y, P = f"{A}x", f"{A}y", f"{A}p"
LABEL = f"{RDFS}label"
FACT = f"<{X}> <{P}> <{Y}> ."
LABELLED = f'<{X}> <{LABEL}> "Ex"@en .'


def load(path: Path, report: DamageReport | None = None, **options: Any) -> list[Triple | Text]:
    report = report or DamageReport()
    records = list(read(path, report, **options))
    report.n_triples = sum(isinstance(record, Triple) for record in records)
    report.n_texts = len(records) - report.n_triples
    report.check()
    return records


def write(tmp_path: Path, *lines: str | bytes, name: str = "facts.nt") -> Path:
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    path = tmp_path / name
    path.write_bytes(b"".join(line + b"\n" for line in raw))
    return path
