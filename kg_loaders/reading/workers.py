"""`Workers`: a plain file of lines read in spans by several workers, taken in the file's order.

A reader is a function of a path, a report and a `Span` of the file. It is run on spans of whole
lines, each with a report of its own, by the workers of a pool and, while these are behind, here;
what was found and counted is joined in the order of the spans, so that all is as one worker would
have it. Lines of a span are counted from 1, as those before may not be known yet; numbers are set
right when it is joined. A span in which an error is met is read again then, when its first line is
known: so the error is that of one worker.

Workers are threads, as readers of whole blocks of lines let go of Python's lock almost always:
threads take no time to start and hand on what they find as it is. Lines that are read one by one
hold the lock; where they are many, processes start and take over from the threads.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Self

from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import KgError, SourceError
from kg_loaders.reading.encodings import is_other_than_utf8
from kg_loaders.reading.lines import WHOLE, Span
from kg_loaders.reading.unpacking import is_packed

SPAN_BYTES = 4 * 1024 * 1024
LEAST_SPANS = 2
"""A file of fewer is read here."""
SPANS_AHEAD = 3
"""Spans in flight for each worker of the pool, so that none waits; of those that were read before
their turn as many may wait for each: few enough to bound the memory."""
ODD_SHARE = 0.1
"""Of lines that are read one by one; from there on processes are faster than threads."""
LOOK_BYTES = 64 * 1024

SpanReader = Callable[[Path, DamageReport, Span], Iterable[Any]]
"""Can be pickled, as can what it yields."""


class Workers:
    """So many workers that read, this thread among them, by turns as each has time.

    The others start when the first file is large enough, and end with the context. `pool` runs
    spans in their place, and ends with the context, too.
    """

    def __init__(self, n_workers: int = 1, *, pool: Executor | None = None) -> None:
        if n_workers < 1:
            raise SourceError(f"{n_workers} workers cannot read; give 1 or more")
        self._n_workers = n_workers
        self._pool, self._is_given = pool, pool is not None
        self._processes: ProcessPoolExecutor | None = None
        self._first_job: Future[Any] = Future()
        """Done when the processes take work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in (self._pool, self._processes):
            if pool is not None:
                pool.shutdown(cancel_futures=True)
        self._pool = self._processes = None

    def read(self, reader: SpanReader, path: Path, report: DamageReport) -> Iterator[Any]:
        """Yield what `reader` yields of all spans of a file, in order, as if there were one span.

        A compressed file is one span and noted in the report. Raises what the reader raises, and
        `SourceError` when a worker ends before its work.
        """
        spans = self._spans(path, report)
        if len(spans) == 1:
            yield from reader(path, report, spans[0])
            return
        try:
            yield from self._read_spans(reader, path, report, spans)
        except BrokenProcessPool as error:
            self._processes = None  # they are of no further use
            raise SourceError(
                f"{path}: a worker that read it ended before its work (killed, or for want of "
                "memory), so nothing was made of the file; repeat with fewer --workers"
            ) from error

    def leave_out(self, path: Path, report: DamageReport) -> None:
        """Note that a file was read by one process, as its reader cannot part it."""
        if self._n_workers > 1 and _is_large(path):
            report.notes.append(f"{path} was read by one process: its reader cannot part it")

    def _spans(self, path: Path, report: DamageReport) -> list[Span]:
        if self._n_workers == 1:
            return [WHOLE]
        if is_packed(path):
            report.notes.append(f"{path} is compressed and was read by one process")
            return [WHOLE]
        if not path.is_file() or not _is_large(path):
            return [WHOLE]
        with path.open("rb") as stream:
            if is_other_than_utf8(stream.read(4)):
                report.notes.append(f"{path} is UTF-16 and was read by one process")
                return [WHOLE]
        return spans_of(path)

    def _read_spans(
        self, reader: SpanReader, path: Path, report: DamageReport, spans: list[Span]
    ) -> Iterator[Any]:
        n_others = self._n_workers - 1
        pool = self._pool = self._pool or ThreadPoolExecutor(n_others)
        how = (reader, path, report.policy, report.max_kept, report.budget)
        rest, waiting = deque(spans), deque[tuple[Span, Future[_SpanItems]]]()
        n_before, n_odd_before = report.n_lines, report.read_singly

        def taken() -> Iterator[Any]:
            span, future = waiting.popleft()
            span = span._replace(first_line=1 + report.n_lines - n_before)
            result = future.result()
            if result.report is None:
                yield from reader(path, report, span)
                return
            result.add_to(report, span)
            yield from result.items

        while rest or waiting:
            n_lines, n_odd = report.n_lines - n_before, report.read_singly - n_odd_before
            if not self._is_given and n_odd >= ODD_SHARE * max(n_lines, 1):
                pool = self._faster(n_others) or pool
            n_done = sum(future.done() for _, future in waiting)
            n_free = SPANS_AHEAD * n_others - (len(waiting) - n_done)
            while rest and n_free > 0 and n_done <= SPANS_AHEAD * n_others:
                span, n_free = rest.popleft(), n_free - 1
                waiting.append((span, pool.submit(_read_span, *how, span)))
            is_next = bool(waiting) and waiting[0][1].done()
            if not is_next and rest and n_done <= SPANS_AHEAD * n_others:
                here: Future[_SpanItems] = Future()
                waiting.append((span := rest.popleft(), here))
                here.set_result(_read_span(*how, span))
            else:
                yield from taken()

    def _faster(self, n: int) -> Executor | None:
        """So many processes, which start when they are first asked for; None until they have."""
        if self._processes is None:
            self._processes = ProcessPoolExecutor(n, get_context("spawn"), initializer=_begin)
            self._first_job = self._processes.submit(os.getpid)
        return self._processes if self._first_job.done() else None


