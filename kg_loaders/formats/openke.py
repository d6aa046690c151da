"""OpenKE's `train2id.txt`: head tail relation as numbers, named by two files beside it.

The first line of each file is a count. `entity2id.txt` and `relation2id.txt` give `name TAB
number`; either may be compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.digits import whole_number
from kg_loaders.reading.lines import MAX_LINE_BYTES, read_lines
from kg_loaders.reading.unpacking import COMPRESSED
from kg_loaders.records import Record, Triple


def read(
    path: str | Path, report: DamageReport, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Record]:
    """Triples by name; the count line is a comment, or rejected when it is wrong.

    The files of names must be whole whatever the policy, for all triples hang on them.
    """
    path = Path(path)
    entities, relations = (read_names(path.parent, kind) for kind in ("entity", "relation"))
    file, n_read = str(path), 0
    header: tuple[int, bytes] | None = None
    for line_no, offset, line in read_lines(path, report, max_line_bytes=max_line_bytes):
        fields = line.split()
        if line_no == 1:
            header = offset, line
            continue
        if not fields:
            report.n_blank += 1
            continue
        n_read += 1
        try:
            head, tail, relation = map(whole_number, fields)
            triple = Triple(entities[head], relations[relation], entities[tail])
        except ValueError:
            report.reject(file, line_no, offset, "not three numbers", line)
        except KeyError:
            report.reject(file, line_no, offset, "a number that no name has", line)
        else:
            yield triple
    if header and header[1].strip() == str(n_read).encode():
        report.n_comment += 1
    elif header:
        report.reject(file, 1, header[0], f"count of lines is not {n_read}", header[1])


def read_names(folder: Path, kind: str) -> dict[int, str]:
    """Names by number, of the "entity" or "relation" file; SourceError: it is missing."""
    paths = [folder / f"{kind}2id.txt{suffix}" for suffix in ("", *sorted(COMPRESSED))]
    path = next((file for file in paths if file.is_file()), None)
    if path is None:
        raise SourceError(
            f"{paths[0]} is missing: it gives the names for the numbers in the triples"
        )
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    count: bytes | None = None
    strict = DamageReport()
    for line_no, offset, line in read_lines(path, strict):
        if count is None:
            count = line.strip()
            continue
        try:
            name, number = _named_number(line)
            if number in names:
                raise ValueError(f"the number {number} belongs to {names[number]!r} already")
            if name in numbers:
                raise ValueError(f"{name!r} has the number {numbers[name]} already")
        except ValueError as error:
            strict.reject(str(path), line_no, offset, str(error), line)
        else:
            names[number], numbers[name] = name, number
    if count != str(len(names)).encode():
        raise SourceError(f"{path}: its first line is {count!r}, but it names {len(names)}")
    return names


def _named_number(line: bytes) -> tuple[str, int]:
    name, _, text = line.rpartition(b"\t")
    try:
        number = whole_number(text.strip())
    except ValueError:
        name = b""
    if not name:
        raise ValueError("not a name, TAB and a number")
    return name.decode(), number
