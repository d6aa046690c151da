"""How many statements kept reads of each file of RDF, beside pyoxigraph and rdflib.

For every file of RDF in some folders (as unpacked packages hold them; equal files once) counted are
the statements that kept's reader gives before anything is chosen, those that pyoxigraph gives, and
those of rdflib, which has sets of statements. A file is equal, or its difference has a name; one
without a name makes the exit code 1. Then the file is loaded, and each statement must be accounted
for: as a triple, a text, a duplicate, or by the reason for which it was skipped or rejected.

    python benchmarks/graphs/real_rdf.py FOLDER... [--rows]

The files that were compared are those of Debian's packages lv2-dev and swh-lv2 and of the source
distributions of owlready2, brickschema, rdflib, pylode, pyshacl and prov on PyPI.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyoxigraph as ox

sys.path.insert(0, str(Path(__file__).parents[2]))

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import KgError
from kg_loaders.rdf.bases import DEFAULT_BASE
from kg_loaders.rdf.reader import LINE_FORMATS, SUFFIXES, format_of, read_in_blocks, read_statements
from kg_loaders.reading.blocks import TextBlock, TripleBlock
from kg_loaders.reading.languages import language_tag

OXIGRAPH = {
    "nt": ox.RdfFormat.N_TRIPLES, "ntriples": ox.RdfFormat.N_TRIPLES, "nq": ox.RdfFormat.N_QUADS,
    "nquads": ox.RdfFormat.N_QUADS, "ttl": ox.RdfFormat.TURTLE, "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG, "rdf": ox.RdfFormat.RDF_XML, "owl": ox.RdfFormat.RDF_XML,
    "xml": ox.RdfFormat.RDF_XML, "jsonld": ox.RdfFormat.JSON_LD, "n3": ox.RdfFormat.N3,
}  # fmt: skip
RDFLIB = {
    "nt": "nt", "ntriples": "nt", "nq": "nquads", "nquads": "nquads", "ttl": "turtle",
    "turtle": "turtle", "trig": "trig", "rdf": "xml", "owl": "xml", "xml": "xml",
    "jsonld": "json-ld", "n3": "n3", "trix": "trix",
}  # fmt: skip


class Count(NamedTuple):
    """Statements in all, the distinct ones, why there are no more; -1 where there is no reader."""

    n: int
    n_distinct: int
    fault: str = ""


class Compared(NamedTuple):
    """One file; `reason` is "" where all three are equal."""

    path: str
    kept: Count
    oxigraph: Count
    rdflib: Count
    reason: str


def main() -> None:
    """Print a row for each difference, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rows", action="store_true", help="a row of every file that differs")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    files = list(_distinct(path for folder in options.folders for path in _files(folder)))
    totals: Counter[str] = Counter()
    n_unnamed = 0
    with ProcessPoolExecutor(options.workers) as pool:
        for row in pool.map(compared, files, chunksize=4):
            totals[row.reason.partition(":")[0] or "equal"] += 1
            n_unnamed += row.reason.startswith("UNNAMED")
            if row.reason and (options.rows or row.reason.startswith("UNNAMED")):
                counts = " ".join(f"{each.n}/{each.n_distinct}" for each in row[1:4])
                print(f"{row.path}\t{counts}\t{row.reason}", flush=True)
    print(f"\n{len(files)} files")
    for reason, n in totals.most_common():
        print(f"{n:6} {reason}")
    sys.exit(bool(n_unnamed))


def _files(folder: Path) -> Iterator[Path]:
    """The files with a suffix of RDF; of .xml those of RDF."""
    for path in sorted(folder.rglob("*")):
        name = format_of(path)
        is_rdf = path.is_file() and name in SUFFIXES
        if is_rdf and (name != "xml" or b"22-rdf-syntax-ns#" in path.read_bytes()):
            yield path


def _distinct(paths: Iterator[Path]) -> Iterator[Path]:
    known: set[tuple[str, bytes]] = set()
    for path in paths:
        key = format_of(path), hashlib.sha256(path.read_bytes()).digest()
        if key not in known:
            known.add(key)
            yield path


def compared(path: Path) -> Compared:
    """Return the three counts of a file, and the name of their difference."""
    name = format_of(path)
    kept, n_dropped = _by_kept(path)
    oxigraph, rdflib = _by_oxigraph(path, name), _by_rdflib(path, name)
    reason = _reason(name, kept, oxigraph, rdflib, n_dropped)
    n_tags = _n_malformed_tags(path) if name == "jsonld" else 0
    if n_tags and reason.startswith("UNNAMED") and kept.n - oxigraph.n == n_tags:
        reason = f"kept reads literals whose language is malformed, which JSON-LD drops: {n_tags}"
    return Compared(str(path), kept, oxigraph, rdflib, reason)


