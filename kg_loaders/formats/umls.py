"""The UMLS in Rich Release Format: a folder with its tables, or one of them.

    MRCONSO.RRF   the names of concepts: per language the preferred one is the LABEL, others ALIAS
    MRSTY.RRF     semantic types: TYPE
    MRDEF.RRF     definitions: DESCRIPTION
    MRREL.RRF     triples; RELA is the relation, REL where RELA is empty

A concept is a node by its CUI. A name is preferred by TS (P: preferred term), STT (PF: preferred
form) and ISPREF (Y: preferred string) in that order. A row of MRREL says how its *second* concept
relates to the first, so that one is the head. Suppressed rows (SUPPRESS is not N), rows in other
languages and relations between two names of one concept are counted and left out. Definitions are
in the language of their source's names, which is known when a folder is read.

Columns: https://www.ncbi.nlm.nih.gov/books/NBK9685/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.rdf.records import language_fits
from kg_loaders.reading.languages import language_tag
from kg_loaders.reading.lines import read_lines
from kg_loaders.reading.unpacking import COMPRESSED
from kg_loaders.records import Record, Text, TextKind, Triple

LANGUAGE_TAGS = {
    "BAQ": "eu", "CHI": "zh", "CZE": "cs", "DAN": "da", "DUT": "nl", "ENG": "en", "EST": "et",
    "FIN": "fi", "FRE": "fr", "GER": "de", "GRE": "el", "HEB": "he", "HUN": "hu", "ITA": "it",
    "JPN": "ja", "KOR": "ko", "LAV": "lv", "NOR": "no", "POL": "pl", "POR": "pt", "RUS": "ru",
    "SCR": "hr", "SPA": "es", "SWE": "sv", "TUR": "tr", "UKR": "uk", "ARA": "ar",
}  # fmt: skip
"""The tags of the UMLS's codes of languages; another code is its own tag, in lower case."""


class _Table(NamedTuple):
    """A table: its name, how many columns it has, and which one is SUPPRESS (-1: none)."""

    name: str
    n_columns: int
    suppress: int


_CONSO = _Table("MRCONSO", 18, 16)
_STY = _Table("MRSTY", 6, -1)
_DEF = _Table("MRDEF", 8, 6)
_REL = _Table("MRREL", 16, 14)
TABLES = (_CONSO, _STY, _DEF, _REL)
"""In the order in which a folder is read: MRDEF needs the languages that MRCONSO shows."""


class _Row(NamedTuple):
    """A row of a table, and the number and the offset of its line."""

    number: int
    offset: int
    line: bytes
    columns: list[str]


def read(
    path: str | Path, report: DamageReport, *, languages: Sequence[str] | None = None
) -> Iterator[Record]:
    """Return the triples and texts of the UMLS, of names those in `languages` (None: all).

    `path` is a folder that holds some of the four tables, or one of them, which its name or its
    number of columns shows. Raises `SourceError` where it is neither.
    """
    path = Path(path)
    files = tables_in(path) if path.is_dir() else {_table_of(path, report): path}
    if not files:
        names = ", ".join(f"{table.name}.RRF" for table in TABLES)
        raise SourceError(f"{path} holds none of {names}; name the folder META of a release")
    report.units = "rows"
    reader = _Reader(report, languages)
    readers: dict[_Table, Callable[[Path], Iterator[Record]]] = {
        _CONSO: reader.names, _STY: reader.types, _DEF: reader.definitions, _REL: reader.relations,
    }  # fmt: skip
    for table, file in files.items():
        yield from readers[table](file)


def tables_in(folder: Path) -> dict[_Table, Path]:
    """Return the tables that a folder holds, perhaps compressed, and their files."""
    suffixes = ("", *sorted(COMPRESSED))
    files: dict[_Table, Path] = {}
    for table in TABLES:
        paths = [folder / f"{table.name}.RRF{suffix}" for suffix in suffixes]
        there = next((path for path in paths if path.exists()), None)
        if there is not None:
            files[table] = there
    return files


