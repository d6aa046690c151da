"""The one writer of every output: a file or a folder appears whole, or what was there stays.

    with whole_folder("kg", kind="knowledge graph", is_kind=is_graph) as part:
        ...                                   # fill `part`, a hidden folder beside the target

    .kg.lock        held while `kg` is written: a second writer is refused or waits
    .kg.4711.part   what process 4711 has written so far; flushed to the disk, then renamed

A process that dies leaves the target as it was. Its lock falls with it, so whoever holds the lock
next knows that every part it finds is of a dead process, whatever its number is in use for by now,
and sweeps them. Only outputs made through `claim`, `whole_file` and `whole_folder` are so guarded.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from kg_loaders.disk.write_errors import write_errors
from kg_loaders.errors import ExistsError, InUseError, WriteError

GRACE_SECONDS = 0.5
"""Seconds that a writer waits for another by default: enough for one small file."""
WAIT_SECONDS = 60.0
"""Where several processes share a file to which each adds."""

StrPath = str | os.PathLike[str]


# ---- whole outputs -------------------------------------------------------------------------------
@contextmanager
def whole_file(
    path: StrPath,
    *,
    force: bool = False,
    inputs: Iterable[StrPath] = (),
    wait: float = GRACE_SECONDS,
) -> Iterator[Path]:
    """Yield the path of a file to be written, which becomes `path` when the block ends well.

    `force` replaces a file that is there and keeps its mode; a symbolic link stays one. `inputs`
    are what the output is made of, none of which it may be. `wait` is for how many seconds another
    writer of `path` is waited for. Raises `ExistsError`, `InUseError`, `WriteError`.
    """
    refuse_file(path, force=force, inputs=inputs)
    with claim(path, wait=wait) as target, write_errors(target):
        refuse_file(target, force=force)  # another writer may have been first
        part = _part(target)
        try:
            yield part
            if target.exists():
                shutil.copymode(target, part)
            sync(part)
            part.replace(target)
            sync(target.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def whole_folder(
    path: StrPath,
    *,
    kind: str,
    is_kind: Callable[[Path], bool],
    force: bool = False,
    inputs: Iterable[StrPath] = (),
    wait: float = GRACE_SECONDS,
) -> Iterator[Path]:
    """Yield an empty folder to be filled, which becomes `path` when the block ends well.

    Missing folders above are made. An empty folder is filled; `force` replaces one for which
    `is_kind` holds (`kind` names it in messages), and no other. `inputs`, `wait` and the errors are
    those of `whole_file`; an input must not lie in a folder that is replaced either.
    """
    refuse_folder(path, kind=kind, is_kind=is_kind, force=force, inputs=inputs)
    above = Path(os.path.realpath(path)).parent
    with _parents(above), claim(path, wait=wait) as target, write_errors(target):
        refuse_folder(target, kind=kind, is_kind=is_kind, force=force)
        part = _part(target)
        try:
            part.mkdir()
            yield part
            _sync_all(part)
            _publish(part, target)
            sync(target.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)  # the next writer tries again


@contextmanager
def whole_files(folder: StrPath, *, wait: float = GRACE_SECONDS) -> Iterator[Path]:
    """Yield an empty folder whose files take their places in `folder` when the block ends well.

    One after the other in the order of their names, each whole, in the place of what had its name.
    The errors are those of `whole_file`.
    """
    with claim(Path(folder) / "files", wait=wait) as name, write_errors(name.parent):
        part = _part(name)
        try:
            part.mkdir()
            yield part
            _sync_all(part)
            for file in sorted(path for path in part.rglob("*") if path.is_file()):
                target = name.parent / file.relative_to(part)
                target.parent.mkdir(parents=True, exist_ok=True)
                file.replace(target)
            sync(name.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)  # the next writer tries again


@contextmanager
def spilling(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside `target` for what its making does not hold in memory.

    It goes at the end; what a dead writer left of one goes when the next is made.
    """
    above = Path(os.path.realpath(target)).parent
    with _parents(above), claim(f"{os.path.realpath(target)}.spilled") as name:
        folder = _part(name)
        try:
            with write_errors(name):
                folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # the next writer tries again


def write_bytes(
    path: StrPath,
    content: bytes,
    *,
    force: bool = False,
    inputs: Iterable[StrPath] = (),
    wait: float = GRACE_SECONDS,
) -> None:
    """Write `content` as `whole_file` does."""
    with whole_file(path, force=force, inputs=inputs, wait=wait) as part:
        part.write_bytes(content)


def write_text(
    path: StrPath,
    text: str,
    *,
    force: bool = False,
    inputs: Iterable[StrPath] = (),
    wait: float = GRACE_SECONDS,
) -> None:
    """Write `text` in UTF-8, its line ends as they are, as `whole_file` does."""
    write_bytes(path, text.encode(), force=force, inputs=inputs, wait=wait)


def write_json(
    path: StrPath,
    values: object,
    *,
    indent: int = 1,
    force: bool = False,
    inputs: Iterable[StrPath] = (),
    wait: float = GRACE_SECONDS,
) -> None:
    """Write `values` as indented JSON, as `whole_file` does."""
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    write_text(path, text + "\n", force=force, inputs=inputs, wait=wait)


def write_lines(
    path: StrPath,
    lines: Iterable[bytes],
    *,
    force: bool = False,
    inputs: Iterable[StrPath] = (),
    wait: float = GRACE_SECONDS,
) -> int:
    """Write `lines`, each with its end, as they come, as `whole_file` does; returns how many."""
    n_lines = 0
    with whole_file(path, force=force, inputs=inputs, wait=wait) as part, part.open("wb") as sink:
        for line in lines:
            sink.write(line)
            n_lines += 1
    return n_lines


