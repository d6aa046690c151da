"""`Parts`: blocks of triples and texts kept on the disk while a large file is read.

    state.json            what is read, with which settings, up to which byte; counts, files
    000007.texts.arrow    a part: at most one file of each of `_KINDS`

The state is replaced when the files of a part are whole, so a reading that was cut goes on behind
the last part. Without a folder of one's own the parts are temporary.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.disk.writing import claim, sync, write_bytes
from kg_loaders.errors import SourceError
from kg_loaders.reading.blocks import Block, TextBlock, TripleBlock
from kg_loaders.records import TextKind

PART_ROWS = 1_000_000
"""Triples and texts of one part; what has been read since the last one is read again."""
STATE = "state.json"
_KINDS = ("numbers", "triples", "texts", "notes")


class _State(msgspec.Struct):
    """`state.json`; `files` are names and sizes."""

    source: str
    n_bytes: int
    modified: int
    settings: str
    offset: int = 0
    is_finished: bool = False
    files: dict[str, int] = {}
    report: dict[str, dict[str, int]] = {}


class Parts:
    """The parts of one file; `offset` is the byte up to which they hold what it says."""

    def __init__(self, folder: Path, state: _State, report: DamageReport) -> None:
        self._folder, self._state, self._report = folder, state, report
        self._waiting: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in _KINDS}

    @property
    def offset(self) -> int:
        return self._state.offset

    @property
    def is_finished(self) -> bool:
        """Whether the parts hold all of the file."""
        return self._state.is_finished

    def restore(self) -> None:
        """Set the counts of the report to those up to `offset`."""
        kept = self._state.report
        for name, value in kept.get("counts", {}).items():
            setattr(self._report, name, value)
        self._report.skipped = dict(kept.get("skipped", {}))
        self._report.reasons = dict(kept.get("reasons", {}))

    def add(
        self, blocks: Iterable[Block], notes: Iterable[Block], end: int, *, is_last: bool = False
    ) -> None:
        """Take all that the file says up to the byte `end`; `notes` are given back apart."""
        for block in blocks:
            self._keep(block)
        for note in notes:
            self._keep(note, "notes")
        n_rows = sum(batch.num_rows for batches in self._waiting.values() for batch in batches)
        if n_rows >= PART_ROWS or is_last:
            self._write(end, is_last)

    def _keep(self, block: Block, kind: str = "") -> None:
        kind, batch = _columns(block, kind)
        self._waiting[kind].append(batch)

    def _write(self, end: int, is_last: bool) -> None:
        number = len({name[:6] for name in self._state.files})
        files = {}
        for kind, batches in self._waiting.items():
            if batches:
                path = self._folder / f"{number:06d}.{kind}.arrow"
                options = pa.ipc.IpcWriteOptions(compression="zstd")
                with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(
                    sink, batches[0].schema, options=options
                ) as writer:  # fmt: skip
                    for batch in batches:
                        writer.write_batch(batch)
                sync(path)
                files[path.name] = path.stat().st_size
        self._waiting = {kind: [] for kind in _KINDS}
        state = self._state
        state.files = {**state.files, **files}
        state.offset, state.is_finished = end, is_last
        state.report = {
            "counts": self._report.counts(),
            "skipped": self._report.skipped,
            "reasons": self._report.reasons,
        }
        write_bytes(self._folder / STATE, msgspec.json.encode(state), force=True)

    def blocks(self) -> Iterator[Block]:
        """Everything that was added as blocks."""
        for name in self._state.files:
            if not name.endswith(".notes.arrow"):
                yield from self._read(name)

    def notes(self) -> Iterator[TripleBlock]:
        """Everything that was added as notes."""
        for name in self._state.files:
            if name.endswith(".notes.arrow"):
                for block in self._read(name):
                    assert isinstance(block, TripleBlock)
                    yield block

    def _read(self, name: str) -> Iterator[Block]:
        path = self._folder / name
        try:
            if path.stat().st_size != self._state.files[name]:
                raise OSError("it has another size than it had")
            with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
                for i in range(reader.num_record_batches):
                    batch = reader.get_batch(i)
                    batch.validate(full=True)
                    yield _block(batch)
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{path} cannot be read ({error}); remove the folder and read the file again"
            ) from error


@contextmanager
def kept_parts(
    folder: str | Path | None, source: Path, settings: str, report: DamageReport
) -> Iterator[tuple[Parts, DamageReport]]:
    """Open the parts of `source` in `folder`, new ones or those of a reading that was cut.

    Yields them and the report that their reader is to use, whose counts go to `report` at the end.
    Raises `SourceError` where the folder holds parts of another file or of other settings.
    """
    if folder is not None and report.policy is DamagePolicy.QUARANTINE:
        raise SourceError(
            "rejected lines of a reading that goes on cannot be put aside; use --damage skip"
        )
    part_report = DamageReport(
        report.policy,
        report.quarantine,
        report.max_kept,
        budget=report.budget,
        remedy=report.remedy,
    )
    part_report.progress = report.progress
    if folder is None:
        with tempfile.TemporaryDirectory() as name:
            yield Parts(Path(name), _new(source, settings), part_report), part_report
    else:
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        with claim(target):
            yield Parts(target, _opened(target, _new(source, settings)), part_report), part_report
    report.take(part_report)


def remove_parts(folder: str | Path) -> None:
    """Remove the parts in `folder`, and `folder` if nothing else is in it."""
    directory = Path(folder)
    for path in [directory / STATE, *directory.glob("[0-9]*.arrow")]:
        path.unlink(missing_ok=True)
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def _new(source: Path, settings: str) -> _State:
    try:
        status = source.stat()
    except OSError as error:
        raise SourceError(f"{source} cannot be read: {error.strerror}") from error
    return _State(source.name, status.st_size, status.st_mtime_ns, settings)


def _opened(folder: Path, new: _State) -> _State:
    path = folder / STATE
    if not path.exists():
        if any(folder.iterdir()):
            raise SourceError(f"{folder} holds other files; name a new folder for parts")
        return new
    try:
        state = msgspec.json.decode(path.read_bytes(), type=_State)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"{path} is damaged ({error}); remove the folder") from error
    for name, what in (
        ("source", "file"), ("n_bytes", "size of the file"), ("modified", "time of the file"),
        ("settings", "settings"),
    ):  # fmt: skip
        if getattr(state, name) != getattr(new, name):
            raise SourceError(
                f"{folder} holds parts of another reading ({what}: {getattr(state, name)}, now "
                f"{getattr(new, name)}); repeat that one, or name another folder"
            )
    return state


# ---- blocks as columns ---------------------------------------------------------------------------
def _columns(block: Block, kind: str) -> tuple[str, pa.RecordBatch]:
    if isinstance(block, TextBlock):
        if block.counts is not None:
            raise ValueError("counts of texts cannot be kept in parts")
        languages = pa.array(block.languages, pa.string())
        return "texts", pa.record_batch(
            {
                "node": block.nodes.take(pa.array(block.node_ids)),
                "kind": pa.array(block.kinds),
                "language": languages.take(pa.array(block.language_ids)),
                "value": block.values,
                "is_relation": pa.array(np.full(len(block.kinds), block.is_relation)),
            }
        )
    relations = block.relations.take(pa.array(block.relation_ids))
    ends: list[Any] = [pa.array(column) for column in block.ends.T]
    if not isinstance(block.entities, str):
        ends = [block.entities.take(column) for column in ends]
        kind = kind or "triples"
    elif block.entities != "Q":
        raise ValueError(f"names that start with {block.entities!r} cannot be kept in parts")
    columns = {"head": ends[0], "relation": relations, "tail": ends[1]}
    return kind or "numbers", pa.record_batch(columns)


def _block(batch: pa.RecordBatch) -> Block:
    if "kind" in batch.schema.names:
        nodes = batch.column("node").dictionary_encode()
        languages = batch.column("language").dictionary_encode()
        kinds = batch.column("kind").to_numpy()
        if kinds.size and kinds.max() >= len(TextKind):
            raise pa.ArrowInvalid(f"no text is of kind {kinds.max()}")
        return TextBlock(
            nodes.dictionary, nodes.indices.to_numpy(), kinds, batch.column("value"),
            languages.indices.to_numpy(), tuple(languages.dictionary.to_pylist()),
            is_relation=bool(batch.num_rows and batch.column("is_relation")[0].as_py()),
        )  # fmt: skip
    relations = batch.column("relation").dictionary_encode()
    heads, tails = batch.column("head"), batch.column("tail")
    names: pa.StringArray | str = "Q"
    if heads.type == pa.string():
        encoded = pa.concat_arrays([heads, tails]).dictionary_encode()
        ids, names = encoded.indices.to_numpy(), encoded.dictionary
        ends = np.stack([ids[: len(heads)], ids[len(heads) :]], axis=1)
    else:
        ends = np.stack([heads.to_numpy(), tails.to_numpy()], axis=1)
    return TripleBlock(ends, relations.indices.to_numpy(), names, relations.dictionary)
