"""Blocks of bytes in another encoding, cut anywhere, as UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import pytest

from kg_loaders.errors import SourceError
from kg_loaders.reading.encodings import as_utf8, encoding_name, is_utf16
from kg_loaders.reading.unpacking import StreamDamageError

TEXT = "Zürich\nŁódź 日本\n"


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    return iter([data[i : i + size] for i in range(0, len(data), size)])


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("encoding", "stated_encoding"),
    [("utf-8", None), ("utf-8", "utf8"), ("utf-16", None), ("utf-16-be", "utf-16-be"),
     ("gb18030", "gb18030")],
)  # fmt: skip
def test_text_is_read_whatever_its_blocks(
    encoding: str, stated_encoding: str | None, size: int
) -> None:
    read = list(as_utf8(blocks(TEXT.encode(encoding), size), stated_encoding))
    assert b"".join(read).decode().removeprefix("\ufeff") == TEXT
    assert all(read), "no block is empty"


def test_utf16_and_utf32_are_seen_by_their_marks() -> None:
    assert is_utf16(codecs.BOM_UTF16_LE + b"a\0")
    assert is_utf16(codecs.BOM_UTF16_BE)
    assert not is_utf16(codecs.BOM_UTF32_LE)
    assert not is_utf16(b"plain")
    data = TEXT.encode("utf-32")
    assert b"".join(as_utf8(blocks(data, 1))).decode() == TEXT, "it has a mark of its own"


def test_utf8_is_handed_on_as_it_comes() -> None:
    data = [b"ab", b"cd", b"efgh", b"\xff\xfe"]
    assert list(as_utf8(iter(data))) == data
    assert list(as_utf8(iter([]))) == []


@pytest.mark.parametrize(
    ("name", "known"),
    [("Latin-1", "iso8859-1"), ("windows-1252", "cp1252"), ("UTF8", "utf-8"), ("u16", "utf-16"),
     ("koi8-r", "koi8-r"), ("sjis", "shift_jis"), ("us-ascii", "ascii")],
)  # fmt: skip
def test_names_of_encodings(name: str, known: str) -> None:
    assert encoding_name(name) == known


@pytest.mark.parametrize("name", ["latin-x", "rot13", "base64", "a\0b", "idna", ""])
def test_what_is_no_encoding_of_text(name: str) -> None:
    with pytest.raises(SourceError, match="write one such as utf-8"):
        encoding_name(name)


def test_bytes_of_another_encoding_are_an_error_that_says_where() -> None:
    good = "ab".encode("utf-16-le")
    data = [good, b"\x00\xd8\x00\x00"]
    with pytest.raises(StreamDamageError, match="not utf-16-le near byte 4"):
        list(as_utf8(iter(data), "utf-16-le"))
    with pytest.raises(StreamDamageError, match="not utf-16-le near byte 5: truncated"):
        list(as_utf8(iter([good, b"c"]), "utf-16-le"))