# ---- the lock ------------------------------------------------------------------------------------
@contextmanager
def claim(path: StrPath, *, wait: float = GRACE_SECONDS) -> Iterator[Path]:
    """Be the only writer of `path`; yields its real path, links and `..` resolved.

    What dead writers of it left is removed first. Raises `InUseError` when another writer, in this
    process or another, still holds it after `wait` seconds, and `WriteError`.
    """
    target = _real_path(path)
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    with write_errors(target):
        try:
            _acquire(lock, wait)
        except Timeout as error:
            raise InUseError(
                f"{target} is being written by another process; wait until it has ended, or choose "
                "another name"
            ) from error
    try:
        with write_errors(target):
            _sweep(target)
        yield target
    finally:
        with suppress(OSError):  # a lock file that stays is a name without a meaning
            os.unlink(lock.lock_file)
        lock.release()


def _acquire(lock: FileLock, wait: float) -> None:
    """Take the lock; raises `Timeout`, and `OSError` where no file can be made."""
    try:
        lock.acquire(timeout=min(wait, GRACE_SECONDS))
    except Timeout:
        # a lock that cannot be made is tried again and again, as one that another process holds
        os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, 0o644))
        lock.acquire(timeout=max(wait - GRACE_SECONDS, 0))


def _real_path(path: StrPath) -> Path:
    """The path with links and `..` resolved; raises `WriteError` for one that none can have."""
    name = os.fsdecode(path)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise WriteError(f"{name!r} is not a name in UTF-8; choose another") from error
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise WriteError(f"{target} cannot be written: there is no folder {target.parent}; make it")
    if target.is_symlink():
        raise WriteError(f"{target} is a link that leads to itself; remove it, or choose another")
    return target


def _sweep(target: Path) -> None:
    """Remove what dead writers of `target` left; to be called under its lock."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.\d+\.(part|old)(-\w+)?")
    with os.scandir(target.parent) as entries:
        names = sorted(entry.name for entry in entries if ours.fullmatch(entry.name))
    for left in (target.with_name(name) for name in names):
        if left.suffix == ".old" and not target.exists():
            left.rename(target)  # its writer died between two renames
        else:
            remove(left)


def tidy(*paths: StrPath) -> None:
    """Remove what dead writers of `paths` left; what is being written is let be.

    For outputs that stand: who writes one anew tidies anyway.
    """
    for path in paths:
        with suppress(InUseError), claim(path):
            pass


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def remove_at_once(folder: Path) -> None:
    """Remove a folder so that no moment shows a part of it; `tidy` removes what a kill left.

    To be called under the folder's `claim`.
    """
    part = _part(folder)
    folder.rename(part)
    remove(part)


# ---- refusals ------------------------------------------------------------------------------------
def refuse_file(path: StrPath, *, force: bool, inputs: Iterable[StrPath] = ()) -> None:
    """Raise `ExistsError` where `whole_file` would; for a check before long work, too."""
    target = Path(path)
    with write_errors(target):
        if target.is_dir():
            raise ExistsError(f"{target} is a folder, but a file is written; choose another name")
        if not target.exists():
            return
        if not target.is_file():
            raise ExistsError(f"{target} is not a regular file; choose another name")
        _refuse_inputs(target, inputs)
    if not force:
        raise ExistsError(f"{target} exists; choose another name, or replace it with --force")


def refuse_folder(
    path: StrPath,
    *,
    kind: str,
    is_kind: Callable[[Path], bool],
    force: bool,
    inputs: Iterable[StrPath] = (),
) -> None:
    """Raise `ExistsError` where `whole_folder` would; for a check before long work, too."""
    target = Path(path)
    with write_errors(target):
        if not target.exists():
            return
        if not target.is_dir():
            raise ExistsError(f"{target} is a file, but a folder is written; choose another name")
        _refuse_inputs(target, inputs)
        if not any(target.iterdir()):
            return
        if not is_kind(target):
            raise ExistsError(f"{target} exists and is no {kind}; choose another folder")
    if not force:
        raise ExistsError(f"{target} exists; choose another folder, or replace it with --force")


def _refuse_inputs(target: Path, inputs: Iterable[StrPath]) -> None:
    """Raise when `target` is an input, however that is spelt or linked, or a folder around one."""
    real_target = Path(os.path.realpath(target))
    for source in inputs:
        if not os.path.exists(source):
            continue
        if os.path.samefile(source, target):
            raise ExistsError(f"{target} is the input {source} itself; choose another output")
        if real_target in Path(os.path.realpath(source)).parents:
            raise ExistsError(f"{target} holds the input {source}; choose another output")


# ---- the disk ------------------------------------------------------------------------------------
def sync(path: Path) -> None:
    """Wait until the file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_all(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            sync(path)
    sync(folder)


def _part(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.part")


def _publish(part: Path, target: Path) -> None:
    """Give a folder its name; what had it is swapped out in one step where the system can."""
    if not target.exists() or not any(target.iterdir()):
        part.rename(target)
        return
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    at_cwd, exchange = -100, 2
    if swap and swap(at_cwd, os.fsencode(part), at_cwd, os.fsencode(target), exchange) == 0:
        return
    aside = part.with_suffix(".old")
    target.rename(aside)
    part.rename(target)
    shutil.rmtree(aside, ignore_errors=True)  # the next writer tries again


@contextmanager
def _parents(folder: Path) -> Iterator[None]:
    """Make `folder` and those above; take away again those that stay empty."""
    folders = []
    while not folder.exists():
        folders.append(folder)
        folder = folder.parent
    with write_errors(folders[0] if folders else folder):
        for path in reversed(folders):
            path.mkdir(exist_ok=True)
    try:
        yield
    finally:
        for path in folders:
            with suppress(OSError):  # it is not empty
                path.rmdir()
