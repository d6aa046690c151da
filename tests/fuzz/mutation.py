"""Bytes spoilt at random: what a disk, a network or an ill-meaning person makes of a file."""

from __future__ import annotations

from random import Random

TOKENS = (
    b"", b"\0", b"\n", b"\r\n", b"\t", b" ", b'"', b"'", b"\\", b"\xff", b"\xed\xa0\x80", b"\xe2",
    b"\xef\xbb\xbf", b"[", b"]", b"{", b"}", b"(", b")", b"<", b">", b"<<(", b")>>", b"</", b"/>",
    b",", b":", b".", b"#", b"-1", b"0", b"00", b"1e999", b"NaN", b"2147483648", b"9" * 30,
    b"9" * 5000, b"null", b"true", b"[[]]", b"{}", b'""', b"\\ud800", b"\\u0000", b"&a;", b"../",
    b"<!ENTITY a 'b'>", b"<![CDATA[", b"<!--", b"@base <a:/../> .", b"_:b", b"\x1b[31m", b"%00",
    b"\xc2\x85",
)  # fmt: skip
MOST_BYTES = 1 << 16


def mutated(data: bytes, other: bytes, random: Random) -> bytes:
    """`data` after one to eight edits, at most `MOST_BYTES` long; `other` lends pieces."""
    edited = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        _edit(edited, other, random)
    return bytes(edited[:MOST_BYTES])


def _edit(data: bytearray, other: bytes, random: Random) -> None:
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((0, 1, 1, 2, 4, 16, 64)))
    kind = random.randrange(8)
    if kind == 0 and data:
        data[start % len(data)] ^= 1 << random.randrange(8)
    elif kind == 1 and data:
        data[start % len(data)] = random.randrange(256)
    elif kind == 2:
        del data[start:]
    elif kind == 3:
        del data[start:end]
    elif kind == 4:
        data[start:start] = data[start:end] * random.choice((1, 2, 30, 300))
    elif kind == 5:
        offset = random.randrange(len(other) + 1)
        data[start:end] = other[offset : offset + random.choice((1, 8, 64, 512))]
    elif kind == 6:
        data[start:end] = random.choice(TOKENS) * random.choice((1, 1, 1, 2, 300))
    else:
        data[start:end] = random.choice(TOKENS)