def _n_malformed_tags(path: Path) -> int:
    """The values of JSON-LD with a language tag that is none."""
    tags = re.findall(r'"@language"\s*:\s*"([^"]*)"', path.read_text("utf-8", "replace"))
    return sum(language_tag(tag) is None for tag in tags)


# ---- three readers -------------------------------------------------------------------------------
def _by_kept(path: Path) -> tuple[Count, int]:
    """The statements read, once they are accounted for; and those that JSON-LD leaves out."""
    report = DamageReport(DamagePolicy.SKIP)
    n_records, fault = 0, ""
    try:
        for item in read_in_blocks(path, report):
            n_records += len(item.records()) if isinstance(item, TripleBlock | TextBlock) else 1
        report.n_triples = n_records
        report.check()
    except KgError as error:
        fault = f"{type(error).__name__}: {error}".replace(f"{path}: ", "")
    if report.rejections:
        fault = report.rejections[0].reason
    n_dropped = sum(n for what, n in report.skipped.items() if what.startswith("relative or"))
    n = report.n_lines - report.n_blank - report.n_comment - report.n_rejected - n_dropped
    if format_of(path) in LINE_FORMATS:  # a line may hold several, where lines end at CR
        n = sum(1 for _ in read_statements(path, DamageReport(DamagePolicy.SKIP)))
    return Count(n, n, fault), n_dropped


def _by_oxigraph(path: Path, name: str) -> Count:
    if name not in OXIGRAPH:
        return Count(-1, -1)
    quads, n = set(), 0
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        for quad in ox.parse(data, OXIGRAPH[name], base_iri=DEFAULT_BASE):
            quads.add(quad)
            n += 1
    except (SyntaxError, MemoryError, ValueError) as error:
        return Count(n, len(quads), str(error) or type(error).__name__)
    return Count(n, len(quads))


def _by_rdflib(path: Path, name: str) -> Count:
    import logging

    import rdflib

    logging.disable()
    warnings.simplefilter("ignore")
    rdflib.NORMALIZE_LITERALS = False
    graph: Any = rdflib.Graph() if name == "n3" else rdflib.Dataset()
    try:
        data = path.read_bytes()
        graph.parse(data=data, format=RDFLIB[name], publicID=DEFAULT_BASE)
    except Exception as error:  # noqa: BLE001 - its parsers raise anything
        return Count(0, 0, f"{type(error).__name__} {' '.join(str(error).split())}"[:120])
    statements = list(graph if name == "n3" else graph.quads())
    return Count(len(statements), len({_as_rdf_1_1(statement) for statement in statements}))


def _as_rdf_1_1(statement: tuple[Any, ...]) -> tuple[Any, ...]:
    """The statement with "x"^^xsd:string as "x", which it is; rdflib has them as two literals."""
    import rdflib

    value = statement[2]
    if isinstance(value, rdflib.Literal) and value.datatype == rdflib.XSD.string:
        value = rdflib.Literal(str(value))
    return (*statement[:2], value, *map(str, statement[3:]))


# ---- what differs --------------------------------------------------------------------------------
def _reason(name: str, kept: Count, oxigraph: Count, rdflib: Count, n_dropped: int) -> str:
    """The name of a difference, "" if there is none."""
    reader = rdflib if name in ("n3", "trix") else oxigraph
    other = oxigraph if name in ("n3", "trix") else rdflib
    if "does not add up" in kept.fault:
        return f"UNNAMED {kept.fault}"
    if kept.fault and reader.fault and (other.fault or other.n < 0):
        return f"no reader takes it: {kept.fault}"
    if kept.fault and reader.fault:
        return f"only {'pyoxigraph' if reader is rdflib else 'rdflib'} takes it: {kept.fault}"
    if kept.fault:
        return f"kept alone refuses it or a part: {kept.fault}"
    if reader.fault:
        return f"kept goes on where its parser ends: {reader.fault}"
    if kept.n - reader.n:
        return f"UNNAMED kept is not as its parser: {kept.n} and {reader.n}"
    if other.n < 0 or kept.n == reader.n_distinct == other.n_distinct:
        return ""
    if other.fault:
        return f"{'rdflib' if reader is oxigraph else 'pyoxigraph'} refuses it: {other.fault}"
    if reader.n_distinct == other.n_distinct:
        return f"stated more than once, and sets have it once: {kept.n} and {other.n}"
    numbers = f"{reader.n_distinct} and {other.n_distinct}"
    if name == "n3":
        return f"pyoxigraph counts what stands in formulas, and lists otherwise: {numbers}"
    if n_dropped:
        return (
            f"rdflib keeps relative IRIs, which JSON-LD leaves out: {numbers}, {n_dropped} of them"
        )
    return f"rdflib counts otherwise (blank nodes, values, names of graphs): {numbers}"


if __name__ == "__main__":
    main()
