"""Bases of relative IRIs with `.` and `..` in them, which the RDF parsers resolve wrongly.

RFC 3986, section 5.2.4, takes such segments out of base and reference together; pyoxigraph and
rdflib take them out of the reference alone: `../s` on `http://e/a/b/../c/` gives `http://e/a/b/../s`,
not `http://e/a/s`. A relative base is resolved before it is used, so it is harmless.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pyoxigraph as ox

from kg_loaders.errors import SourceError
from kg_loaders.rdf.nesting import expanded

DEFAULT_BASE = "http://kept.invalid/"
"""What relative IRIs are relative to where neither the file nor its user names a base: the same for
all files, wherever they lie, and an address that no one can have (RFC 2606)."""
MOST_BYTES = 8192
"""Of a declaration that falls on two blocks."""
_JSON = re.compile(rb'"@base"\s*:\s*("(?:[^"\\]|\\.)*")')
_XML = re.compile(rb"""xml:base\s*=\s*["']([^"'<>]*)["']""")
_TURTLE = re.compile(rb"(?i:base)\s*<([^<>\"{}|^`\x00-\x20]*)>")
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|//)")


def has_dot_segments(iri: str) -> bool:
    """Whether an IRI that is not relative has the segment `.` or `..` in its path.

    >>> has_dot_segments("http://e/a/../c"), has_dot_segments("http://e/a..b/?/../")
    (True, False)
    """
    path = re.split("[?#]", iri, maxsplit=1)[0]
    return bool(_ABSOLUTE.match(iri)) and not {".", ".."}.isdisjoint(re.split("[/:]", path))


def require_no_dot_segments(path: Path, iri: str, what: str) -> None:
    """Raise `SourceError` for a base that the parsers would resolve wrongly."""
    if has_dot_segments(iri):
        resolved = urljoin(iri, urlsplit(iri).path)
        example = f", as {resolved}" if _ABSOLUTE.match(resolved) else ""
        raise SourceError(
            f"{path}: {what} {iri!r} has the segments . or .. in it, from which the parser makes "
            f"other IRIs than RFC 3986; write it without them{example}"
        )


class BaseWatch:
    """Looks at what a parser is about to read for a base that it would resolve wrongly.

    In Turtle, TriG and N3 a comment or a text may look like one.
    """

    def __init__(self, format: str) -> None:
        self._pattern = {"json": _JSON, "xml": _XML, "turtle": _TURTLE}[format]
        self._last = b""
        self.base = ""

    def see(self, data: bytes) -> None:
        """Take the next bytes; `found` is the first such base, or ""."""
        if self.base:
            return
        seen = self._last + data
        bases = (_text(match[1]) for match in self._pattern.finditer(seen))
        self.base = next((base for base in bases if has_dot_segments(base)), "")
        self._last = seen[-MOST_BYTES:]


def dotted_base_of_xml(data: bytes | mmap.mmap, entities: Mapping[bytes, bytes]) -> str:
    """Return the first base of XML that is dotted once its entities are in their places, or ""."""
    bases = (_text(expanded(match[1], entities)) for match in _XML.finditer(data))
    return next((base for base in bases if has_dot_segments(base)), "")


def require_base(iri: str) -> str:
    """Return an IRI that relative ones can be relative to; raise `SourceError` for another text.

    >>> require_base("http://a.example/x")
    'http://a.example/x'
    """
    try:
        ox.NamedNode(iri)
        is_one = bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", iri))
    except ValueError:
        is_one = False
    if not is_one:
        raise SourceError(
            f"the base {iri!r} is not an absolute IRI with a path; give one such as {DEFAULT_BASE}"
        )
    return iri


def _text(raw: bytes) -> str:
    """The base itself; a quoted one is JSON, and "" where that is malformed."""
    text = raw.decode("utf-8", "replace")
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        return ""
