"""Sealed folders: a manifest says of every file its size and SHA-256, and of itself its own.

    {"kind": ..., "format_version": ..., (what the folder says of itself),
     "files": {"triples.npy": {"size": 308, "sha256": ...}, ...}, "seal": ...}

`seal` is the SHA-256 of the rest as JSON with sorted keys. A seal finds damage and mistakes. It is
no signature: whoever may write the folder may seal it again, so what maps the files also checks
every id and offset in them (`kg_loaders.disk.columns`).

`open_sealed` reads every byte once. What was found whole is remembered in the user's cache folder
by path, size, times and inode of every file, so that a large folder opens fast from then on.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kg_loaders.disk.threads import together
from kg_loaders.disk.writing import write_bytes

MANIFEST = "manifest.json"
MANIFEST_BYTES = 1 << 26
CHECKS_VERSION = 1
"""Raised when opening checks more than before: what was remembered is then verified again."""
CACHE_ENTRIES = 2000
TICK_NS, COARSE_TICK_NS = 50_000_000, 2_000_000_000

_NAME = re.compile(r"[^/\\\0]+(/[^/\\\0]+)*")
_About = TypeVar("_About")
_UNREADABLE = (
    ValueError, OSError, EOFError, RuntimeError, LookupError, SyntaxError, TypeError, OverflowError,
    MemoryError, tokenize.TokenError, msgspec.MsgspecError,
)  # fmt: skip
"""What numpy, Arrow, marisa and msgspec raise on bytes that make no sense."""


class FileSeal(msgspec.Struct, frozen=True):
    """What a manifest says of a file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFormat:
    """A kind of sealed folder: what its manifest says first, and the words of its errors.

    `what` is the kind for people ("a knowledge graph"), `remedy` what rebuilds a damaged one,
    `make` what makes the first one; `mark` is a file (a glob) by which a damaged one is known.
    `error` is the class of every fault. `takes_links`: files may be symbolic links, as in the
    caches of hubs.
    """

    kind: str
    version: int
    what: str
    remedy: str
    make: str
    mark: str
    error: type[Exception]
    manifest: str = MANIFEST
    takes_links: bool = False


@dataclass(frozen=True, slots=True)
class Sealed:
    """A folder whose files are as they were written; `is_known` says that an earlier opening
    verified them, so that nothing was read again."""

    folder: Path
    format: FolderFormat
    values: Mapping[str, Any]
    files: Mapping[str, FileSeal]
    fingerprint: str | None
    is_known: bool

    @property
    def seal(self) -> str:
        """The hash over the manifest, and so over every file."""
        return str(self.values["seal"])

    def about(self, kind: type[_About]) -> _About:
        """What the manifest says of the folder, as `kind`."""
        with faults(self.format, self.folder / self.format.manifest):
            return msgspec.convert(self.values, kind)

    def require_files(self, names: Iterable[str]) -> None:
        """Raise unless the manifest lists just these files."""
        required = set(names)
        if required != self.files.keys():
            odd = sorted(required ^ self.files.keys())
            raise self.format.error(
                f"{self.folder / self.format.manifest} does not list the files of "
                f"{self.format.what} ({', '.join(map(repr, odd[:3]))}); {self.format.remedy}"
            )

    def remember(self) -> None:
        """Note that all of it was verified; a cache that cannot be written is no fault."""
        if self.fingerprint is not None and not self.is_known:
            _remember(_entry(self.folder, self.format), self.fingerprint)


@contextmanager
def faults(format: FolderFormat, path: Path) -> Iterator[None]:
    """What cannot be read below becomes the format's error with `path` and the remedy."""
    try:
        yield
    except format.error:
        raise
    except _UNREADABLE as error:
        raise format.error(f"{path} cannot be read ({error}); {format.remedy}") from error


