"""Every kind of damage to lines of RDF."""

from __future__ import annotations

import time
from pathlib import Path

import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kg_loaders import DamageError, Text, TextKind, Triple
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.rdf.reader import read
from kg_loaders.rdf.records import TEXT_PREDICATES
from tests.kg_loaders.rdf.statements import FACT, LABEL, LABELLED, A, P, X, Y, load, write

BAD_LINES = {  # the damage and a word of its reason
    "no final dot": (f"<{X}> <{P}> <{Y}>", "dot"),
    "garbage": ("!!! not a triple", ""),
    "NUL in a literal": (f'<{X}> <{LABEL}> "a\0b" .', "NUL"),
    "NUL in an IRI": (f"<{X}\0> <{P}> <{Y}> .", "NUL"),
    "invalid UTF-8": (f'<{X}> <{LABEL}> "'.encode() + b'\xff" .', "UTF-8"),
    "space in an IRI": (f"<{A} x> <{P}> <{Y}> .", "IRI"),
    "relative IRI": (f"<x> <{P}> <{Y}> .", "scheme"),
    "bad escape": (f'<{X}> <{LABEL}> "a\\q" .', "escape"),
    "lone surrogate": (f'<{X}> <{LABEL}> "\\uD800" .', "escape"),
    "bad language tag": (f'<{X}> <{LABEL}> "a"@ .', "language"),
    "literal as subject": (f'"x" <{P}> <{Y}> .', "subject"),
    "literal as predicate": (f'<{X}> "p" <{Y}> .', "predicate"),
    "two statements": (f"{FACT} {FACT}", "single triple"),
    "Turtle": (f'<{X}> <{P}> <{Y}> , "z" .', ""),
    "10 million characters": ("z" * 10_000_000, ""),
    "17 MB literal": (f'<{X}> <{LABEL}> "{"y" * 17_000_000}" .', "longer than 16777216 bytes"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_among_good_ones(case: str, tmp_path: Path) -> None:
    bad, word = BAD_LINES[case]
    path = write(tmp_path, FACT, LABELLED, bad, FACT)
    offset = len(FACT) + len(LABELLED) + 2
    with pytest.raises(DamageError) as stopped:
        load(path)
    message = str(stopped.value)
    assert f"facts.nt, line 3 (byte {offset})" in message
    assert word in message
    assert len(message) < 1000
    for policy, sink in ((DamagePolicy.SKIP, None), (DamagePolicy.QUARANTINE, tmp_path / "bad")):
        report = DamageReport(policy, sink)
        records = load(path, report)
        assert records == [Triple(X, P, Y), Text(X, TextKind.LABEL, "Ex", "en"), Triple(X, P, Y)]
        assert (report.n_lines, report.n_rejected) == (4, 1)
        assert (report.rejections[0].line, report.rejections[0].byte_offset) == (3, offset)
    raw = bad.encode() if isinstance(bad, str) else bad
    assert (tmp_path / "bad").read_bytes() == raw + b"\n"


def test_lines_may_end_at_a_carriage_return(tmp_path: Path) -> None:
    path = tmp_path / "facts.nt"
    path.write_bytes(f"{FACT}\r# c\r\r{LABELLED}\r{FACT}\n{FACT}".encode())
    report = DamageReport()
    assert len(load(path, report)) == 4
    assert (report.n_lines, report.n_further) == (2, 2)


def test_a_raw_newline_in_a_literal_is_two_bad_lines(tmp_path: Path) -> None:
    path = write(tmp_path, FACT, f'<{X}> <{LABEL}> "a', 'b" .', FACT)
    report = DamageReport(DamagePolicy.SKIP)
    assert len(load(path, report)) == 2
    assert [rejection.line for rejection in report.rejections] == [2, 3]


def test_a_cut_last_line(tmp_path: Path) -> None:
    path = write(tmp_path, FACT, LABELLED)
    path.write_bytes(path.read_bytes()[:-12])
    report = DamageReport(DamagePolicy.SKIP)
    assert load(path, report) == [Triple(X, P, Y)]
    assert report.rejections[0].line == 2


def test_harmless_oddities(tmp_path: Path) -> None:
    path = tmp_path / "facts.nt"
    path.write_bytes(f"\ufeff{FACT}\r\n# c\r\n\r\n  \t\n{LABELLED}\r\n{FACT}".encode())
    report = DamageReport()
    assert len(load(path, report)) == 3
    assert (report.n_lines, report.n_blank, report.n_comment) == (6, 2, 1)


def test_an_unclosed_quote_costs_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, f'<{X}> <{LABEL}> "never closed .', *[FACT] * 200_000)
    report = DamageReport(DamagePolicy.SKIP)
    n_records = sum(1 for _ in read(path, report))
    assert (n_records, report.n_rejected, report.n_lines) == (200_000, 1, 200_001)


def test_a_term_that_pyoxigraph_cannot_hold(tmp_path: Path) -> None:
    literal = f'<{X}> <{LABEL}> "{"y" * 17_000_000}" .'
    for name, options in (("a.nt", {"max_line_bytes": 20_000_000}), ("a.ttl", {})):
        path = write(tmp_path, FACT, literal, name=name)
        with pytest.raises(DamageError, match="a term longer than 16 MiB"):
            load(path, **options)
        report = DamageReport(DamagePolicy.SKIP)
        assert load(path, report, **options) == [Triple(X, P, Y)]
        assert report.n_rejected == 1


def test_an_8_mb_literal_is_read_in_linear_time(tmp_path: Path) -> None:
    path = write(tmp_path, f'<{X}> <{LABEL}> "{"y" * 8_000_000}" .')
    start = time.perf_counter()
    (text,) = load(path)
    assert isinstance(text, Text)
    assert len(text.value) == 8_000_000
    assert time.perf_counter() - start < 5


def test_reasons_do_not_hold_the_data(tmp_path: Path) -> None:
    path = write(tmp_path, *(f'<{X}> <{LABEL}> "\\uD8{i:02X}" .' for i in range(200)))
    report = DamageReport(DamagePolicy.SKIP)
    load(path, report)
    assert list(report.reasons.values()) == [200]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    path = tmp_path_factory.mktemp("rdf") / "facts.nt"
    quad = pyoxigraph.Triple(
        pyoxigraph.NamedNode(X), pyoxigraph.NamedNode(LABEL), pyoxigraph.Literal(value)
    )
    path.write_bytes(pyoxigraph.serialize([quad], format=pyoxigraph.RdfFormat.N_TRIPLES) or b"")
    assert load(path) == [Text(X, TextKind.LABEL, value)]


SEEDS = (
    FACT, LABELLED, "# a . b", "", f'<{X}> <{LABEL}> "a\\u00e9\\"b"@en-GB . # c',
    f"_:b <{P}> <{Y}> .",
)  # fmt: skip
EDITS = st.tuples(
    st.sampled_from(SEEDS),
    st.integers(0, 60),
    st.integers(0, 3),
    st.sampled_from(["", " ", ".", "<", ">", '"', "\\", "#", "\r", "@", "_:", "é", f" {FACT} "]),
)


def alone(line: str) -> tuple[str, ...] | None:
    """What a line gives by itself: a record without its kind, () for nothing, None if malformed."""
    try:
        quads = list(pyoxigraph.parse(line.encode(), pyoxigraph.RdfFormat.N_TRIPLES))
    except SyntaxError:
        return None
    if len(quads) != 1:
        return () if not quads and line.strip()[:1] in ("", "#") else None
    subject, predicate, value = quads[0].triple
    if isinstance(subject, pyoxigraph.NamedNode) and isinstance(value, pyoxigraph.NamedNode):
        return subject.value, predicate.value, value.value
    if isinstance(subject, pyoxigraph.NamedNode) and isinstance(value, pyoxigraph.Literal):
        return (subject.value, value.value) if predicate.value in TEXT_PREDICATES else ()
    return ()


@given(st.lists(EDITS, max_size=12))
def test_lines_fare_as_each_fares_alone(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, int, int, str]]
) -> None:
    lines = [seed[:at] + new + seed[at + n_cut :] for seed, at, n_cut, new in edits]
    expected = [alone(line) for line in lines]
    report = DamageReport(DamagePolicy.SKIP)
    records = load(write(tmp_path_factory.mktemp("rdf"), *lines), report, relation_prefixes=())
    actual = [tuple(r) if isinstance(r, Triple) else (r.node, r.value) for r in records]
    assert actual == [row for row in expected if row]
    bad = [number for number, row in enumerate(expected, start=1) if row is None]
    assert [rejection.line for rejection in report.rejections] == bad
