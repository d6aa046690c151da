"""The columns of a table of texts: `--labels`, `--aliases`, `--descriptions`, `--types`.

Without a header they are what the option says. A header names them, in any order; what it names is
read, whatever the option: a column `type` of a file of labels holds types. The option decides what
a column is that is only called a name: in a file of aliases, `id, name` are aliases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kg_loaders.errors import SourceError
from kg_loaders.formats.field_names import COUNTS, IDS, SURE_IDS, TEXTS, first_of, plain_name
from kg_loaders.formats.tables.layout import (
    Header,
    is_field_name,
    left_out,
    looks_like_header,
    recurs,
    row_text,
)
from kg_loaders.records import TextKind

KINDS = {
    "label": TextKind.LABEL,
    "alias": TextKind.ALIAS,
    "description": TextKind.DESCRIPTION,
    "type": TextKind.TYPE,
}
"""What a column can be called in an option; there are `count` and `-`, too."""
LEFT_OUT = "-"


@dataclass(frozen=True, slots=True)
class TextColumns:
    """What the fields after the identifier are, and where the identifier and they are.

    `places` are columns of a row, the identifier's first; none where that is the first and the
    others follow it.
    """

    columns: tuple[str, ...]
    places: tuple[int, ...] = ()
    has_header: bool = False


def text_columns(
    rows: Sequence[Sequence[str]],
    columns: Sequence[str],
    file: str,
    *,
    header: Header = "auto",
    notes: list[str] | None = None,
) -> TextColumns:
    """Return the columns of a table that begins with `rows`; `columns` are those without a header.

    Raises `SourceError` for a first row that names an identifier and no text. What a reader should
    know is appended to `notes`.

    >>> text_columns([["name", "id"], ["Weir", "n1"]], ["label"], "x").places
    (1, 0)
    """
    notes = [] if notes is None else notes
    positional = TextColumns(tuple(columns))
    if header == "no" or not rows:
        return positional
    first = rows[0]
    named = _by_names(first, columns)
    is_header = named is not None and (
        header == "yes" or _id_name(first) in SURE_IDS or not recurs(rows)
    )
    if named is not None and is_header and len({*map(str.strip, first)}) == len(first):
        places = named.places[1:] or range(1, len(first))
        unused = [
            first[position]
            for position, name in zip(places, named.columns, strict=True)
            if name == LEFT_OUT
        ]
        if unused:
            notes.append(left_out(file, unused))
        if named.columns == positional.columns[: len(named.columns)] and not named.places:
            return TextColumns(positional.columns, has_header=True)
        return named
    if header == "yes":
        return TextColumns(tuple(columns), has_header=True)
    is_node = plain_name(first[0]) in SURE_IDS and len({*first}) == len(first) > 1
    if is_node and not recurs(rows) and all(map(is_field_name, first)):
        known = ", ".join(dict.fromkeys(names[0] for names in TEXTS.values()))
        raise SourceError(
            f"{file}: the first row, {row_text(first)}, names an identifier ({first[0]!r}) "
            f"but none "
            f"of the texts {known}; rename a column, or say --header yes (the columns are "
            f"id, {', '.join(columns)}) or --header no (it is a text)"
        )
    if looks_like_header(rows):
        notes.append(
            f"{file}: its first row, {row_text(first)}, was read as a text, and looks like a "
            f"header: "
            "if it is one, say --header yes"
        )
    return positional


def _id_name(header: Sequence[str]) -> str:
    node = first_of(IDS, {plain_name(name): position for position, name in enumerate(header)})
    return node[0] if node else ""


def _by_names(header: Sequence[str], columns: Sequence[str]) -> TextColumns | None:
    """The columns that a row names, None unless it names an identifier and a text."""
    plain = [plain_name(name) for name in header]
    known = _id_name(header)
    if not known:
        return None
    node = plain.index(known)
    default = columns[0]
    has_own = any(name in TEXTS[KINDS[default]] for name in plain) if default in KINDS else True
    kinds: list[str] = []
    places = [position for position in range(len(header)) if position != node]
    for position in places:
        kinds.append(_column_of(plain[position], kinds, default, has_own))
    if not {*kinds} & KINDS.keys():
        return None
    return TextColumns(tuple(kinds), (node, *places) if node else (), has_header=True)


def _column_of(name: str, before: Sequence[str], default: str, has_own: bool) -> str:
    """What a column is that is called `name`, with what those before it are."""
    if name in COUNTS and before and before[-1] == "alias":
        return "count"
    kind = next((word for word, kind in KINDS.items() if name in TEXTS[kind]), LEFT_OUT)
    if default in KINDS and name in TEXTS[KINDS[default]]:
        return default
    return default if kind == "label" and not has_own and default not in before else kind
