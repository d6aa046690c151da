"""A file read by several threads or processes: as by one, whatever stands where it is parted."""

from __future__ import annotations

import gzip
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders import DamageError, DamageReport, Source, SourceError, Triple, load
from kg_loaders.build import FORMATS, Format
from kg_loaders.damage import DamagePolicy
from kg_loaders.formats import tsv
from kg_loaders.rdf import reader as rdf
from kg_loaders.rdf.records import RDFS
from kg_loaders.reading import workers as reading
from kg_loaders.reading.blocks import TextBlock, TripleBlock
from kg_loaders.reading.lines import Span
from kg_loaders.reading.workers import Workers, spans_of

LABEL = f"{RDFS}label"
LINES = st.sampled_from(
    ["<u:Q1> <u:p> <u:Q2> .", "<u:Q3> <u:p> <u:x> .", "_:b <u:p> <u:Q1> .", "bad", "", "# c",
     f'<u:p> <{LABEL}> "p"@en .', f'<u:Q1> <{LABEL}> "é\\n" .', '<u:Q1> <u:n> "5" .', "<u:é> <u:p>",
     "<u:p> <u:q> <u:Q2> .", "Q1\tP1\tQ2", "a\tr\tb", "Q1\tP1", "a\tb\r", "x" * 90]
)  # fmt: skip
READERS: Any = {"nt": rdf.read_in_blocks, "nq": rdf.read_in_blocks, "tsv": tsv.read_in_blocks}


@pytest.fixture(autouse=True)
def _small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SPAN_BYTES", 100)
    monkeypatch.setattr(reading, "LEAST_SPANS", 1)


def records_of(items: Iterable[Any]) -> list[str]:
    records: list[Any] = []
    for item in items:
        records += item.records() if isinstance(item, TripleBlock | TextBlock) else [item]
    return sorted(map(repr, records))


def outcome(path: Path, workers: Workers, policy: str, **options: Any) -> list[object]:
    """All that is said of a file: records, counts, rejections in order, and what is put aside."""
    aside = path.with_name("aside")
    aside.write_bytes(b"")
    quarantine = aside if policy == "quarantine" else None
    report = DamageReport(DamagePolicy(policy), quarantine, 5)
    try:
        read = READERS[path.suffix[1:]]
        records = records_of(read(path, report, max_line_bytes=80, workers=workers, **options))
    except DamageError as stopped:
        return [str(stopped)]
    return [records, report.counts(), [*report.reasons.items()], report.skipped,
            report.rejections, aside.read_bytes()]  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(
    st.lists(LINES, min_size=1, max_size=40), st.sampled_from([*READERS]),
    st.sampled_from(["stop", "skip", "quarantine"]), st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\n"]), st.integers(1, 200),
)  # fmt: skip
def test_spans_say_what_the_file_says(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    format: str,
    policy: str,
    end: str,
    start: bytes,
    size: int,
) -> None:
    path = tmp_path_factory.mktemp("spans") / f"x.{format}"
    path.write_bytes(start + end.join(lines).encode())
    reading.SPAN_BYTES = size  # restored by the fixture
    with Workers(2, pool=ThreadPoolExecutor(2)) as workers:
        assert outcome(path, workers, policy) == outcome(path, Workers(), policy)


def test_progress_is_the_end_of_each_span_in_order(tmp_path: Path) -> None:
    """Though spans may be read before their turn."""
    path = written(tmp_path / "a.nt", facts())
    places: list[int] = []
    report = DamageReport(DamagePolicy.SKIP, progress=places.append)
    with Workers(2, pool=ThreadPoolExecutor(2)) as workers:
        assert records_of(rdf.read_in_blocks(path, report, workers=workers))
    assert places == [span.end for span in spans_of(path)[:-1]]
    assert len(places) > 10


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"", b"a", b"\r", b"b" * 9]), max_size=20), st.integers(1, 12))
def test_spans_are_whole_lines_and_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], size: int
) -> None:
    path = tmp_path_factory.mktemp("spans") / "x"
    data = b"\n".join(lines)
    path.write_bytes(data)
    reading.SPAN_BYTES = size  # restored by the fixture
    parts = [data[span.start : span.end] for span in spans_of(path)]
    assert b"".join(parts) == data
    assert all(part.endswith(b"\n") for part in parts[:-1])


