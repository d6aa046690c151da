"""Text that is not UTF-8: UTF-16 is seen by its byte-order mark, other encodings are named.

What is converted is read as UTF-8 from here on; places in it count the converted bytes.
"""

from __future__ import annotations

import codecs
import re
from itertools import chain

from kg_loaders.errors import SourceError
from kg_loaders.reading.unpacking import Blocks, StreamDamageError

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF32_LE = codecs.BOM_UTF32_LE
_KNOWN = re.compile(
    "utf-8|utf-16(-[lb]e)?|iso8859-[0-9]+|cp[0-9]+|mac-[a-z]+|koi8-[rtu]|gb18030|gbk|gb2312|big5"
    "|shift_jis|euc_(jp|kr)|ascii"
)
REMEDY = (
    "mend the line, or, if the file was written in Latin-1 or Windows-1252, name that: "
    "--encoding latin-1 (or cp1252)"
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
    return start.startswith(UTF16_MARKS) and not start.startswith(_UTF32_LE)


def as_utf8(blocks: Blocks, encoding: str | None = None) -> Blocks:
    """Yield blocks as UTF-8: as they are, save with an `encoding` or UTF-16's byte-order mark.

    Raises `StreamDamageError` where the bytes are none of that encoding.
    """
    first: list[bytes] = []
    while sum(map(len, first)) < len(_UTF32_LE) and (block := next(blocks, b"")):
        first.append(block)
        block = b""  # the first blocks may be large: they are held here alone
    if encoding is None and is_utf16(b"".join(part[:4] for part in first)):
        encoding = "utf-16"
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
