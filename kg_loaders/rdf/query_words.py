"""The words of a SPARQL query outside of names, texts and comments: to refuse some of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\''
    r'|"(?:[^"\\\n\r]|\\.)*"|\'(?:[^\'\\\n\r]|\\.)*\''
    r'|<[^<>"{}|^`\\\x00-\x20]*>|#[^\n\r]*'
    r"|(?:\w(?:[\w.-]*[\w-])?)?:(?:(?:[\w:-]|%[0-9A-Fa-f]{2}|\\[^\s\w])"
    r"(?:(?:[\w.:-]|%[0-9A-Fa-f]{2}|\\[^\s\w])*(?:[\w:-]|%[0-9A-Fa-f]{2}|\\[^\s\w]))?)?"
    r"|[?$]\w+|@[A-Za-z][A-Za-z0-9-]*|(?P<word>[A-Za-z_]\w*)|\s+|.",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "COPY", "MOVE", "ADD", "WITH")


def words_of(query: str) -> Iterator[str]:
    """Yield the words of a query in upper case, in their order.

    Characters that are written by their number (SPARQL 1.1, 19.2) are read first.

    >>> list(words_of("SELECT ?service { ?x kg:FROM 'SERVICE' } # FROM"))
    ['SELECT']
    """
    plain = _ESCAPE.sub(_character, query)
    for token in _TOKEN.finditer(plain):
        if token["word"]:
            yield token["word"].upper()


def _character(escape: re.Match[str]) -> str:
    number = int(escape[1] or escape[2], 16)
    return chr(number) if number <= 0x10FFFF else escape[0]
