"""From an owner's address into the data folder: resumed where it broke off, checked, whole or not
at all."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from kept.errors import CheckpointError, ConfigError, MissingExtraError
from kept.tasks.public_data.sources import Missing, Source, SourceFile
from kg_loaders.disk.write_errors import write_errors
from kg_loaders.disk.writing import claim, whole_file
from kg_loaders.errors import InUseError, WriteError

PARTS = ".downloads"
"""Folder in the data folder for what has not arrived whole."""
CHUNK = 1 << 13
"""Bytes; at most as many are lost where a download breaks off."""
TIMEOUT = 60
N_TRIES = 20
"""How often the folder of downloads is made again when another process has removed it."""


def missing_files(source: Source, root: Path) -> list[Missing]:
    """Return the files of a data set that are not below `root` as their owner has them."""
    missing = []
    for file in source.files:
        path = root / file.path
        if not path.is_file():
            missing.append(Missing(file, "not there"))
            continue
        try:
            with _content(path) as stream:
                is_same = _sha256(stream) == file.sha256
        except (OSError, EOFError) as error:
            missing.append(Missing(file, f"cannot be read: {error}"))
            continue
        if not is_same:
            missing.append(Missing(file, "not what its owner has (SHA-256)"))
    return missing


def fetch(
    file: SourceFile, root: Path, *, report: Callable[[str], None] = lambda line: None
) -> Path:
    """Fetch one file into its place below `root`, and return that place.

    What arrived of an earlier attempt is not fetched again. Raises `ConfigError` for a file without
    an address, `MissingExtraError` without pooch, `CheckpointError` for an address that does not
    answer or holds something else.
    """
    if file.url is None:
        raise ConfigError(f"{file.path} has no address: take it from its owner by hand")
    try:
        import pooch
    except ImportError as error:
        raise MissingExtraError("kept data get needs pooch: pip install 'kept[data]'") from error
    parts = root / PARTS
    with _claimed(parts, file.sha256):  # one process at a time adds to what has arrived
        report(f"{file.path}: {file.size:,} bytes from {file.url}")
        folder, part = parts / f"{file.sha256}.whole", parts / f"{file.sha256}.part"
        shutil.rmtree(folder, ignore_errors=True)  # of a process that died; what arrived is in part
        try:
            pooch.retrieve(
                file.url, known_hash=f"sha256:{file.sha256}", fname=file.sha256, path=folder,
                downloader=_Resuming(part, file.size),
            )  # fmt: skip
        except (OSError, ValueError) as error:  # requests' errors are of the first kind
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, WriteError):
                raise
            if isinstance(error, ValueError):  # what arrived is another file
                part.unlink(missing_ok=True)
            raise CheckpointError(
                f"{file.path} could not be fetched from {file.url}: {error}; the same command goes "
                "on"
            ) from error
        _install(folder / file.sha256, root / file.path)
        shutil.rmtree(folder)
        part.unlink(missing_ok=True)
    with suppress(OSError):  # other files have not arrived yet
        parts.rmdir()
    return root / file.path


def sweep(files: Iterable[SourceFile], root: Path) -> None:
    """Remove what a killed download left of `files` that are in place: its locks, and parts."""
    parts = root / PARTS
    for file in files:
        folder, part = parts / f"{file.sha256}.whole", parts / f"{file.sha256}.part"
        for path in (parts / file.sha256, root / file.path):
            lock = path.with_name(f".{path.name}.lock")
            if any(left.exists() for left in (lock, folder, part)):
                with suppress(InUseError), claim(path):  # in use: that process removes them
                    shutil.rmtree(folder, ignore_errors=True)
                    part.unlink(missing_ok=True)
    with suppress(OSError):  # not there, or other files have not arrived yet
        parts.rmdir()


@contextmanager
def _claimed(parts: Path, name: str) -> Iterator[None]:
    """Be the only writer of `name` in the folder `parts`, which is made.

    A process that has fetched its files removes the empty folder, also between the two steps.
    """
    with ExitStack() as stack:
        for is_last in (*[False] * N_TRIES, True):
            try:
                with write_errors(parts):
                    parts.mkdir(parents=True, exist_ok=True)
                stack.enter_context(claim(parts / name))
                break
            except WriteError as error:
                if is_last or isinstance(error, InUseError):
                    raise
        yield


def _install(arrived: Path, target: Path) -> None:
    """Write what arrived to its place, packed where its name says so."""
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target, force=True) as part, arrived.open("rb") as content:
        if target.suffix == ".gz":
            with part.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
                shutil.copyfileobj(content, packed)
        else:
            with part.open("wb") as plain:
                shutil.copyfileobj(content, plain)


class _Resuming:
    """A downloader of pooch: goes on with what lies in `part`, and takes no more than `size`."""

    def __init__(self, part: Path, size: int) -> None:
        self.part, self.size = part, size

    def __call__(self, url: str, output_file: str, _pooch: Any) -> None:
        import requests

        have = self.part.stat().st_size if self.part.is_file() else 0
        if have < self.size or not have:
            with self._reply(url, have) as reply:
                reply.raise_for_status()
                mode = "ab" if reply.status_code == requests.codes.partial_content else "wb"
                with self.part.open(mode) as stream:
                    self._write(reply.iter_content(CHUNK), cast(BinaryIO, stream))
        with write_errors(Path(output_file)):
            shutil.copyfile(self.part, output_file)

    def _reply(self, url: str, have: int) -> Any:
        """The rest of the file, or all of it where the address has no such rest."""
        import requests

        if have:
            headers = {"Range": f"bytes={have}-"}
            reply = requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)
            if reply.status_code != requests.codes.requested_range_not_satisfiable:
                return reply
            reply.close()  # what lies here is no beginning of what the address has now
        return requests.get(url, stream=True, timeout=TIMEOUT)

    def _write(self, chunks: Iterator[bytes], stream: BinaryIO) -> None:
        for chunk in chunks:
            with write_errors(self.part):
                stream.write(chunk)
                stream.flush()
            if stream.tell() > self.size:
                raise ValueError(f"the address sends more than the {self.size:,} bytes of the file")


def _content(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _sha256(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
