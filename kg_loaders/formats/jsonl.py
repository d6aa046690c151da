"""Texts and triples as JSON lines, one object per node (and language) or triple:

    {"id": "Q90", "label": "Paris", "aliases": ["City of Light", ["Paname", 12]],
     "description": "capital of France", "types": ["Q515"], "language": "en"}

A triple is an object, too: {"head": "Q90", "relation": "P17", "tail": "Q142"}. Keys may have the
names of other formats (`subject`, `name`, `synonyms`: `kg_loaders.formats.field_names`).

All but `id` may be missing; `"relation": true` says that the node is a relation; an alias may come
with its count. An unknown key, or one that comes twice, rejects the line, so that no text is lost
to a misspelling.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_lines
from kg_loaders.formats.json_objects import record_of
from kg_loaders.reading.languages import language_tag
from kg_loaders.reading.lines import JSON_FAULTS, MAX_LINE_BYTES, read_lines
from kg_loaders.reading.repeated_keys import repeats_fault
from kg_loaders.records import Record, Text, TextKind
from kg_loaders.store import KnowledgeGraph
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary


class Node(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One line.

    No msgspec constraints here: 0.22 mixes up those of a string and a tuple in one union.
    """

    id: str
    label: str = ""
    aliases: list[str | tuple[str, int]] = []
    description: str = ""
    types: list[str] = []
    language: str = "en"
    relation: bool = False

    def texts(self) -> Iterator[Text]:
        """Every text of this line."""
        rest = (self.language, 0, self.relation)
        if self.label:
            yield Text(self.id, TextKind.LABEL, self.label, *rest)
        for alias in self.aliases:
            value, count = (alias, 0) if isinstance(alias, str) else alias
            yield Text(self.id, TextKind.ALIAS, value, self.language, count, self.relation)
        if self.description:
            yield Text(self.id, TextKind.DESCRIPTION, self.description, *rest)
        for name in self.types:
            yield Text(self.id, TextKind.TYPE, name, *rest)


def read(
    path: str | Path, report: DamageReport, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Record]:
    """The texts of every line."""
    decoder, file = msgspec.json.Decoder(Node), str(path)
    for line_no, offset, line in read_lines(path, report, max_line_bytes=max_line_bytes):
        if not line.strip():
            report.n_blank += 1
            continue
        other: list[Record] = []
        try:
            texts = list(decoder.decode(line).texts())
            fault = _fault(texts) or (repeats_fault(line) if _may_repeat(line) else "")
        except msgspec.ValidationError as error:
            repeated = repeats_fault(line)
            other = [] if repeated else record_of(line)
            fault, texts = "" if other else repeated or _half_character(line) or str(error), []
        except JSON_FAULTS as error:
            fault = f"not JSON: {error}".split(" (byte")[0]
        if fault:
            report.reject(file, line_no, offset, fault, line)
        elif other:
            report.n_further += len(other) - 1
            yield from other
        elif not texts:
            report.skip("line without a text")
        else:
            report.n_further += len(texts) - 1
            yield from texts


_KEYS = tuple(f'"{name}"'.encode() for name in Node.__struct_fields__)


def _half_character(line: bytes) -> str:
    """What is wrong with a line that holds half of a character, as an escape (`\\ud800`)."""
    try:
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "half of a character (a \\ud... without its other half)"
    except (ValueError, RecursionError):
        return ""
    return ""


def _may_repeat(line: bytes) -> bool:
    """Whether a key may stand twice: cheaper than to look at every line."""
    return b"\\u" in line or any(line.count(key) > 1 for key in _KEYS)


def _fault(texts: list[Text]) -> str:
    if not all(text.node and text.value for text in texts):
        return "empty id, alias or type"
    if texts and language_tag(texts[0].language) is None:
        return f"{texts[0].language!r} is not a language tag, such as en or zh-hant"
    if not all(0 <= text.frequency < 2**31 for text in texts):
        return "count is not a number from 0 to 2147483647"
    return ""


def write(graph: KnowledgeGraph, path: str | Path, *, force: bool = False) -> int:
    """Write every text so that `read` gives them back; returns how many.

    Whole or not at all; `force` replaces a file that is there.
    """
    encoder = msgspec.json.Encoder()
    kinds = (
        (graph.entity_texts, graph.entities, False),
        (graph.relation_texts, graph.relations, True),
    )
    lines = (encoder.encode(node) + b"\n" for kind in kinds for node in _nodes(*kind))
    write_lines(path, lines, force=force)
    return len(graph.entity_texts) + len(graph.relation_texts)


def _nodes(texts: Texts, names: Vocabulary, is_relation: bool) -> Iterator[Node]:
    """One `Node` per node and language; one more where it has two labels or descriptions."""
    for index in np.flatnonzero(np.diff(texts.offsets)):
        rows = range(int(texts.offsets[index]), int(texts.offsets[index + 1]))
        by_language = sorted(rows, key=lambda row: (texts.languages[row], row))
        for language, group in groupby(by_language, key=lambda row: int(texts.languages[row])):
            name = texts.language_names[language]
            node = Node(id=names.name(int(index)), language=name, relation=is_relation)
            single: dict[Any, str] = {TextKind.LABEL: "label", TextKind.DESCRIPTION: "description"}
            for row in group:
                value, count = str(texts.values[row].as_py()), int(texts.counts[row])
                kind = TextKind(int(texts.kinds[row]))
                if kind is TextKind.TYPE:
                    node.types.append(value)
                elif kind is TextKind.ALIAS:
                    node.aliases.append((value, count) if count else value)
                elif getattr(node, single[kind]):
                    extra = Node(id=node.id, language=name, relation=is_relation)
                    setattr(extra, single[kind], value)
                    yield extra
                else:
                    setattr(node, single[kind], value)
            yield node