# ---- opening -------------------------------------------------------------------------------------
def open_sealed(
    folder: Path, format: FolderFormat, *, verify: bool = False, n_threads: int = 1
) -> Sealed:
    """Open `folder` with every file as its manifest says; raises the format's error.

    `verify` reads every byte, also of a folder that is remembered; `n_threads` do it together. The
    caller checks what the files hold, unless `is_known`, and then calls `remember`.
    """
    values = read_manifest(folder, format)
    path = folder / format.manifest
    with faults(format, path):
        files = msgspec.convert(values["files"], dict[str, FileSeal])
    started, stats = time.time_ns(), {}
    for name, file_seal in files.items():
        stats[name] = _stat(folder, name, file_seal, format)
    stats[format.manifest] = path.lstat()
    fingerprint = _fingerprint(values, stats)
    entry = _entry(folder, format)
    known = not verify and entry is not None and _recall(entry) == fingerprint
    if not known:
        checks = [
            partial(_require_digest, folder / name, seal, format) for name, seal in files.items()
        ]
        together(*checks, n_threads=n_threads)
    settled = all(_is_settled(status, started) for status in stats.values())
    return Sealed(folder, format, values, files, fingerprint if settled else None, known)


def _require_digest(file: Path, file_seal: FileSeal, format: FolderFormat) -> None:
    with faults(format, file):
        digest = sha256_of(file)
    if digest != file_seal.sha256:
        raise format.error(f"{file} was altered after it was written (checksum); {format.remedy}")


def read_manifest(folder: Path, format: FolderFormat) -> dict[str, Any]:
    """The manifest's values, their own checksum verified; raises the format's error."""
    path = folder / format.manifest
    if not path.is_file():
        raise format.error(f"{folder} is not {format.what}: it has no {path.name}; {format.make}")
    values = _decoded(path, format)
    if values.get("kind") != format.kind and "seal" in values:
        raise format.error(
            f"{folder} is not {format.what}, but {values.get('kind', 'something else')!r}; "
            f"{format.make}"
        )
    if values.get("format_version") != format.version:
        raise format.error(
            f"{folder} has format version {values.get('format_version')}, this kept reads "
            f"{format.version}; {format.remedy}"
        )
    if values.get("kind") != format.kind:
        raise format.error(f"{folder} is not {format.what} but something else; {format.make}")
    if values.get("seal") != seal_of(values) or path.read_bytes() != rendered(values):
        raise format.error(
            f"{path} is damaged: it was altered after it was written (its own checksum); "
            f"{format.remedy}"
        )
    return values


def is_of(folder: Path, format: FolderFormat) -> bool:
    """Whether the folder is of this format, of any version, damaged or not."""
    path = folder / format.manifest
    if not path.is_file():
        return False
    if any(folder.glob(format.mark)):
        return True
    try:
        return _decoded(path, format).get("kind") == format.kind
    except format.error:
        return False


def _decoded(path: Path, format: FolderFormat) -> dict[str, Any]:
    try:
        if path.stat().st_size > MANIFEST_BYTES:
            raise ValueError(f"more than {MANIFEST_BYTES} bytes")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (ValueError, OSError, RecursionError, msgspec.MsgspecError) as error:
        raise format.error(f"{path} is damaged ({error}); {format.remedy}") from error


