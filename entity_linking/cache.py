"""`CachedLinker`: what a linker said about a text is computed once.

Results lie in one SQLite file in WAL mode. That is in the standard library, readers never wait for
a writer, a write is whole or not there, and one index finds any of millions of texts; files in
shards would need a lock or a merge for the same. WAL needs a local disk, not a network share. A
connection lives for one call, so a linker may be used after a fork and from several threads.

A result's key is the BLAKE2 hash of *what is asked* (the text, for given mentions also their
places) and of `key`, which names the linker: `fingerprint` makes it from the graph's content hash
and the settings. The file is bounded by `max_texts`; the results that were written first go first,
so that a hit writes nothing. Every result carries its own checksum, as SQLite keeps none.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, is_dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import msgspec

from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.mentions import LinkedText, require_texts
from entity_linking.parts import Disambiguator
from kg_loaders.disk.writing import whole_file
from kg_loaders.errors import ExistsError

FILE_NAME = "links.sqlite"
APPLICATION_ID = 0x6B657074  # "kept", in SQLite's header
CACHE_VERSION = 1
WAIT_SECONDS = 60.0
KEYS_PER_QUERY = 500
CHECK_BYTES = 16
SCHEMA = """
CREATE TABLE result (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)
"""

Work = Callable[[Sequence[Any]], list[LinkedText]]


def fingerprint(graph_hash: str, settings: Any) -> str:
    """Names a linker: the graph's content hash, its settings and the version of this package.

    `settings` is a dataclass or a mapping of what JSON can say. Two linkers with one fingerprint
    say the same of every text; a folder that a setting only names (an index, a model) must
    therefore stand in the settings with its own hash.
    """
    options = (
        asdict(settings) if is_dataclass(settings) and not isinstance(settings, type) else None
    )
    values = cast(Mapping[str, Any], settings if options is None else options)
    try:
        written = msgspec.json.encode(
            [CACHE_VERSION, version("kept"), graph_hash, dict(values)], order="deterministic"
        )
    except TypeError as error:
        raise LinkingError(f"settings {settings!r} cannot be written as JSON: {error}") from error
    return hashlib.blake2b(written, digest_size=20).hexdigest()


class CachedLinker:
    """`linker`, asked only for texts that the cache in `folder` does not hold under `key`.

    Hits equal what the linker returned, ids of given texts excepted: they are those of the caller.
    `hits` and `misses` count texts since it was made. Several processes may share a folder, and
    several linkers with different keys. A damaged file is a `LinkIndexError`, never a miss.
    """

    def __init__(
        self, linker: Disambiguator, folder: str | Path, key: str, *, max_texts: int = 1_000_000
    ) -> None:
        if max_texts < 1:
            raise LinkingError(f"max_texts is {max_texts}; give 1 or more")
        if not key:
            raise LinkingError("the key of a cache is empty; `fingerprint` makes one")
        self._linker, self._max_texts = linker, max_texts
        self._salt = hashlib.blake2b(key.encode(), digest_size=32).digest()
        self._file = Path(folder) / FILE_NAME
        self.hits = self.misses = 0
        _create(self._file)

    def __repr__(self) -> str:
        return f"CachedLinker({self._linker!r}, {str(self._file)!r})"

    @property
    def linker(self) -> Disambiguator:
        """The linker behind the cache."""
        return self._linker

    def __len__(self) -> int:
        """Results in the file, of all linkers that share it."""
        with self._open() as database:
            return int(database.execute("SELECT count(*) FROM result").fetchone()[0])

    def clear(self) -> None:
        """Forget every result in the folder, also those of other linkers."""
        with self._open() as database:
            database.execute("DELETE FROM result")
            database.commit()
            database.execute("VACUUM")

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order."""
        require_texts(texts)
        return self._answer(texts, [b"t" + _bytes(text) for text in texts], self._linker.link)

    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The same mentions with the linker's choices."""
        keys = []
        for text in texts:
            spans = [(link.mention.start, link.mention.end) for link in text.links]
            keys.append(b"m" + msgspec.msgpack.encode((_bytes(text.text), spans, text.pair_start)))
        answers = self._answer(texts, keys, self._linker.disambiguate)
        return [replace(linked, id=text.id) for linked, text in zip(answers, texts, strict=True)]

    def _answer(
        self, texts: Sequence[Any], inputs: Sequence[bytes], work: Work
    ) -> list[LinkedText]:
        keys = [hashlib.blake2b(each, key=self._salt, digest_size=20).digest() for each in inputs]
        with self._open() as database:
            known = self._read(database, list(dict.fromkeys(keys)))
        new = {key: i for i, key in enumerate(keys) if key not in known}
        self.hits += sum(key in known for key in keys)
        self.misses += sum(key not in known for key in keys)
        if new:
            computed = dict(zip(new, work([texts[i] for i in new.values()]), strict=True))
            with self._open() as database:
                self._write(database, computed)
            known |= computed
        return [known[key] for key in keys]

    def _read(self, database: sqlite3.Connection, keys: list[bytes]) -> dict[bytes, LinkedText]:
        cached: dict[bytes, LinkedText] = {}
        for start in range(0, len(keys), KEYS_PER_QUERY):
            part = keys[start : start + KEYS_PER_QUERY]
            query = f"SELECT key, value FROM result WHERE key IN ({','.join('?' * len(part))})"
            for key, value in database.execute(query, part):
                cached[key] = self._decode(key, value)
        return cached

    def _decode(self, key: bytes, value: bytes) -> LinkedText:
        check, packed = value[:CHECK_BYTES], value[CHECK_BYTES:]
        if check != _checksum(key, packed):
            raise _damaged(self._file, f"the checksum of result {key.hex()} is wrong")
        try:
            return msgspec.msgpack.decode(packed, type=LinkedText)
        except msgspec.DecodeError as error:
            raise _damaged(self._file, f"result {key.hex()} does not decode: {error}") from error

    def _write(self, database: sqlite3.Connection, answers: Mapping[bytes, LinkedText]) -> None:
        rows = []
        for key, linked in answers.items():
            packed = msgspec.msgpack.encode(linked)
            rows.append((key, _checksum(key, packed) + packed))
        with database:  # one transaction
            database.executemany("INSERT OR IGNORE INTO result (key, value) VALUES (?, ?)", rows)
            database.execute(
                "DELETE FROM result WHERE number <= (SELECT max(number) FROM result) - ?",
                (self._max_texts,),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with _connection(self._file) as database:
            _check(database, self._file)
            yield database


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _checksum(key: bytes, packed: bytes) -> bytes:
    return hashlib.blake2b(key + packed, digest_size=CHECK_BYTES).digest()


def _damaged(file: Path, reason: str) -> LinkIndexError:
    return LinkIndexError(
        f"{file}: {reason}; it holds nothing that cannot be computed again: delete it together "
        f"with {file.name}-wal and {file.name}-shm"
    )


@contextmanager
def _connection(file: Path) -> Iterator[sqlite3.Connection]:
    """Opens an existing file; an error of SQLite's names the file and the remedy."""
    try:
        uri = f"{file.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, timeout=WAIT_SECONDS, uri=True)) as database:
            database.execute("PRAGMA synchronous = NORMAL")
            yield database
    except sqlite3.OperationalError as error:
        raise LinkIndexError(
            f"{file}: {error}; make sure that the file is there, that the disk is local, writable "
            f"and not full, and that no process has held it for {WAIT_SECONDS:.0f} s"
        ) from error
    except sqlite3.DatabaseError as error:
        raise _damaged(file, str(error)) from error


def _check(database: sqlite3.Connection, file: Path) -> None:
    identity = database.execute("PRAGMA application_id").fetchone()[0]
    format_version = database.execute("PRAGMA user_version").fetchone()[0]
    if identity != APPLICATION_ID:
        raise LinkIndexError(f"{file} is not a cache of links; give another folder")
    if format_version != CACHE_VERSION:
        raise _damaged(file, f"format version {format_version}, this program reads {CACHE_VERSION}")


def _create(file: Path) -> None:
    """The empty file, whole or not there, by whichever process comes first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with (
        suppress(ExistsError),
        whole_file(file, wait=WAIT_SECONDS) as part,
        closing(sqlite3.connect(part)) as database,
    ):
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(SCHEMA)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {CACHE_VERSION}")
        database.commit()
