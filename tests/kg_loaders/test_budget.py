"""What a file may cost: every hostile file ends as one named error, soon and in little memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kg_loaders import DamageError, DamageReport, KgError, Source, SourceError, Triple
from kg_loaders.assembly import Columns
from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy
from kg_loaders.errors import BudgetError
from kg_loaders.rdf.documents import Document
from kg_loaders.rdf.reader import read
from kg_loaders.reading.lines import read_whole
from tests.fuzz.hostile import (
    CASES,
    entities_xml,
    nested_turtle,
    nested_xml,
    triples_of_triples,
    zip_bomb,
)

MESSAGES = {  # a word of the message of each case at its large size
    "entities of RDF/XML": "limit entities is 0",
    "entities of TriX": "limit entities is 0",
    "external entity": "limit entities is 0",
    "hidden entities": "its encoding is 'ISO-2022-JP'; convert it to UTF-8",
    "NUL in .rdf.gz": "limit expansion is 200",
    "NUL in .nt.zst": "limit expansion is 200",
    "NUL in .ttl.bz2": "not allowed at the beginning",
    "RDF/XML of one text": "term longer than 16 MiB",
    "nested RDF/XML": "limit depth is 256",
    "attributes of RDF/XML": "limit seconds is",
    "nested JSON-LD": "limit depth is 256",
    "nested lists of JSON-LD": "limit depth is 256",
    "JSON-LD of 100 MB": "limit rows is 10000000",
    "quoted triples of N-Triples": "nested more than 256 levels",
    "quoted triples of N-Quads": "nested more than 256 levels",
    "quoted triples of Turtle": "its parser crashed",
    "nested Turtle": "limit memory_bytes is",
    "nested TriG": "limit memory_bytes is",
    "nested N3": "limit depth is 256",
    "formulas of N3": "limit depth is 256",
    "brackets of Wikidata": "maximum recursion depth",
    "brackets of JSON lines": "nested too deep",
    "languages": "40001 languages, and a graph holds at most 32767",
    "encrypted member": "is encrypted",
    "unknown compression": "cannot be unpacked here",
    "member of zeros": "longer than 16777216 bytes",
}
SIZES = {  # where the large size takes long only to be written, one that shows the same
    "NUL in .rdf.gz": 1 << 27,
    "NUL in .ttl.bz2": 1 << 20,
    "nested RDF/XML": 50_000,
    "NUL in .nt.zst": 1 << 27,
    "member of zeros": 1 << 27,
    "RDF/XML of one text": 40_000_000,
    "JSON-LD of 100 MB": 11_000_000,
    "attributes of RDF/XML": 100_000,
    "nested Turtle": 3_000_000,
    "nested TriG": 3_000_000,
}
LIMITS_GIVEN = "seconds=4 memory_bytes=1G"
PROGRAM = r"""
import json, re, sys
from pathlib import Path
from kg_loaders import DamageReport, KgError, Source
from kg_loaders.assembly import Columns
for name in sys.argv[1:]:
    columns, said = Columns(), "no error"
    try:
        format = "tsv" if name.endswith("x.tsv") else None
        columns.add(Source(Path(name), format).read(DamageReport()))
        columns.fields(languages=("en",))
    except KgError as error:
        said = str(error)
    # not getrusage, whose peak begins with that of the process which started this one
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(json.dumps([said, int(peak[1]) >> 10]), flush=True)
"""


def test_every_case_has_its_words() -> None:
    assert list(MESSAGES) == list(CASES)


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    """What is said of each large case, and the megabytes of the one process that read them all."""
    paths = []
    for name, case in CASES.items():
        path = tmp_path_factory.mktemp("case") / case.file
        path.write_bytes(case.bytes_of(SIZES.get(name, case.large)))
        paths.append(str(path / "x.tsv" if path.suffix == ".zip" else path))
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths],
        env={**os.environ, "KEPT_LIMITS": LIMITS_GIVEN},
        capture_output=True,
        text=True,
    )
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == len(CASES), f"{list(CASES)[len(results)]}: {run.returncode} {run.stderr}"
    return dict(zip(CASES, results, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_is_one_named_error(name: str, messages: dict[str, tuple[str, int]]) -> None:
    message, megabytes = messages[name]
    assert MESSAGES[name] in message
    assert CASES[name].file in message or name == "languages"
    assert len(message) < 1200
    assert megabytes < 900, "memory is spent in the parser's process, not here"


@pytest.mark.parametrize("name", CASES)
def test_a_small_one_ends_too(name: str, tmp_path: Path) -> None:
    """Read, or refused by an error of the tree, under the policy that goes on."""
    case = CASES[name]
    path = tmp_path / case.file
    path.write_bytes(case.bytes_of(case.small))
    source = Source(path / "x.tsv", "tsv") if path.suffix == ".zip" else Source(path)
    report = DamageReport(DamagePolicy.SKIP)
    output = ""
    try:
        Columns().add(source.read(report))
    except KgError as error:
        output = str(error)
    assert not output or path.name in output


# ---- limits --------------------------------------------------------------------------------------
def test_an_error_names_limit_value_and_remedy() -> None:
    with pytest.raises(BudgetError, match=r"x\.rdf: nested 9 levels.*depth is 8") as caught:
        ReaderBudget(depth=8).check("x.rdf", {"depth": 9})
    assert "KEPT_LIMITS=depth=NUMBER" in str(caught.value)
    assert "ReaderBudget(depth=NUMBER)" in str(caught.value)


def test_limits_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT_LIMITS", "depth=7 memory_bytes=2G rows=3K")
    assert DamageReport().budget == ReaderBudget(depth=7, memory_bytes=2 << 30, rows=3072)
    for wrong in ("depht=7", "depth", "depth=-1", "depth=1T", "depth=1.5"):
        monkeypatch.setenv("KEPT_LIMITS", wrong)
        with pytest.raises(KgError, match=r"KEPT_LIMITS: .* is not a limit"):
            DamageReport()
    with pytest.raises(KgError, match="seconds is 0"):
        ReaderBudget(seconds=0)


def budget_of(**limits: int) -> DamageReport:
    return DamageReport(budget=ReaderBudget(**limits))


@pytest.mark.parametrize("name", ["rdf", "trix", "jsonld", "n3"])
def test_a_whole_document_has_a_size(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{name}"
    path.write_bytes(b" " * 5000)
    with pytest.raises(BudgetError, match="document_bytes is 4096"):
        list(read(path, budget_of(document_bytes=4096)))


def test_a_limit_that_is_raised_lets_a_file_through(tmp_path: Path) -> None:
    path = tmp_path / "x.rdf"
    path.write_bytes(entities_xml(3))
    with pytest.raises(BudgetError, match=r"2 entities \(<!ENTITY\) made of others"):
        list(read(path, budget_of(entities=1)))
    report = budget_of(entities=2)
    assert list(read(path, report)) == []
    assert report.skipped == {"literal of http://a/p": 1}
    path.write_bytes(nested_xml(300))
    with pytest.raises(BudgetError, match="nested 601 levels"):
        list(read(path, budget_of()))
    report = budget_of(depth=601)
    assert list(read(path, report)) == []
    assert report.n_skipped == 300
    line = tmp_path / "x.nt"
    line.write_bytes(triples_of_triples(300))
    with pytest.raises(DamageError, match="more than 256 levels"):
        list(read(line, budget_of()))
    report = budget_of(depth=300)
    assert list(read(line, report)) == []
    assert report.n_skipped == 1


def test_quotes_in_a_text_are_no_nesting(tmp_path: Path) -> None:
    text = "<<( \\" + '"' + "<< " * 1000
    path = tmp_path / "x.nt"
    path.write_text(f'<a:a> <http://schema.org/name> "{text}" .\n')
    assert len(list(read(path, DamageReport()))) == 1


def test_a_member_that_unfolds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(zip_bomb(1 << 27))
    with pytest.raises(BudgetError, match=r"x\.zip/x\.tsv: .*limit expansion is 200"):
        read_whole(path / "x.tsv")
    trusted = ReaderBudget(expansion=2000)
    assert len(read_whole(path / "x.tsv", trusted)) == 1 << 27
    with pytest.raises(BudgetError, match="document_bytes"):
        read_whole(path / "x.tsv", ReaderBudget(expansion=2000, document_bytes=1 << 26))


def test_no_policy_goes_on_beyond_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "x.ttl"
    path.write_bytes(triples_of_triples(200_000))
    with pytest.raises(SourceError, match=r"x\.ttl: its parser crashed"):
        list(read(path, DamageReport(DamagePolicy.SKIP)))


# ---- the parser's process ------------------------------------------------------------------------
def turtle(n: int) -> bytes:
    return b"".join(b"<a:%d> <a:p> <a:b> .\n" % i for i in range(n))


def test_short_turtle_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    path = tmp_path / "x.ttl"
    path.write_bytes(turtle(10))
    monkeypatch.setattr(subprocess, "Popen", no_process)
    assert len(list(read(path, DamageReport()))) == 10
    path.write_bytes(turtle(10_000))
    with pytest.raises(AssertionError, match="was started"):
        list(read(path, DamageReport()))


def test_long_turtle_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "x.ttl"
    path.write_bytes(turtle(50_000))
    records = list(read(path, budget_of(document_bytes=1)))
    assert records == [Triple(f"a:{i}", "a:p", "a:b") for i in range(50_000)]


def test_a_reader_that_is_left_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_here: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started_here.append(self)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    path = tmp_path / "x.ttl"
    path.write_bytes(turtle(100_000))
    started = time.perf_counter()
    rows = Document(path, ReaderBudget(), "ttl", None).rows()
    assert next(rows) == ("a:0", "a:p", "a:b")
    rows.close()  # waits for the end of the process
    assert time.perf_counter() - started < 30
    assert [process.poll() is not None for process in started_here] == [True]


@pytest.mark.parametrize(
    ("code", "stderr", "expected"),
    [
        (-signal.SIGSEGV, "", r"x\.ttl: its parser crashed \(SIGSEGV\); .* convert it"),
        (-signal.SIGABRT, "memory allocation of 9 bytes failed", "limit memory_bytes"),
        (-signal.SIGKILL, "", "limit memory_bytes"),
        (-signal.SIGXCPU, "", "stopped after 300 s of processor time, and the limit seconds"),
        (1, "Traceback\nMemoryError", "limit memory_bytes"),
        (1, "Traceback\nImportError: no x", r"crashed \(exit code 1: Traceback ImportError: no x"),
    ],
)
def test_the_end_of_a_parser_is_named(code: int, stderr: str, expected: str) -> None:
    error = Document(Path("x.ttl"), ReaderBudget(), "ttl", None)._end_of_parser(code, stderr)
    assert isinstance(error, SourceError)
    assert re.search(expected, str(error))


def test_nested_turtle_within_reason_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.ttl"
    path.write_bytes(nested_turtle(20_000))
    report = DamageReport()
    assert list(read(path, report)) == []
    assert report.n_skipped == 20_001