def _is_large(path: Path) -> bool:
    return path.is_file() and path.stat().st_size >= LEAST_SPANS * SPAN_BYTES


def spans_of(path: Path) -> list[Span]:
    """Spans of a plain file, of about `SPAN_BYTES`, each of whole lines."""
    spans: list[Span] = []
    start = 0
    with path.open("rb") as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
        while start < n_bytes:
            end = _line_end(stream, start + SPAN_BYTES)
            spans.append(Span(start, end))
            start = n_bytes if end is None else end
    return spans or [WHOLE]


def _line_end(stream: Any, start: int) -> int | None:
    """Where the line ends that holds the byte before `start`; None if with the file."""
    stream.seek(start - 1)
    while block := stream.read(LOOK_BYTES):
        at = block.find(b"\n")
        if at >= 0:
            end: int = stream.tell() - len(block) + at + 1
            return end
    return None


# ---- of a span -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _SpanItems:
    """What a span holds; without a report it is to be read again, for its error."""

    items: list[Any]
    report: DamageReport | None
    aside: bytes = b""

    def add_to(self, report: DamageReport, span: Span) -> None:
        """Add the counts, with the numbers that the lines of `span` have in the file."""
        assert self.report is not None
        self.report.rejections = [
            replace(rejection, line=rejection.line + span.first_line - 1)
            for rejection in self.report.rejections
        ]
        report.take(self.report)
        report.set_aside(self.aside)
        if report.progress is not None and span.end is not None:
            report.progress(span.end)


def _read_span(
    reader: SpanReader,
    path: Path,
    policy: DamagePolicy,
    max_kept: int,
    budget: ReaderBudget,
    span: Span,
) -> _SpanItems:
    with tempfile.TemporaryDirectory() as name:
        aside = Path(name) / "aside" if policy is DamagePolicy.QUARANTINE else None
        report = DamageReport(policy, aside, max_kept, budget=budget)
        try:
            items = list(reader(path, report, span))
        except KgError:
            return _SpanItems([], None)
        raw = aside.read_bytes() if aside is not None and aside.exists() else b""
    return _SpanItems(items, report, raw)


def _begin() -> None:
    """Ctrl-C is the parent's to answer; when that dies, its workers end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
