"""From an owner's address into the data folder: resumed where it broke off, checked, whole or not
at all."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from kept.errors import CheckpointError, ConfigError, MissingExtraError
from kept.public_data.sources import Missing, Source, SourceFile
from kg_loaders.disk.writing import whole_file

PARTS = ".downloads"
"""Folder in the data folder for what has not arrived whole."""
CHUNK = 1 << 13
"""Bytes; at most as many are lost where a download breaks off."""
TIMEOUT = 60


def missing_files(source: Source, root: Path) -> list[Missing]:
    """Return the files of a data set that are not below `root` as their owner has them."""
    found = []
    for file in source.files:
        place = root / file.path
        if not place.is_file():
            found.append(Missing(file, "not there"))
            continue
        try:
            with _content(place) as stream:
                is_same = _sha256(stream) == file.sha256
        except (OSError, EOFError) as error:
            found.append(Missing(file, f"cannot be read: {error}"))
            continue
        if not is_same:
            found.append(Missing(file, "not what its owner has (SHA-256)"))
    return found


def fetch(file: SourceFile, root: Path, *, tell: Callable[[str], None] = lambda line: None) -> Path:
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
    parts.mkdir(parents=True, exist_ok=True)
    tell(f"{file.path}: {file.size:,} bytes from {file.url}")
    try:
        arrived = pooch.retrieve(
            file.url, known_hash=f"sha256:{file.sha256}", fname=file.sha256, path=parts,
            downloader=_Resuming(parts / f"{file.sha256}.part", file.size),
        )  # fmt: skip
    except (OSError, ValueError) as error:  # requests' errors are of the first kind
        if isinstance(error, ValueError):  # what arrived is another file
            (parts / f"{file.sha256}.part").unlink(missing_ok=True)
        raise CheckpointError(
            f"{file.path} could not be fetched from {file.url}: {error}; the same command goes on"
        ) from error
    place = root / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(place, force=True) as part, Path(arrived).open("rb") as content:
        if place.suffix == ".gz":
            with part.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
                shutil.copyfileobj(content, packed)
        else:
            with part.open("wb") as plain:
                shutil.copyfileobj(content, plain)
    Path(arrived).unlink()
    (parts / f"{file.sha256}.part").unlink(missing_ok=True)
    if not any(parts.iterdir()):
        parts.rmdir()
    return place


class _Resuming:
    """A downloader of pooch: goes on with what lies in `part`, and takes no more than `size`."""

    def __init__(self, part: Path, size: int) -> None:
        self.part, self.size = part, size

    def __call__(self, url: str, output_file: str, _pooch: Any) -> None:
        import requests

        have = self.part.stat().st_size if self.part.is_file() else 0
        if have < self.size or not have:
            headers = {"Range": f"bytes={have}-"} if have else {}
            with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
                reply.raise_for_status()
                mode = "ab" if reply.status_code == requests.codes.partial_content else "wb"
                with self.part.open(mode) as stream:
                    self._write(reply.iter_content(CHUNK), cast(BinaryIO, stream))
        shutil.copyfile(self.part, output_file)

    def _write(self, chunks: Iterator[bytes], stream: BinaryIO) -> None:
        for chunk in chunks:
            stream.write(chunk)
            if stream.tell() > self.size:
                raise ValueError(f"the address sends more than the {self.size:,} bytes of the file")


def _content(place: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(place) if place.suffix == ".gz" else place.open("rb"))


def _sha256(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
