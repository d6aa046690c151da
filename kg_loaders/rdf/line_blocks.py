"""Regular lines of N-Triples and N-Quads, a block at a time.

A line is regular that starts with `<IRI> <IRI> <IRI>` or `<IRI> <IRI> "text"`, one space between
and neither a backslash nor a CR in it. The strict parser judges every distinct ending behind the
object (` .`, a language, a datatype, the name of a graph), and every distinct IRI that is not of a
plain form; whatever it does not take makes the line an odd one, which it is then given whole. So a
regular line is one that the strict parser takes, and says the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox
from numpy.typing import NDArray

from kg_loaders.disk.arrow import mask_array, numbers_array, numpy_of
from kg_loaders.rdf.document_parser import TERM_BYTES
from kg_loaders.reading.blocks import Ids, distinct_ids, numbers_behind, start_of, strings_between
from kg_loaders.reading.lines import MAX_LINE_BYTES, LineBlock, fault_of

_LF, _SPACE, _QUOTE, _LESS, _GREATER = b'\n "<>'
_N_CUTS = 7  # of a line: subject, gap, predicate, gap, object, ending, what lies before the next
_CHARACTER = (
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|[\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}"
    r"\x{FDF0}-\x{FFEF}\x{10000}-\x{1FFFD}])"
)
_PLAIN_IRI = (
    rf"^[A-Za-z][A-Za-z0-9+.-]*:(?:(?://[A-Za-z0-9.-]+(?:/{_CHARACTER}*)*)|(?:{_CHARACTER}+"
    rf"(?:/{_CHARACTER}*)*))(?:\?(?:{_CHARACTER}|[/?])*)?(?:#(?:{_CHARACTER}|[/?])*)?$"
)
"""RFC 3987 without ports, users, addresses in brackets and private characters."""


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """Statements by places in `terms`, where an IRI and a text may be the same string.

    `language_ids [statement]` are places in `languages`, -1 where the object is an IRI.
    """

    terms: pa.StringArray
    subjects: Ids
    predicates: Ids
    objects: Ids
    language_ids: Ids
    languages: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.subjects)

    def where(self, chosen: NDArray[np.bool_]) -> Statements:
        """Return some of the statements, `chosen [statement]`."""
        if chosen.all():
            return self
        return replace(
            self, subjects=self.subjects[chosen], predicates=self.predicates[chosen],
            objects=self.objects[chosen], language_ids=self.language_ids[chosen],
        )  # fmt: skip


class LineSplitter:
    """Splits blocks of lines; what the strict parser said of endings is remembered."""

    def __init__(self, format: ox.RdfFormat, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._format, self._longest = format, min(max_line_bytes, TERM_BYTES)
        self._endings: dict[str, str | None] = {}
        self._start: str | None = None  # with any number behind it an IRI; "" if there is none

    def split(self, block: LineBlock) -> tuple[Statements | None, NDArray[np.bool_]]:
        """What the regular lines say, None if there are none, and which lines are odd `[line]`."""
        data = block.with_line_ends()
        if fault_of(data):
            return None, np.ones(block.n_lines, np.bool_)
        regular, is_text, cuts = _cut(data, self._longest)
        if not len(is_text):
            return None, ~regular
        pieces = strings_between(data, cuts).dictionary_encode()
        codes = numpy_of(pieces.indices).reshape(-1, _N_CUTS)
        subjects, predicates, objects, endings = codes.T[[0, 2, 4, 5]]
        language_of = self._judge_endings(pieces.dictionary, endings)
        is_iri = self._judge_iris(pieces.dictionary, (subjects, predicates, objects[~is_text]))
        good = is_iri[subjects] & is_iri[predicates] & (is_text | is_iri[objects])
        languages = language_of[0][endings]
        good &= languages != _REFUSED
        if not good.all():
            regular[np.flatnonzero(regular)[~good]] = False
            subjects, predicates, objects = subjects[good], predicates[good], objects[good]
            languages, is_text = languages[good], is_text[good]
        statements = Statements(
            pieces.dictionary, subjects, predicates, objects,
            np.where(is_text, languages, np.int32(-1)), language_of[1],
        )  # fmt: skip
        return statements, ~regular

    def _judge_endings(self, terms: pa.StringArray, endings: Ids) -> tuple[Ids, tuple[str, ...]]:
        """The language of each ending, a place among `languages`; `_REFUSED` for odd ones."""
        language_of = np.full(len(terms), _REFUSED, np.int32)
        names: dict[str, int] = {}
        for code in distinct_ids(endings, len(terms)):
            language = self._language(terms[int(code)].as_py())
            if language is not None:
                language_of[code] = names.setdefault(language, len(names))
        return language_of, tuple(names)

    def _language(self, ending: str) -> str | None:
        """The language that an ending says, "" if none; None if the strict parser refuses it."""
        if ending not in self._endings:
            if len(self._endings) > _MOST_REMEMBERED:
                self._endings.clear()
            is_text = ending.startswith('"')
            value = _object_of(('"' if is_text else "<a:a") + ending, self._format)
            wanted = ox.Literal if is_text else ox.NamedNode
            fits = type(value) is wanted and value.value == ("" if is_text else "a:a")
            language = (getattr(value, "language", None) or "") if fits else None
            self._endings[ending] = language
        return self._endings[ending]

    def _judge_iris(self, terms: pa.StringArray, columns: tuple[Ids, ...]) -> NDArray[np.bool_]:
        """Which terms are IRIs that the strict parser takes as they are, among those of `columns`.

        A bool for each of `terms`.
        """
        are_iris = np.zeros(len(terms), np.bool_)
        for column in columns:
            are_iris[column] = True
        places = np.flatnonzero(are_iris)
        names = terms.take(numbers_array(places))
        if self._start is None:
            start = start_of(names)
            is_sound = start is not None and "%" not in start and self._is_iri(f"{start}0")
            self._start = start if is_sound and start else ""
        good = numbers_behind(self._start or None, names) >= 0
        others = names.filter(mask_array(~good))
        good[~good] = numpy_of(pc.match_substring_regex(others, _PLAIN_IRI))
        for i in np.flatnonzero(~good):
            good[i] = self._is_iri(names[int(i)].as_py())
        is_iri = np.zeros(len(terms), np.bool_)
        is_iri[places] = good
        return is_iri

    def _is_iri(self, iri: str) -> bool:
        """Whether the strict parser takes it, and as it is."""
        value = _object_of(f"<{iri}> .", self._format)
        return type(value) is ox.NamedNode and value.value == iri


_REFUSED = -2
_MOST_REMEMBERED = 100_000


def _object_of(end: str, format: ox.RdfFormat) -> Any:
    """The object of the one statement with this end, None if the strict parser finds otherwise."""
    if "<<" in end:
        return None
    try:
        quads = list(ox.parse(f"<a:a> <a:a> {end}".encode(), format))
    except SyntaxError:
        return None
    return quads[0].object if len(quads) == 1 else None


def _cut(data: bytes, longest: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[Any]]:
    """Where regular lines are cut.

    Returns which lines look regular `[line]`, of those whether the object is a text `[regular]`,
    and their cuts int32: `_N_CUTS` each, the ends of pieces, the first from `start + 1`; and one
    more, so that the last piece, which lies behind the last ending, is empty.
    """
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array == _LF)
    starts = np.concatenate([[0], ends[:-1] + 1])
    closed = _places(array, _GREATER, len(data))
    first = np.searchsorted(closed, starts)
    subject, predicate = closed[first], closed[first + 1]
    opening = array.take(predicate + 2, mode="clip")  # beyond the end stands its LF
    is_text = opening == _QUOTE
    last = closed[first + 2]
    if is_text.any():
        quotes = _places(array, _QUOTE, len(data))
        last[is_text] = quotes[np.searchsorted(quotes, predicate[is_text] + 3)]
    regular = (array[starts] == _LESS) & (last < ends) & (is_text | (opening == _LESS))
    regular &= array.take(subject + 1, mode="clip") == _SPACE
    regular &= array.take(subject + 2, mode="clip") == _LESS
    regular &= array.take(predicate + 1, mode="clip") == _SPACE
    regular &= ends - starts <= longest
    for byte in b"\\\r":
        if byte in data:
            regular[np.searchsorted(ends, np.flatnonzero(array == byte))] = False
    columns = (starts + 1, subject, subject + 3, predicate, predicate + 3, last, ends + 1)
    is_text = is_text[regular]
    cuts = np.zeros(len(is_text) * _N_CUTS + 1, np.int32)
    for number, column in enumerate(columns):
        cuts[number:-1:_N_CUTS] = column[regular]
    cuts[-1] = cuts[-2] if len(is_text) else 0
    return regular, is_text, cuts


def _places(array: NDArray[np.uint8], byte: int, n: int) -> NDArray[np.int64]:
    """Where `byte` stands, and then `n` three times."""
    return np.concatenate([np.flatnonzero(array == byte), [n, n, n]])
