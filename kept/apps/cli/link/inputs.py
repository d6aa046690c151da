"""What `kept link` reads: plain lines, our JSON lines or array, and the annotations of others.

Every format gives `Item`s. One with given mentions is only disambiguated: what its mentions were
linked to is not read. An unreadable line goes to the `DamageReport` with its file and number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec

from entity_linking.annotations import (
    gold_link,
    read_array,
    read_elevant,
    read_rows,
    read_tagme,
)
from entity_linking.annotations.relations import read_fewrel, read_trex, read_wiki80
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from kept.linking.stream import Item
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.reading.lines import read_lines
from kg_loaders.reading.unpacking import data_name, is_packed

BLOCK_BYTES = 1 << 20


class _Position(msgspec.Struct):
    start: int
    end: int


class _Row(msgspec.Struct):
    text: str
    id: str | int = ""
    mentions: list[_Position] | None = None
    pair_start: int | None = None
    label: Any = msgspec.UNSET
    labels: Any = msgspec.UNSET
    mention: Any = msgspec.UNSET
    start: Any = msgspec.UNSET
    end: Any = msgspec.UNSET
    head: Any = msgspec.UNSET
    tail: Any = msgspec.UNSET
    targets: Any = msgspec.UNSET
    tags: Any = msgspec.UNSET
    pair: Any = msgspec.UNSET
    split: Any = msgspec.UNSET


LABELLING = (
    "label", "labels", "mention", "start", "end", "head", "tail", "targets", "tags", "pair",
    "split",
)  # fmt: skip
"""Fields of a line about what its text is labelled with, which are written as they were read."""


def read_text(path: Path, report: DamageReport) -> Iterator[Item]:
    """One text per line, its number as id; blank lines are left out."""
    for number, _, raw in read_lines(path, report):
        if raw.strip():
            yield Item(LinkedText(raw.decode(), (), str(number)), is_linked=False)
        else:
            report.n_blank += 1


def read_json(path: Path, report: DamageReport) -> Iterator[Item]:
    """One object per line with `text`, perhaps `id` and `mentions` (`start`, `end`)."""
    yield from read_rows(path, report, _Row, _of_row)


def read_json_array(path: Path, report: DamageReport) -> Iterator[Item]:
    """One array of texts, or of objects as `read_json` takes them."""
    yield from read_array(path, report, cast(type[_Row | str], _Row | str), _of_row)


def _of_row(row: _Row | str) -> Item:
    if isinstance(row, str):
        return Item(LinkedText(row, ()), is_linked=False)
    if row.mentions is None and row.pair_start is not None:
        raise LinkingError("a pair of texts without mentions; give them, or give two texts")
    links = [gold_link(span.start, span.end, None) for span in row.mentions or ()]
    ordered = tuple(sorted(links, key=lambda link: link.mention))
    text = LinkedText(row.text, ordered, str(row.id), row.pair_start)
    more = {name: getattr(row, name) for name in LABELLING}
    more = {name: value for name, value in more.items() if value is not msgspec.UNSET}
    return Item(text, is_linked=row.mentions is not None, more=more)


def read_labelled_table(path: Path, report: DamageReport) -> Iterator[Item]:
    """Texts of a CSV or TSV with a header; its other columns are written as they are."""
    from kept.tasks.datasets.tables import text_rows

    for line, text, more in text_rows(path, report):
        report.n_texts += 1
        name = str(more.pop("id", line))
        yield Item(LinkedText(text, (), name), is_linked=False, more=more)


def _already_linked(
    reader: Callable[..., Iterator[Any]],
) -> Callable[[Path, DamageReport], Iterator[Item]]:
    def read(path: Path, report: DamageReport) -> Iterator[Item]:
        for example in reader(path, report):
            yield Item(getattr(example, "linked", example), is_linked=True)

    return read


FORMATS: dict[str, Callable[[Path, DamageReport], Iterator[Item]]] = {
    "text": read_text,
    "jsonl": read_json,
    "json": read_json_array,
    "table": read_labelled_table,
    "tagme": _already_linked(read_tagme),
    "elevant": _already_linked(read_elevant),
    "fewrel": _already_linked(read_fewrel),
    "wiki80": _already_linked(read_wiki80),
    "trex": _already_linked(read_trex),
}
BY_LINE = ("text", "jsonl", "elevant", "wiki80")
FOLDERS = ("trex",)
TABLES = {".csv", ".tsv"}


def format_of(path: Path, name: str | None) -> str:
    """The format called `name`; without one by its suffix, plain lines where that says nothing.

    A `.json` is an array, or one object; LinkingError for one that begins as neither.
    """
    if name is not None and name not in FORMATS:
        raise LinkingError(f"--format is {name!r}; choose one of {', '.join(FORMATS)}")
    if name is None:
        suffix = Path(data_name(path)).suffix.lower()
        if suffix == ".json":
            return _json_format(path)
        if suffix in TABLES and _has_header(path):
            return "table"
        return "jsonl" if suffix in {".jsonl", ".ndjson"} else "text"
    return name


def _has_header(path: Path) -> bool:
    """Whether the first line of a CSV or TSV names a column of texts."""
    from kept.tasks.datasets.columns import COLUMNS

    lines = (raw for _, _, raw in read_lines(path, DamageReport(DamagePolicy.SKIP)))
    first = next(lines, b"").decode("utf-8", "replace").casefold()
    return any(cell.strip(' "') in COLUMNS["text"] for cell in re.split("[,;\t]", first))


def _json_format(path: Path) -> str:
    lines = (raw.strip() for _, _, raw in read_lines(path, DamageReport(DamagePolicy.SKIP)))
    first = next(filter(None, lines), b"")[:1]
    if first not in (b"[", b"{"):
        raise LinkingError(
            f"{path} begins neither an array of texts nor an object; name it .jsonl, or say what "
            "it is with --format"
        )
    return "json" if first == b"[" else "jsonl"


def read_items(path: Path, format: str, report: DamageReport) -> Iterator[Item]:
    """The items of a file, each with an id: its own, or its number from 1."""
    for number, item in enumerate(FORMATS[format](path, report), 1):
        if item.linked.id:
            yield item
        else:
            yield replace(item, linked=replace(item.linked, id=str(number)))


def count_lines(path: Path, format: str) -> int | None:
    """How many texts to expect at most, for the time left; None where that needs a second read."""
    if format not in BY_LINE or is_packed(path) or not path.is_file():
        return None
    with path.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(BLOCK_BYTES), b"")) + 1
