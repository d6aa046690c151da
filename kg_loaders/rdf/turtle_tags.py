"""Language tags of Turtle, TriG, N3 and N-Triples, made normal before their parser reads them.

A parser refuses the whole statement of a tag that is none, such as `"colour"@en_US`. Here such a
tag becomes the normal one (`en-us`), or `BAD_TAG`, which costs the literal alone. Only tags behind
a string are tags: text within strings, IRIs and comments stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kg_loaders.reading.languages import language_tag

BAD_TAG = "x-badtag"
"""What stands for a malformed language tag before a parser that takes none."""
MOST_HELD = 1 << 24
"""Bytes of a string that may be held back until it ends."""

_SIMPLE = rb"@[A-Za-z]{2,3}(?:-[A-Za-z]{2}|-[A-Za-z]{4})?+(?![\w-])"
_STRING = (
    rb'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+"""|'
    rb"'''(?:[^'\\]++|\\[\s\S]|'(?!''))*+'''|"
    rb'(?!""")"(?:[^"\\\n\r]++|\\.)*+"|'
    rb"(?!''')'(?:[^'\\\n\r]++|\\.)*+'"
)
_PLAIN = re.compile(
    rb"(?:[^\"'<#]++|<[^<>\"\s]*+>|<|#[^\n\r]*+|(?:" + _STRING + rb")(?:" + _SIMPLE + rb"|(?!@)))*+"
)
"""All up to a string whose tag has to be looked at, or that is not ended."""
_TAGGED = re.compile(rb"(" + _STRING + rb")@([^\s,;.)\]}<>\"'#^]*+)")
_CANDIDATE = re.compile(rb"[\"']@(?!" + _SIMPLE[1:] + rb")")
_DIRECTION = re.compile(r"--(?:ltr|rtl)$")


def with_normal_tags(blocks: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield the same document with normal language tags.

    >>> list(with_normal_tags([b'<a:a> <a:b> "x"@en_', b'US , "y"@e\n.', b'# "z"@e_e']))
    [b'<a:a> <a:b> "x"@en-us , "y"@x-badtag\n', b'.# "z"@e_e']
    """
    held = b""
    for block in blocks:
        data = held + block
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut and len(data) <= MOST_HELD:
            held = data
            continue
        cut = cut or len(data)
        done, held = _normal(data[:cut])
        if len(held) > MOST_HELD:
            done, held = done + held, b""
        held += data[cut:]
        if done:
            yield done
    done, held = _normal(held)
    if done or held:
        yield done + held


def _normal(data: bytes) -> tuple[bytes, bytes]:
    """Return whole lines with normal tags, and what begins a string that they do not end."""
    if _CANDIDATE.search(data) is None and b'"""' not in data and b"'''" not in data:
        return data, b""
    parts, start = [], 0
    while True:
        plain = _PLAIN.match(data, start)
        end = plain.end() if plain else start
        parts.append(data[start:end])
        if end == len(data):
            return b"".join(parts), b""
        tagged = _TAGGED.match(data, end)
        if tagged is not None:
            parts.append(tagged[1] + b"@" + _normal_tag(tagged[2]))
            start = tagged.end()
        elif data.startswith((b'"""', b"'''"), end):
            return b"".join(parts), data[end:]
        else:  # a quotation mark without another in its line
            parts.append(data[end : end + 1])
            start = end + 1


def _normal_tag(written: bytes) -> bytes:
    text = written.decode("utf-8", "replace")
    direction = _DIRECTION.search(text)
    text = text.removesuffix(direction[0]) if direction else text
    normal = language_tag(text)
    if normal is None:
        return BAD_TAG.encode()
    return written if normal == text.lower() else normal.encode()
