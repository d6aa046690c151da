r"""OBO, the line format of biomedical ontologies (version 1.2 and 1.4).

    name, synonym, def        LABEL, ALIAS, DESCRIPTION; of a [Typedef] texts of the relation
    namespace                 TYPE; `default-namespace` of the header for terms without one
    is_obsolete: true         TYPE `kg_loaders.records.DEPRECATED`, as in RDF
    is_a, instance_of, ...    a triple; the tag is the relation (`REFERENCES`)
    relationship: R X         a triple; so is `intersection_of: R X`, and `intersection_of: X` is
                              `is_a X`: a term lies in each part of the intersection that defines it
    property_value: R X       a triple, unless the value is a literal

Everything else (xref, alt_id, subset, comment, what a [Typedef] says of other relations) is counted
by its tag and left out. Escapes (`\n`, `\W`, `\"`, `\:`), trailing `{modifiers}` and `! comments`
are taken off; in running text a `!` begins a comment only after a blank. A line that ends in a
backslash goes on in the next one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.lines import read_lines
from kg_loaders.records import DEPRECATED, Record, Text, TextKind, Triple

SCOPES = ("EXACT", "NARROW", "BROAD", "RELATED")
"""What a synonym is to the name of its term; RELATED where the file does not say."""
REFERENCES = frozenset(
    {"is_a", "instance_of", "disjoint_from", "equivalent_to", "replaced_by", "consider"}
)
"""Tags whose value is a term; each is a relation."""
_OLD_SYNONYMS = {f"{scope.lower()}_synonym": scope for scope in SCOPES}
"""Tags of version 1.0."""
_STANZA = re.compile(r"\[([A-Za-z][\w-]{0,40})\][ \t]*(?:!.*)?")
_CLAUSE = re.compile(r"([A-Za-z_][\w-]{0,40}):[ \t]*(.*)")
_ESCAPE = re.compile(r"\\(.)")
_CHARACTERS = {"n": "\n", "t": "\t", "W": " "}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"[ \t]*(.*)')
_MODIFIERS = r"(?:\{(?:\"(?:[^\"\\]|\\.)*+\"|[^\"{}\\]|\\.)*+\}[ \t]*)?"
_ID = r"(?:[^\s\\\"{!\[]|\\.)(?:[^\s\\]|\\.)*+"
_IDS = re.compile(rf"({_ID})(?:[ \t]+({_ID}))?[ \t]*{_MODIFIERS}(?:!.*)?")
_SCOPE = re.compile(r"(?:([A-Z]+)\b)?.*")
_TEXT_COMMENT = re.compile(r"(?:^|(?<=[ \t]))!.*")
_TEXT_MODIFIERS = re.compile(r"(?:^|(?<=[ \t]))\{(?:[\w.:-]+[ \t]*=[^{}]*)?\}[ \t]*$")


def read(
    path: str | Path, report: DamageReport, *, synonyms: Collection[str] = SCOPES
) -> Iterator[Record]:
    """Return the triples and texts of an OBO file; `synonyms` are the scopes that are aliases.

    Raises `SourceError` for another scope than those of `SCOPES`.
    """
    if unknown := [scope for scope in synonyms if scope not in SCOPES]:
        raise SourceError(f"synonyms: {unknown[0]!r} is none of {', '.join(SCOPES)}")
    stanza = _Stanza(report, frozenset(synonyms))
    for number, offset, line in _whole_lines(path, report):
        text = line.strip()
        if not text:
            report.n_blank += 1
        elif text.startswith("!"):
            report.n_comment += 1
        else:
            if text.startswith("["):
                yield from stanza.end()
            try:
                yield from stanza.records(text)
            except ValueError as error:
                report.reject(str(path), number, offset, str(error), line.encode())
    yield from stanza.end()


def _whole_lines(path: str | Path, report: DamageReport) -> Iterator[tuple[int, int, str]]:
    """Lines, with those that end in a backslash joined to the next."""
    start: tuple[int, int, str] | None = None
    for number, offset, line in read_lines(path, report):
        text = line.decode()
        if start is not None:
            number, offset, text = start[0], start[1], start[2] + text.lstrip()
        start = None
        if (len(text) - len(text.rstrip("\\"))) % 2:
            start = number, offset, text[:-1]
            report.skip("line that goes on in the next")
        else:
            yield number, offset, text
    if start is not None:
        report.n_lines += 1  # as if an empty line followed
        yield start


class _Stanza:
    """The stanza that is being read: before the first one, the header."""

    def __init__(self, report: DamageReport, synonyms: frozenset[str]) -> None:
        self._report, self._synonyms = report, synonyms
        self._kind, self._id, self._default = "", "", ""
        self._has_namespace = False

    def records(self, line: str) -> list[Record]:
        """The records of a line, counted; ValueError says what is wrong with it."""
        if line.startswith("["):
            self._id, self._kind, self._has_namespace = "", "?", False
            match = _STANZA.fullmatch(line)
            if match is None:
                raise ValueError("not `[Term]` or another heading of a stanza")
            self._kind = match[1]
            return self._left_out("heading of a stanza")
        match = _CLAUSE.fullmatch(line)
        if match is None:
            raise ValueError("not `tag: value`")
        tag, value = match.groups()
        if not self._kind:
            if tag == "default-namespace":
                self._default = _plain(value)
            return self._left_out("line of the header")
        if tag == "id":
            self._id = _ids(value)[0]
            return self._left_out("id of a stanza")
        if not self._id:
            raise ValueError("before the id of its stanza")
        if self._kind not in ("Term", "Typedef", "Instance"):
            return self._left_out(f"line of a stanza [{self._kind}]")
        return self._clause(tag, value)

    def end(self) -> list[Record]:
        """What holds of the stanza by the header alone."""
        is_untyped = self._id and not self._has_namespace and self._default
        if not is_untyped or self._kind not in ("Term", "Typedef", "Instance"):
            return []
        self._report.n_further += 1
        return [self._text(TextKind.TYPE, self._default)]

    def _clause(self, tag: str, value: str) -> list[Record]:
        if tag == "name":
            return self._named(TextKind.LABEL, _plain(value), tag)
        if tag == "namespace":
            self._has_namespace = True
            return self._named(TextKind.TYPE, _plain(value), tag)
        if tag == "def":
            return self._named(TextKind.DESCRIPTION, _quoted(value)[0], tag)
        if tag == "synonym" or tag in _OLD_SYNONYMS:
            text, scope = _synonym(value)
            scope = _OLD_SYNONYMS.get(tag, scope)
            if scope not in self._synonyms:
                return self._left_out(f"synonym of scope {scope}")
            return self._named(TextKind.ALIAS, text, tag)
        if tag == "is_obsolete":
            if _plain(value).lower() != "true":
                return self._left_out("is_obsolete that is not true")
            return [self._text(TextKind.TYPE, DEPRECATED)]
        if self._kind == "Typedef":
            return self._left_out(f"{tag} of a relation")
        return self._fact(tag, value)

    def _fact(self, tag: str, value: str) -> list[Record]:
        if tag in REFERENCES:
            target, more = _ids(value)
            if more:
                raise ValueError(f"{tag} with two identifiers")
            return [Triple(self._id, tag, target)]
        if tag in ("relationship", "intersection_of"):
            first, second = _ids(value)
            if second:
                return [Triple(self._id, first, second)]
            if tag == "relationship":
                raise ValueError("relationship without a relation and a term")
            return [Triple(self._id, "is_a", first)]
        if tag == "property_value" and (match := _IDS.fullmatch(value)) and match[2]:
            return [Triple(self._id, _unescaped(match[1]), _unescaped(match[2]))]
        return self._left_out(tag)

    def _named(self, kind: TextKind, value: str, tag: str) -> list[Record]:
        return [self._text(kind, value)] if value else self._left_out(f"empty {tag}")

    def _text(self, kind: TextKind, value: str) -> Text:
        return Text(self._id, kind, value, is_relation=self._kind == "Typedef")

    def _left_out(self, reason: str) -> list[Record]:
        self._report.skip(reason)
        return []


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _CHARACTERS.get(match[1], match[1]), text)


def _plain(value: str) -> str:
    """A text without quotes, without modifiers and comment."""
    text = _TEXT_COMMENT.sub("", value).strip()
    return _unescaped(_TEXT_MODIFIERS.sub("", text).strip())


def _quoted(value: str) -> tuple[str, str]:
    """A text in quotes, and what follows it."""
    match = _QUOTED.fullmatch(value)
    if match is None:
        raise ValueError("no text in double quotes")
    return _unescaped(match[1]).strip(), match[2]


def _synonym(value: str) -> tuple[str, str]:
    """The text and the scope of a synonym.

    >>> _synonym('"ATLL" EXACT OMO:0003012 []')
    ('ATLL', 'EXACT')
    """
    text, rest = _quoted(value)
    match = _SCOPE.fullmatch(rest)
    scope = match[1] if match and match[1] and not rest.startswith(f"{match[1]}:") else "RELATED"
    if scope not in SCOPES:
        raise ValueError(f"scope {scope!r} of a synonym is none of {', '.join(SCOPES)}")
    return text, scope


def _ids(value: str) -> tuple[str, str]:
    r"""One or two identifiers; "" where there is no second.

    >>> _ids(r'part_of GO\:1 {source="a ! b"} ! the whole')
    ('part_of', 'GO:1')
    """
    match = _IDS.fullmatch(value)
    if match is None:
        raise ValueError("not an identifier, or two")
    return _unescaped(match[1]), _unescaped(match[2] or "")
