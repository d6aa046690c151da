"""Literals in cells of KGTK and YAGO tables, which stand beside names of entities.

KGTK (Ilievski et al. 2020, "KGTK: A Toolkit for Large Knowledge Graph Manipulation"): `'text'@en`,
`"text"`, `+5`, `3.1Q11573`, `^1952-03-11T00:00:00Z/11`, `@45.0/5.0`, `True`. YAGO 2 and 3 (TSV):
`"text"@eng`, `"5"^^xsd:integer`; names stand in angle brackets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kg_loaders.records import TextKind

TEXT_RELATIONS: Mapping[str, TextKind] = {
    "label": TextKind.LABEL, "rdfs:label": TextKind.LABEL, "skos:prefLabel": TextKind.LABEL,
    "alias": TextKind.ALIAS, "skos:altLabel": TextKind.ALIAS,
    "description": TextKind.DESCRIPTION, "rdfs:comment": TextKind.DESCRIPTION,
    "hasGloss": TextKind.DESCRIPTION, "schema:description": TextKind.DESCRIPTION,
}  # fmt: skip
"""Relations of KGTK and YAGO whose literals are texts about their head."""
NO_PLACE = "a value that is not an entity (date, number, string)"

_KGTK_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'@([a-zA-Z]{2,8}(?:-[a-zA-Z0-9-]+)?)", re.DOTALL)
_KGTK_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_KGTK_VALUE = re.compile(r"[+-]?(?:[0-9]|\.[0-9]).*|\^.*|@[+-]?[0-9.]+/[+-]?[0-9.]+|True|False")
_YAGO_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([a-zA-Z-]+)|\^\^(\S+))?', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Literal(NamedTuple):
    """A value that is not an entity; `text` is "" for what is not text in a language."""

    text: str
    language: str = ""


def kgtk_value(cell: str) -> str | Literal:
    """Return a cell as a name, or as the literal that it writes.

    >>> kgtk_value("Q5"), kgtk_value("'Ada Korr'@en"), kgtk_value("+5")
    ('Q5', Literal(text='Ada Korr', language='en'), Literal(text='', language=''))
    """
    if match := _KGTK_TEXT.fullmatch(cell):
        return Literal(_unescaped(match[1]), match[2])
    if match := _KGTK_STRING.fullmatch(cell):
        return Literal(_unescaped(match[1]))
    return Literal("") if _KGTK_VALUE.fullmatch(cell) else cell


def yago_value(cell: str) -> str | Literal:
    """Return a cell as a name without its angle brackets, or as the literal that it writes.

    >>> yago_value("<Weir>"), yago_value('"Weir"@eng')
    ('Weir', Literal(text='Weir', language='eng'))
    """
    if cell.startswith("<") and cell.endswith(">") and len(cell) > 2:
        return cell[1:-1]
    if match := _YAGO_TEXT.fullmatch(cell):
        is_string = match[3] in (None, "xsd:string")
        return Literal(_unescaped(match[1]) if is_string else "", match[2] or "")
    return cell


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)
