"""RDF documents, parsed in a process of their own that may crash, swell or run on alone.

First the budget: a document that can only be read as a whole is unpacked to a temporary file and
looked through for its size, encoding, entities and nesting. Then the parser, limited in memory and
processor time (`kg_loaders.rdf.document_parser`); whatever becomes of it, here it is rows, or one
error that names the file.
"""

from __future__ import annotations

import contextlib
import mmap
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO

import msgspec
from msgspec.json import encode

from kg_loaders.budget import ReaderBudget
from kg_loaders.errors import InternalError, SourceError
from kg_loaders.rdf import document_parser
from kg_loaders.rdf.bases import BaseWatch, dotted_base_of_xml, require_no_dot_segments
from kg_loaders.rdf.document_parser import Fault, Frame, Row, Task
from kg_loaders.rdf.nesting import check_json, check_n3, check_xml, quote_doubly
from kg_loaders.reading import isolated
from kg_loaders.reading.encodings import document_as_utf8
from kg_loaders.reading.lines import BOM
from kg_loaders.reading.unpacking import StreamDamageError, unpacked

STREAMED = ("ttl", "trig")
BASES = {"rdf": "xml", "trix": "xml", "jsonld": "json", "n3": "turtle"}
"""What shows a base in the bytes alone; in Turtle and TriG the parser knows its base."""
SMALL = 1 << 16
PARSER = document_parser.__name__
_N_CHARACTERS = 300
_OUT_OF_MEMORY = ("memory allocation of", "MemoryError", "annot allocate")


@dataclass
class Document:
    """A document under way: what to parse, and, at the end, why it ended early.

    `damage` is that of the compressed data, `fault` the parser's; `n_left_out` are the statements
    of JSON-LD that have no absolute IRI.
    """

    path: Path
    budget: ReaderBudget
    format: str
    base_iri: str | None = None
    contexts: Mapping[str, Path] = field(default_factory=dict)
    damage: str = ""
    fault: Fault | None = None
    n_left_out: int = 0

    def rows(self, *, predicates: bool = False) -> Iterator[Row]:
        """Every row, before the fault if there is one; with `predicates` one row of each predicate.

        Raises BudgetError; SourceError when the file cannot be read or its parser crashes; and
        InternalError when the parser fails through a fault of ours.
        """
        self.damage, self.fault = "", None
        if self.format not in STREAMED:
            with tempfile.TemporaryFile() as spool:
                self._unpack(spool)
                self._look_through(spool)
                spool.seek(0)
                yield from self._parse(predicates, spool)
            return
        blocks, start = self.blocks(), b""
        while len(start) < SMALL and (block := next(blocks, b"")):
            start += block
        if len(start) < SMALL and b"<<" not in start:
            rows = self._parse_here(start)
            yield from document_parser.new_predicates(rows) if predicates else rows
        else:
            yield from self._parse(predicates, chain((start,), blocks))

    def blocks(self) -> Iterator[bytes]:
        """The unpacked bytes as UTF-8, without a byte-order mark; ends early at damage."""
        blocks, start = document_as_utf8(unpacked(self.path, self.budget)), b""
        try:
            while len(start) < len(BOM) and (block := next(blocks, b"")):
                start += block
            yield from filter(None, chain((start.removeprefix(BOM),), blocks))
        except StreamDamageError as damage:
            self.damage = str(damage)

    def _unpack(self, spool: IO[bytes]) -> None:
        n_bytes, bases = 0, BaseWatch(BASES[self.format])
        try:
            for block in self.blocks():
                n_bytes += len(block)
                self.budget.check(str(self.path), {"document_bytes": n_bytes})
                spool.write(block)
                bases.see(block)
                require_no_dot_segments(self.path, bases.base, "the base")
            spool.flush()
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(
                f"{self.path} cannot be unpacked to {tempfile.gettempdir()}: {error.strerror}; "
                "make room, or name another folder in TMPDIR"
            ) from error

    def _look_through(self, spool: IO[bytes]) -> None:
        if not spool.tell():
            return
        with mmap.mmap(spool.fileno(), 0) as data:
            if self.format == "jsonld":
                check_json(str(self.path), data, self.budget)
            elif self.format == "n3":
                check_n3(str(self.path), data, self.budget)
            else:
                entities = check_xml(str(self.path), data, self.budget)
                base = dotted_base_of_xml(data, entities) if entities else ""
                require_no_dot_segments(self.path, base, "the base")
                quote_doubly(data)
        for file in self.contexts.values():
            check_json(str(file), file.read_bytes(), self.budget)

    # ---- the parser ------------------------------------------------------------------------------
    def _parse_here(self, data: bytes) -> Iterator[Row]:
        """As `_parse`, for Turtle too short to do harm."""
        stream = document_parser.Stream(iter((data,)), self.format)
        rows = document_parser.oxigraph_rows(stream, self.format, self.base_iri)
        while True:
            try:
                row = next(rows, None)
            except (SyntaxError, MemoryError, document_parser.BaseSeenError) as error:
                self.fault = document_parser.fault_of(error, stream)
                break
            if row is None:
                break
            yield row
        self._require_sound()

    def _parse(self, predicates: bool, source: IO[bytes] | Iterable[bytes]) -> Iterator[Row]:
        is_streamed = self.format in STREAMED
        limits = (self.budget.memory_bytes, self.budget.seconds)
        contexts = {address: str(file) for address, file in self.contexts.items()}
        task = Task(
            self.format, self.base_iri, predicates, *limits, renew=is_streamed, contexts=contexts,
            context_bytes=self.budget.document_bytes,
        )  # fmt: skip
        with tempfile.TemporaryFile() as errors, _started(task, source, errors) as process:
            feeder = _Feeder(process, source) if is_streamed else None
            frame = Frame()
            for frame in _frames(process):
                yield from frame.rows
            code = process.wait()
            if feeder is not None:
                feeder.finish()
            if not frame.last:
                errors.seek(0)
                raise self._end_of_parser(code, errors.read().decode(errors="replace"))
            self.fault, self.n_left_out = frame.fault, frame.n_left_out
        self._require_sound()

    def _require_sound(self) -> None:
        """Raise `SourceError` for a fault that is not the document's."""
        if self.fault is None:
            return
        require_no_dot_segments(self.path, self.fault.base, "the base")
        if self.fault.is_of_context:
            raise SourceError(f"{self.path}: {self.fault.message}")
        if self.fault.contexts:
            named = ", ".join(self.fault.contexts)
            raise SourceError(
                f"{self.path}: its terms are defined at {named}, and kept fetches nothing; "
                f"save that document to a file and give it: --context "
                f"{self.fault.contexts[0]}=FILE, or in "
                "Python contexts={address: file}"
            )

    def _end_of_parser(self, code: int, errors: str) -> SourceError | InternalError:
        """The error for a parser that was stopped or crashed; `errors` is what it wrote."""
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if name == "SIGXCPU":
            what = f"its parser was stopped after {self.budget.seconds} s of processor time"
            return self.budget.error(str(self.path), "seconds", what)
        if name == "SIGKILL" or any(words in errors for words in _OUT_OF_MEMORY):
            return self.budget.error(str(self.path), "memory_bytes", "its parser ran out of memory")
        if isolated.is_own_fault(code):
            return InternalError(_own_fault(self.path, errors))
        words = " ".join(errors.split())[-_N_CHARACTERS:]
        return SourceError(
            f"{self.path}: its parser crashed ({name}{': ' if words else ''}{words}); the file may "
            "be hostile or damaged: if you trust it, convert it to N-Triples"
        )


