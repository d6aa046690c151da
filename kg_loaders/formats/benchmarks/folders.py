"""Files of a benchmark folder, in the forms that are in the wild: found by name, read as triples.

A split is `train`, `valid` (or `dev`) or `test`, with one of these endings, packed (`.gz`) or not:

- `.txt`, `.tsv`: head, relation, tail; a header line that names the three says their order;
- `.triples`: head, tail, relation (NELL-995, FB15k-237 and others as MultiHopKG lays them out);
- `.txt.json`: SimKGC's list of objects;
- `2id.txt`: OpenKE's numbers, with `entity2id.txt` and `relation2id.txt` beside.

A prefix may stand before: `wikidata5m_inductive_train.txt` and its like are `FOLDER/PREFIX`, or the
folder itself where it holds one such prefix alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from kg_loaders import Record, SourceError, Triple
from kg_loaders.damage import DamageReport
from kg_loaders.formats import openke, tsv
from kg_loaders.reading.lines import JSON_FAULTS, read_lines, read_whole

ENDINGS = (".txt", ".tsv", ".txt.gz", ".tsv.gz")
HEAD_TAIL_RELATION = (".triples", ".triples.gz")
SIMKGC = (".txt.json",)
OPENKE = ("2id.txt", "2id.txt.gz")
ALL = (*ENDINGS, *HEAD_TAIL_RELATION, *SIMKGC, *OPENKE)
ALSO = {"valid": ("dev",)}
"""Other names of a split."""
COLUMNS = {
    "h": {"head", "head_id", "head_entity", "subject", "subject_id", "source", "e1"},
    "r": {"relation", "relation_id", "rel", "predicate", "predicate_id", "property", "edge"},
    "t": {"tail", "tail_id", "tail_entity", "object", "object_id", "target", "e2"},
}
"""What a header calls the three."""


@dataclass(frozen=True)
class BenchmarkFolder:
    """A folder, and what stands before the names of its splits ("" or "wikidata5m_inductive_")."""

    folder: Path
    prefix: str = ""

    @classmethod
    def of(cls, path: Path) -> BenchmarkFolder:
        """The folder itself, or `FOLDER/PREFIX`; SourceError: a folder of several prefixes."""
        if not path.is_dir():
            return cls(path.parent, f"{path.name}_")
        if cls(path).find("train") is not None:
            return cls(path)
        layouts = {
            one.name[: -len(f"train{ending}")]
            for ending in ENDINGS for one in path.glob(f"*_train{ending}")
        }  # fmt: skip
        if len(layouts) > 1:
            raise SourceError(
                f"{path} holds several benchmarks; give one of "
                + ", ".join(str(path / name.rstrip("_")) for name in sorted(layouts))
            )
        return cls(path, layouts.pop() if layouts else "")

    def find(self, name: str) -> Path | None:
        """The file of the split, or None."""
        for stem in (name, *ALSO.get(name, ())):
            for ending in ALL:
                path = self.folder / f"{self.prefix}{stem}{ending}"
                if path.is_file():
                    return path
        return None


@dataclass(frozen=True)
class _Objects:
    head_id: str
    relation: str
    tail_id: str


def read_triples(path: Path) -> Iterator[tuple[str, Triple]]:
    """Triples with their places; SourceError: no triple in it, or a line that is none."""
    report, n_read = DamageReport(), 0
    for record in _reader(path)(path, report):
        if isinstance(record, Triple):
            n_read += 1
            yield f"{path}, line {report.n_lines}", record
    if not n_read:
        raise SourceError(f"{path} holds no triple; every file of a benchmark needs at least one")


def _reader(path: Path):  # type: ignore[no-untyped-def]
    if path.name.endswith(OPENKE):
        return openke.read
    if path.name.endswith(SIMKGC):
        return _read_objects
    if path.name.endswith(HEAD_TAIL_RELATION):
        return partial(tsv.read, order="htr", header=False)
    order = _order_by_header(path)
    if order is None:
        return partial(tsv.read, header=False)
    return partial(_without_header, order=order)


def _read_objects(path: Path, report: DamageReport) -> Iterator[Record]:
    try:
        rows = msgspec.json.decode(read_whole(path), type=list[_Objects])
    except JSON_FAULTS as error:
        raise SourceError(
            f"{path} is not a list of head_id, relation and tail_id: {error}"
        ) from error
    for number, row in enumerate(rows, 1):
        report.n_lines = number
        yield Triple(row.head_id, row.relation, row.tail_id)


def _order_by_header(path: Path) -> str | None:
    """The order of columns that the first line names; None: it is a triple."""
    _, _, first = next(read_lines(path, DamageReport()), (0, 0, b""))
    fields = first.decode(errors="replace").lower().split("\t")
    letters = [
        letter for field in fields for letter, names in COLUMNS.items() if field.strip() in names
    ]
    return "".join(letters) if sorted(letters) == ["h", "r", "t"] and len(fields) == 3 else None


def _without_header(path: Path, report: DamageReport, *, order: str) -> Iterator[Record]:
    records = tsv.read(path, report, order=order, header=False)
    next(records)
    report.n_comment += 1
    yield from records


@dataclass(frozen=True)
class _KopaRow:
    output: str
    embedding_ids: tuple[int, int, int]


def read_kopa_negatives(folder: Path, name: str) -> Iterator[tuple[str, Triple]] | None:
    """The false triples of KoPA's `NAME-valid.json` or `-test.json`; None: there is no such file.

    Their numbers are named by `entity2id.txt` and `relation2id.txt` beside.
    """
    paths = sorted(folder.glob(f"*-{name}.json"))
    if not paths:
        return None
    if len(paths) > 1:
        raise SourceError(f"{folder} holds {', '.join(one.name for one in paths)}; leave one there")
    return _kopa(paths[0])


def _kopa(path: Path) -> Iterator[tuple[str, Triple]]:
    entities, relations = (openke.read_names(path.parent, kind) for kind in ("entity", "relation"))
    try:
        rows = msgspec.json.decode(read_whole(path), type=list[_KopaRow])
    except JSON_FAULTS as error:
        raise SourceError(f"{path} is not a list of output and embedding_ids: {error}") from error
    for number, row in enumerate(rows, 1):
        head, relation, tail = row.embedding_ids
        if row.output not in ("True", "False"):
            raise SourceError(f"{path}, row {number}: output {row.output!r} is not True or False")
        if head not in entities or relation not in relations or tail not in entities:
            raise SourceError(
                f"{path}, row {number}: {[head, relation, tail]} has a number without a name in "
                "entity2id.txt and relation2id.txt; put those of the same release into the folder"
            )
        if row.output == "False":
            yield (
                f"{path}, row {number}",
                Triple(entities[head], relations[relation], entities[tail]),
            )
