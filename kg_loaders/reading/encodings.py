"""Text that is not UTF-8: UTF-16 and UTF-32 are seen by their byte-order mark, others are named.

XML names its encoding itself. What is converted is read as UTF-8 from here on; places in it count
the converted bytes.
"""

from __future__ import annotations

import codecs
import re
from itertools import chain

from kg_loaders.errors import SourceError
from kg_loaders.reading.unpacking import Blocks, StreamDamageError

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_KNOWN = re.compile(
    "utf-8|utf-(16|32)(-[lb]e)?|iso8859-[0-9]+|cp[0-9]+|mac-[a-z]+|koi8-[rtu]|gb18030|gbk|gb2312|big5"
    "|shift_jis|euc_(jp|kr)|ascii"
)
N_MARK = 4
"""Bytes of the longest mark."""
_DECLARED = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*<\?xml[^<>]*?\sencoding\s*=\s*[\"']([^\"']*)[\"']", re.DOTALL
)
_START_BYTES = 1024
"""In which the declaration of XML is sought."""
REMEDY = (
    "mend the line, or name the encoding in which the file was written: --encoding latin-1 (or "
    "cp1252, of western Windows; shift_jis, gb18030, cp1251 and others)"
)
"""For a line that is not UTF-8, in commands that take `--encoding`."""


def encoding_name(name: str) -> str:
    """Return Python's name of an encoding; `SourceError` for one that is unknown or no text.

    >>> encoding_name("Latin-1"), encoding_name("windows-1252")
    ('iso8859-1', 'cp1252')
    """
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        known = ""
    if not _KNOWN.fullmatch(known):
        raise SourceError(
            f"encoding {name!r} is not known; write one such as utf-8, utf-16, latin-1 or cp1252"
        )
    return known


def is_utf16(start: bytes) -> bool:
    """Return whether bytes at the start of a file are the byte-order mark of UTF-16."""
    return start.startswith(UTF16_MARKS) and not start.startswith(UTF32_MARKS)


def encoding_of(start: bytes) -> str | None:
    """Return the encoding that a byte-order mark shows; None for UTF-8, and without one.

    >>> encoding_of("a".encode("utf-16")), encoding_of(b"a")
    ('utf-16', None)
    """
    if start.startswith(UTF32_MARKS):
        return "utf-32"
    return "utf-16" if is_utf16(start) else None


def is_other_than_utf8(start: bytes) -> bool:
    """Return whether the first four bytes show UTF-16 or UTF-32, with a mark or without.

    >>> is_other_than_utf8("ab".encode("utf-16-le")), is_other_than_utf8(b"ab")
    (True, False)
    """
    return (encoding_of(start) or _unmarked(start)) is not None


def _unmarked(start: bytes) -> str | None:
    """UTF-16 without a mark: every second byte of the first four is NUL, the others are ASCII."""
    even, odd = start[:N_MARK:2], start[1:N_MARK:2]
    for name, zeros, letters in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if zeros == b"\0\0" and letters.isascii() and b"\0" not in letters:
            return name
    return None


def as_utf8(blocks: Blocks, encoding: str | None = None, file: str = "") -> Blocks:
    """Yield blocks as UTF-8: as they are, save with an `encoding` or a byte-order mark of others.

    Raises `StreamDamageError` where the bytes are none of that encoding, and `SourceError`, which
    names `file`, for UTF-16 without a byte-order mark.
    """
    first: list[bytes] = []
    while sum(map(len, first)) < N_MARK and (block := next(blocks, b"")):
        first.append(block)
        block = b""  # the first blocks may be large: they are held here alone
    if encoding is None:
        start = b"".join(part[:N_MARK] for part in first)[:N_MARK]
        encoding = encoding_of(start)
        if unmarked := _unmarked(start):
            raise SourceError(
                f"{file or 'the file'} is UTF-16 without its byte-order mark; name it: --encoding "
                f"{unmarked}, or convert it (iconv -f {unmarked} -t utf-8)"
            )
    if encoding is None or encoding_name(encoding) == "utf-8":
        first.reverse()
        while first:
            yield first.pop()
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    n_in = 0
    try:
        for block in chain(first, blocks):
            if data := decoder.decode(block).encode():
                yield data
            n_in += len(block)
        if data := decoder.decode(b"", final=True).encode():
            yield data
    except UnicodeError as error:
        raise StreamDamageError(f"not {encoding} near byte {n_in}: {error.args[-1]}") from error


def document_as_utf8(blocks: Blocks) -> Blocks:
    """Yield blocks of a document as UTF-8: by a byte-order mark, or as XML declares.

    The declaration says UTF-8 then. An encoding that is unknown is left to the parser.

    >>> latin = '<?xml version="1.0" encoding="ISO-8859-1"?><a>\u00e9</a>'.encode("latin-1")
    >>> b"".join(document_as_utf8(iter([latin]))).decode()
    '<?xml version="1.0" encoding="UTF-8"?><a>\u00e9</a>'
    """
    start, rest = _start(blocks)
    encoding = encoding_of(start) or _unmarked(start)
    if encoding is None and (declared := _DECLARED.match(start)):
        encoding = _declared_name(declared[1])
    if encoding is None:
        yield from rest
        return
    start, converted = _start(as_utf8(rest, encoding))
    if declared := _DECLARED.match(start):
        yield start[: declared.start(1)] + b"UTF-8" + start[declared.end(1) :]
        next(converted)
    yield from converted


def _start(blocks: Blocks) -> tuple[bytes, Blocks]:
    """The first bytes of blocks, at least `_START_BYTES` of them if there are; and all of them.

    Damage behind the start is raised when it is come to.
    """
    start = b""
    damage: StreamDamageError | None = None
    try:
        while len(start) < _START_BYTES and (block := next(blocks, b"")):
            start += block
    except StreamDamageError as error:
        damage = error
    return start, _again(start, blocks, damage)


def _again(start: bytes, blocks: Blocks, damage: StreamDamageError | None) -> Blocks:
    if start:
        yield start
    if damage is not None:
        raise damage
    yield from blocks


def _declared_name(name: bytes) -> str | None:
    """Python's name of a declared encoding that is to be converted; None for UTF-8 and others."""
    try:
        known = encoding_name(name.decode("ascii", "replace").strip())
    except SourceError:
        return None
    return None if known in ("utf-8", "ascii") or known.startswith(("utf-16", "utf-32")) else known