def _stat(folder: Path, name: str, file_seal: FileSeal, format: FolderFormat) -> os.stat_result:
    """Of a regular file inside `folder` that is reached through no link and has its size."""
    path = folder / format.manifest
    if not _NAME.fullmatch(name) or {"..", "."} & set(name.split("/")):
        raise format.error(
            f"{path} names the file {name!r}, which is none inside the folder; {format.remedy}"
        )
    file = folder
    status = None
    for part in name.split("/"):
        file = file / part
        try:
            status = file.stat() if format.takes_links else file.lstat()
        except OSError:
            raise format.error(
                f"{file} is missing, {file_seal.size} bytes were written; {format.remedy}"
            ) from None
        if stat.S_ISLNK(status.st_mode):
            raise format.error(
                f"{file} is a link, which may lead out of {folder}; put the file itself there, or "
                f"{format.remedy}"
            )
    assert status is not None
    if not stat.S_ISREG(status.st_mode):
        raise format.error(f"{file} is not a regular file; {format.remedy}")
    if status.st_size != file_seal.size:
        raise format.error(
            f"{file} has {status.st_size} bytes, {file_seal.size} were written; {format.remedy}"
        )
    return status


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ---- sealing -------------------------------------------------------------------------------------
def seal(
    folder: Path,
    format: FolderFormat,
    about: Mapping[str, Any],
    names: Iterable[str],
    *,
    known: Mapping[str, FileSeal] | None = None,
) -> dict[str, Any]:
    """Write the manifest of the files `names` (relative, by "/"), and return its values.

    `known` are seals that need not be computed again. The manifest is replaced in one step.
    """
    files = dict(known or {})
    for name in sorted(names):
        files[name] = FileSeal((folder / name).stat().st_size, sha256_of(folder / name))
    first = {"kind": format.kind, "format_version": format.version}
    listed = msgspec.to_builtins(dict(sorted(files.items())))
    values: dict[str, Any] = {**first, **about, **first, "files": listed}
    values = msgspec.json.decode(msgspec.json.encode(values))
    values["seal"] = seal_of(values)
    write_bytes(folder / format.manifest, rendered(values), force=True)
    return values


def files_below(folder: Path) -> list[str]:
    """The names of all files below `folder`, sorted."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


def rendered(values: Mapping[str, Any]) -> bytes:
    """The one form in which a manifest is written."""
    return msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n"


def seal_of(values: Mapping[str, Any]) -> str:
    """The SHA-256 of `values` as JSON, without their own `seal`."""
    rest = {name: value for name, value in values.items() if name != "seal"}
    return hashlib.sha256(msgspec.json.encode(rest, order="deterministic")).hexdigest()


# ---- what was verified before --------------------------------------------------------------------
def _fingerprint(values: Mapping[str, Any], stats: Mapping[str, os.stat_result]) -> str:
    """Changes whenever a file does: a size, a time or an inode, or what the manifest says."""
    rows = [
        [name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino]
        for name, s in sorted(stats.items())
    ]
    return hashlib.sha256(
        msgspec.json.encode([CHECKS_VERSION, values.get("seal"), rows])
    ).hexdigest()


def _is_settled(status: os.stat_result, now: int) -> bool:
    """Whether a change from now on would show in the file's times, whose clock ticks slowly."""
    coarse = status.st_mtime_ns % 1_000_000_000 == 0
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    return newest + (COARSE_TICK_NS if coarse else TICK_NS) < now


def memory() -> Path | None:
    """The folder in the user's cache that says what was verified; None where there is no home."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(cache) if os.path.isabs(cache) else Path(os.path.expanduser("~/.cache"))
    return home / "kept" / "verified" if home.is_absolute() else None


def _entry(folder: Path, format: FolderFormat) -> Path | None:
    """The file that says what is known of `folder`."""
    directory = memory()
    if directory is None:
        return None
    key = f"{format.kind}\0{os.path.abspath(folder)}"
    return directory / hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _recall(entry: Path) -> str | None:
    """What is noted there; whatever is not 64 characters equals no fingerprint."""
    try:
        if not stat.S_ISREG(entry.lstat().st_mode):
            return None
        with entry.open("rb") as stream:
            return stream.read(65).decode("ascii", "replace")
    except OSError:
        return None


def _remember(entry: Path | None, fingerprint: str) -> None:
    if entry is None:
        return
    with suppress(OSError):  # unwritable or full: the folder is verified again next time
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        others = list(entry.parent.iterdir())
        if len(others) > CACHE_ENTRIES:
            others.sort(key=lambda path: path.lstat().st_mtime_ns)
            for old in others[: CACHE_ENTRIES // 2]:
                old.unlink(missing_ok=True)
        partial = entry.with_name(f".{entry.name}.{os.getpid()}.partial")
        partial.write_text(fingerprint, encoding="ascii")
        partial.replace(entry)