def _own_fault(path: Path, errors: str) -> str:
    """The message for a parser that ended by a fault of ours; `errors` is its traceback."""
    reason = (errors.strip().splitlines() or ["no message"])[-1][:_N_CHARACTERS]
    return (
        f"{path} could not be read because of a fault in kept, not in the file: the process "
        f"that parses RDF ended with {reason}. Install kept again (pip install "
        f"--force-reinstall kept); "
        "if that does not help, please report it"
    )


# ---- a process -----------------------------------------------------------------------------------
@contextlib.contextmanager
def _started(task: Task, source: object, errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The parser's process, fed from a file or a pipe; it ends with the block."""
    stdin = subprocess.PIPE if task.renew else source
    try:
        process = isolated.start(PARSER, encode(task).decode(), stdin=stdin, stderr=errors)  # type: ignore[arg-type]
    except OSError as error:
        raise InternalError(
            f"the process that parses RDF does not start ({sys.executable or 'no Python'}: "
            f"{error.strerror}): N-Triples and N-Quads are read without it"
        ) from error
    try:
        yield process
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


def _frames(process: subprocess.Popen[bytes]) -> Iterator[Frame]:
    decode = msgspec.msgpack.Decoder(Frame).decode
    assert process.stdout is not None
    while len(head := process.stdout.read(4)) == 4:
        size = int.from_bytes(head, "big")
        data = process.stdout.read(size)
        if len(data) < size:
            return
        frame = decode(data)
        yield frame
        if frame.last:
            return


class _Feeder(threading.Thread):
    """Writes blocks to a process while its output is read."""

    def __init__(self, process: subprocess.Popen[bytes], blocks: Iterable[bytes]) -> None:
        super().__init__(daemon=True)
        self._sink, self._blocks = process.stdin, blocks
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        """Until the end of the blocks, of the process, or an error."""
        assert self._sink is not None
        try:
            with self._sink as sink:
                for block in self._blocks:
                    sink.write(block)
        except (BrokenPipeError, ValueError):
            return  # the process ended, or its user is done with it
        except Exception as error:  # noqa: BLE001 - raised where the rows are read
            self._error = error

    def finish(self) -> None:
        """Wait for the end; raises what reading raised."""
        self.join()
        if self._error is not None:
            raise self._error