# ---- processes -----------------------------------------------------------------------------------
def written(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def facts(n: int = 300) -> list[str]:
    lines = [f"<u:Q{i % 17}> <u:p{i % 3}> <u:Q{i % 29}> ." for i in range(n)]
    lines[50:54] = [
        f'<u:p1> <{LABEL}> "one"@en .',
        "_:b <u:p> <u:y> .",
        "# c",
        "<u:é> <u:p> <u:A> .",
    ]
    lines[100] = f'<u:Q3> <{LABEL}> "drei"@de .'
    return lines


def folder_of(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def start_pool(*arguments: Any, **options: Any) -> ProcessPoolExecutor:
    """A pool that takes work at once, so that these small files are not read before it begins."""
    pool = ProcessPoolExecutor(*arguments, **options)
    pool.submit(os.getpid).result()
    return pool


def by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no thread read."""
    monkeypatch.setattr(reading, "ProcessPoolExecutor", start_pool)
    monkeypatch.setattr(reading, "ODD_SHARE", -1.0)


@pytest.mark.parametrize("are_processes", [False, True])
def test_the_folder_is_the_same_byte_by_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, are_processes: bool
) -> None:
    if are_processes:
        by_processes(monkeypatch)
    bad = facts()
    bad[200], bad[77] = "not this", "nor <this>"
    files: list[Source | Path] = [
        written(tmp_path / "a.nt", bad),
        written(tmp_path / "b.tsv", [f"u:Q{i}\tu:p1\tu:Q{i + 1}" for i in range(90)] + ["a\tb"]),
        Source(written(tmp_path / "l.tsv", [f"u:Q{i}\tlabel {i}" for i in range(60)]), "texts"),
    ]
    output = []
    for n in (1, 2):
        aside = tmp_path / f"aside{n}"
        _, report = load(
            files, out=tmp_path / str(n), policy="quarantine", quarantine=aside, n_workers=n
        )
        output.append((str(report), report.rejections, report.notes, aside.read_bytes()))
    assert folder_of(tmp_path / "1") == folder_of(tmp_path / "2")
    assert output[0] == output[1]
    assert [each.line for each in output[1][1]] == [78, 201, 91]


def dying(path: Path, report: DamageReport, span: Span) -> Iterator[Triple]:
    """A reader that is killed, in another process, at the third span."""
    if parent_process() is None:
        time.sleep(0.02)
    elif span.start > 200:
        os.kill(os.getpid(), signal.SIGKILL)
    yield Triple("a", "r", "b")


def read_dying(path: Path, report: DamageReport, workers: Workers) -> Iterator[Triple]:
    yield from workers.read(dying, path, report)


def test_a_worker_that_is_killed_is_said_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "x.nt", facts())
    by_processes(monkeypatch)
    monkeypatch.setitem(
        FORMATS.built_in, "dies", Format(__name__, in_blocks="read_dying", by_workers=True)
    )
    with pytest.raises(SourceError, match=r"x\.nt: a worker that read it ended before its work"):
        load([Source(path, "dies")], out=tmp_path / "kg", n_workers=2)
    assert not (tmp_path / "kg").exists()


class Recording(ThreadPoolExecutor):
    """A pool that is told apart: `read` are the spans that it was given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.read: list[Span] = []

    def submit(self, fn: Any, /, *arguments: Any, **options: Any) -> Any:
        self.read.append(arguments[-1])
        return super().submit(fn, *arguments, **options)


def test_spans_are_read_here_and_by_the_pool_each_once(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tsv", [f"u:Q{i}\tu:p1\tu:Q{i + 1}" for i in range(200)])
    seen: list[tuple[Span, int]] = []

    def read(file: Path, report: DamageReport, span: Span) -> Iterator[int]:
        seen.append((span, threading.get_ident()))
        yield span.start

    pool = Recording()
    with Workers(2, pool=pool) as workers:
        starts = list(workers.read(read, path, DamageReport()))
    spans = spans_of(path)
    assert starts == [span.start for span in spans]
    assert sorted(span.start for span, _ in seen) == starts
    here = {span for span, thread in seen if thread == threading.get_ident()}
    assert here
    assert here == {*spans} - {*pool.read}


class Counted(ThreadPoolExecutor):
    """Stands for a pool of processes: `read` are the spans that it was given."""

    read: ClassVar[list[Span]] = []

    def __init__(self, n: int, *_: Any, **__: Any) -> None:
        super().__init__(n)

    def submit(self, fn: Any, /, *arguments: Any, **options: Any) -> Any:
        self.read += [each for each in arguments if isinstance(each, Span)]
        return super().submit(fn, *arguments, **options)


@pytest.mark.parametrize(("line", "are_asked"), [("u:Q{}\tu:p1\tu:Q1", False), ("#{}", True)])
def test_processes_start_where_many_lines_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, are_asked: bool
) -> None:
    monkeypatch.setattr(reading, "ProcessPoolExecutor", Counted)
    monkeypatch.setattr(Counted, "read", [])
    path = written(tmp_path / "x.tsv", ["u:Q0\tu:p1\tu:Q1", *map(line.format, range(900))])
    with Workers(2) as workers:
        assert outcome(path, workers, "stop") == outcome(path, Workers(), "stop")
        assert (workers._processes is not None) == are_asked
    assert not Counted.read or are_asked


def test_threads_read_while_processes_have_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "ODD_SHARE", -1.0)
    path = written(tmp_path / "x.tsv", [f"u:Q{i}\tu:p1\tu:Q{i + 1}" for i in range(200)])
    with Workers(2) as workers:
        workers._processes = processes = Counted(1)  # type: ignore[assignment]
        monkeypatch.setattr(Counted, "read", [])
        assert outcome(path, workers, "stop") == outcome(path, Workers(), "stop")
    assert not processes.read


def test_an_error_names_the_line_of_the_file(tmp_path: Path) -> None:
    bad = facts()
    bad[250] = "not a statement"
    path = written(tmp_path / "x.nt", bad)
    with Workers(2, pool=ThreadPoolExecutor(2)) as workers:
        (output,) = outcome(path, workers, "stop")
    assert "x.nt, line 251 (byte" in str(output)
    assert [output] == outcome(path, Workers(), "stop")


def test_what_cannot_be_parted_is_read_by_one_and_noted(tmp_path: Path) -> None:
    text = "\n".join(facts()).encode()
    packed = tmp_path / "x.nt.gz"
    packed.write_bytes(gzip.compress(text))
    turtle = tmp_path / "y.ttl"
    turtle.write_bytes(text)
    _, report = load([packed, turtle], n_workers=2)
    assert report.notes == [
        f"{packed} is compressed and was read by one process",
        f"{turtle} was read by one process: its reader cannot part it",
    ]
    assert load([packed, turtle])[1].notes == []


def test_no_workers_is_an_error() -> None:
    with pytest.raises(SourceError, match="0 workers"):
        Workers(0)
