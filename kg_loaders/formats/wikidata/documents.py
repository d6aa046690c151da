"""Entities of Wikidata in one JSON value: Special:EntityData, wbgetentities, arrays, one entity."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.tables.start import start_bytes
from kg_loaders.rdf.nesting import check_json
from kg_loaders.reading.lines import BOM, JSON_FAULTS, read_whole

_MAP = re.compile(rb'\s*\{(?:[^{}\[\]"]|"(?:[^"\\]|\\.)*")*?"entities"\s*:')
_ARRAY_OR_ONE = re.compile(rb"\s*(?:\[[ \t\r]*[^\s]|(?:\[\s*)?\{[ \t\r]*\n)")


class _Entities(msgspec.Struct):
    entities: dict[str, msgspec.Raw] | list[msgspec.Raw]


_Document = msgspec.json.Decoder(_Entities)
_Array = msgspec.json.Decoder(list[msgspec.Raw])


def is_document(path: Path, report: DamageReport) -> bool:
    """Return whether a file is one JSON value of entities, and no entity in each line.

    A dump has its bracket in a line of its own, and entities that are whole lines.
    """
    start, _ = start_bytes(path, report)
    return bool(_MAP.match(start) or _ARRAY_OR_ONE.match(start))


def entities(path: Path, report: DamageReport) -> Iterator[tuple[int, msgspec.Raw]]:
    """Yield the number, from 1, and the JSON of every entity, counted as `n_lines`.

    Raises `SourceError` for what is not JSON or holds no entities, under every policy; BudgetError.
    """
    data = read_whole(path, report.budget)
    check_json(str(path), data, report.budget)
    data = data.removeprefix(BOM).strip()
    try:
        if data.startswith(b"["):
            items = _Array.decode(data)
        elif _MAP.match(data):
            listed = _Document.decode(data).entities
            items = [*(listed.values() if isinstance(listed, dict) else listed)]
        else:
            items = [msgspec.Raw(data)]
    except JSON_FAULTS as error:
        raise SourceError(f"{path} is not JSON of entities: {error}; fetch it again") from error
    for number, item in enumerate(items, 1):
        report.n_lines += 1
        yield number, item
