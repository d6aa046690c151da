"""ConceptNet's assertions (Speer, Chin and Havasi 2017, AAAI): five columns behind TABs.

    /a/[...]    /r/IsA    /c/en/dog/n    /c/en/animal    {"weight": 2.0, ...}

Identifiers stay what they are (`/c/en/dog/n`, `/r/IsA`); the words in them are labels, in their
language. Edges to pages and data sets elsewhere have no node at their end and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kg_loaders.counting import counted
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import JSON_FAULTS, MAX_LINE_BYTES, read_lines
from kg_loaders.records import Record, Text, TextKind, Triple

_NODE = re.compile("/c/([^/]+)/([^/]+)(/.*)?")
_RELATION = re.compile("/r/(.+)")
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")


class _Facts(msgspec.Struct):
    weight: float = 1.0


def read(
    path: str | Path,
    report: DamageReport,
    *,
    languages: Sequence[str] | None = None,
    least_weight: float = 0.0,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Triples and, the first time that a node or relation stands there, its label.

    `languages` are those that both ends must be in; None: any. Edges below `least_weight` are left
    out. What is left out is counted in `report.skipped`.
    """
    facts = msgspec.json.Decoder(_Facts)
    labelled: set[str] = set()
    for line_no, offset, line in read_lines(path, report, max_line_bytes=max_line_bytes):
        fields = line.decode().split("\t")
        if len(fields) != 5:
            if line.strip() or b"\t" in line:
                wrong = f"{counted(len(fields), 'fields')} instead of 5"
                report.reject(str(path), line_no, offset, wrong, line)
            else:
                report.n_blank += 1
            continue
        _, relation, head, tail, details = fields
        ends = [_NODE.fullmatch(head), _NODE.fullmatch(tail)]
        named = _RELATION.fullmatch(relation)
        try:
            weight = facts.decode(details).weight
        except JSON_FAULTS:
            report.reject(str(path), line_no, offset, "the last field is not a JSON object", line)
            continue
        if named is None or not (head.startswith("/c/") and ends[0]):
            report.reject(str(path), line_no, offset, "no relation, or no node before it", line)
        elif ends[1] is None:
            report.skip("edge to something outside ConceptNet")
        elif languages is not None and any(end and end[1] not in languages for end in ends):
            report.skip("edge in another language")
        elif weight < least_weight:
            report.skip("edge of less weight")
        else:
            yield Triple(head, relation, tail)
            for name, text in (
                (relation, Text(relation, TextKind.LABEL, _words(named[1]), "en", 0, True)),
                *((end[0], _label(end)) for end in ends if end is not None),
            ):
                if name not in labelled:
                    labelled.add(name)
                    report.n_further += 1
                    yield text


def _words(relation: str) -> str:
    """The words of a relation, as in "is a"; the source of one from elsewhere goes."""
    return _HUMP.sub(" ", relation.rpartition("/")[2]).lower().replace("_", " ")


def _label(node: re.Match[str]) -> Text:
    return Text(node[0], TextKind.LABEL, node[2].replace("_", " "), node[1])
