"""Wikidata5M (Wang et al. 2021, "KEPLER", TACL 9): the files that come with its triples.

    wikidata5m_entity.txt     identifier, then its names; the first is the label, others are aliases
    wikidata5m_relation.txt   likewise
    wikidata5m_text.txt       identifier, then the first section of its Wikipedia page

Its triples (`wikidata5m_transductive_train.txt` and others) are plain TSV. Which file it is, the
name says; all are TAB-separated and may be packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.tsv import read_texts_in_blocks
from kg_loaders.reading.blocks import TextBlock
from kg_loaders.reading.lines import MAX_LINE_BYTES
from kg_loaders.records import Record

_NAMES: dict[str, Any] = {"columns": ("label",), "further": "alias"}
FILES: dict[str, dict[str, Any]] = {
    "entity.txt": _NAMES,
    "relation.txt": {**_NAMES, "is_relation": True},
    "text.txt": {"columns": ("description",)},
}
"""The end of a file's name, to what its columns are."""


def read_in_blocks(
    path: str | Path, report: DamageReport, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Record | TextBlock]:
    """Labels and aliases, or descriptions, many lines at once.

    Raises `SourceError` for a name that is none of `FILES`.
    """
    name = Path(path).name.lower()
    matching = [options for end, options in FILES.items() if end in name]
    if len(matching) != 1:
        raise SourceError(
            f"{path} is none of wikidata5m_{', wikidata5m_'.join(FILES)}; triples are tsv"
        )
    yield from read_texts_in_blocks(path, report, max_line_bytes=max_line_bytes, **matching[0])


def read(
    path: str | Path, report: DamageReport, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Record]:
    """The same as records."""
    for item in read_in_blocks(path, report, max_line_bytes=max_line_bytes):
        if isinstance(item, TextBlock):
            yield from item.records()
        else:
            assert isinstance(item, tuple)
            yield item