def _table_of(path: Path, report: DamageReport) -> _Table:
    name = path.name.upper()
    for table in TABLES:
        if name.startswith(f"{table.name}.RRF"):
            return table
    look = DamageReport(report.policy, report.quarantine, budget=report.budget)
    _, _, line = next(read_lines(path, look), (0, 0, b""))
    n_columns = line.count(b"|")
    for table in TABLES:
        if n_columns == table.n_columns:
            return table
    sizes = ", ".join(f"{table.name} {table.n_columns}" for table in TABLES)
    raise SourceError(
        f"{path}: its first row has {n_columns} columns, as no table of the UMLS that is read here "
        f"({sizes}); name the file as in the release"
    )


class _Name(NamedTuple):
    """A name of a concept, and whether TS, STT and ISPREF prefer it."""

    preferred: tuple[bool, bool, bool]
    value: str
    language: str


class _Reader:
    def __init__(self, report: DamageReport, languages: Sequence[str] | None) -> None:
        self._report, self._wanted = report, languages
        self._languages: dict[str, str] = {}

    def names(self, path: Path) -> Iterator[Record]:
        """The texts of MRCONSO, whose rows are in the order of concepts."""
        concept, names = "", list[_Name]()
        for row in self._rows(path, _CONSO):
            cui, code, name = (row.columns[position] for position in (0, 1, 14))
            language = language_tag(LANGUAGE_TAGS.get(code, code))
            if not cui or not name or language is None:
                self._reject(path, row, "no concept, no name or no language")
                continue
            self._languages.setdefault(row.columns[11], language)
            if not language_fits(language, self._wanted):
                self._report.skip("name in another language")
            else:
                if cui != concept:
                    yield from _texts(concept, names)
                    concept, names = cui, []
                preferred = (row.columns[2] == "P", row.columns[4] == "PF", row.columns[6] == "Y")
                names.append(_Name(preferred, name, language))
        yield from _texts(concept, names)

    def types(self, path: Path) -> Iterator[Record]:
        """The texts of MRSTY."""
        for row in self._rows(path, _STY):
            if row.columns[0] and row.columns[3]:
                yield Text(row.columns[0], TextKind.TYPE, row.columns[3])
            else:
                self._reject(path, row, "no concept or no type")

    def definitions(self, path: Path) -> Iterator[Record]:
        """The texts of MRDEF."""
        for row in self._rows(path, _DEF):
            language = self._languages.get(row.columns[4], "")
            if not row.columns[0] or not row.columns[5]:
                self._reject(path, row, "no concept or no definition")
            elif language_fits(language, self._wanted):
                yield Text(row.columns[0], TextKind.DESCRIPTION, row.columns[5], language)
            else:
                self._report.skip("definition in another language")

    def relations(self, path: Path) -> Iterator[Record]:
        """The triples of MRREL."""
        for row in self._rows(path, _REL):
            first, second = row.columns[0], row.columns[4]
            relation = row.columns[7] or row.columns[3]
            if not (first and second and relation):
                self._reject(path, row, "no concept or no relation")
            elif first == second:
                self._report.skip("relation between two names of one concept")
            else:
                yield Triple(second, relation, first)

    def _rows(self, path: Path, table: _Table) -> Iterator[_Row]:
        """The rows of a table that are not suppressed, each counted."""
        for number, offset, line in read_lines(path, self._report):
            row = _Row(number, offset, line, line.decode().split("|"))
            n_columns = len(row.columns) - 1
            if not line.strip():
                self._report.n_blank += 1
            elif n_columns != table.n_columns or row.columns[-1].strip():
                reason = f"not {table.n_columns} columns, each ended by |, as {table.name} has"
                self._reject(path, row, reason)
            elif table.suppress >= 0 and row.columns[table.suppress] not in ("N", ""):
                self._report.skip("suppressed row")
            else:
                yield row

    def _reject(self, path: Path, row: _Row, reason: str) -> None:
        self._report.reject(str(path), row.number, row.offset, reason, row.line)


def _texts(concept: str, names: Sequence[_Name]) -> Iterator[Text]:
    """The names of a concept: of each language the most preferred is the label.

    What is written as the label is once more the label, so a duplicate.
    """
    labels: dict[str, _Name] = {}
    for name in names:
        if name.language not in labels or name.preferred > labels[name.language].preferred:
            labels[name.language] = name
    for name in names:
        is_label = name.value == labels[name.language].value
        yield Text(
            concept, TextKind.LABEL if is_label else TextKind.ALIAS, name.value, name.language
        )
