"""The table's graphs as benchmark folders: one to train on, and one with unseen entities to ask."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kept.kge.inductive import Part
from kept.kge.splits import SPLITS
from kept.tasks.datasets.inductive import GRAIL, VERSIONS, read_codex_unseen
from kg_loaders import KnowledgeGraph, SourceError
from kg_loaders.disk.writing import whole_folder, write_text

SHARES = {"valid_share": 0.05, "test_share": 0.1, "context_share": 0.5}
"""Of the entities of CoDEx-S held out, and of their triples that may be read."""
NAMES = ("codex-s", *VERSIONS, "codex-s-unseen")


@dataclass(frozen=True)
class Evaluated:
    """A folder whose test is evaluated and whose train may be read; `of`: which entities it has."""

    of: str
    folder: Path


@dataclass(frozen=True)
class TableGraph:
    """A folder to train on, and the parts that are evaluated."""

    name: str
    source: Path
    parts: tuple[Evaluated, ...]

    @cached_property
    def digests(self) -> bytes:
        """Hashes of every file that is trained on or evaluated, one behind the other."""
        texts = sorted({path for folder in (self.source, *(one.folder for one in self.parts))
                        for path in folder.iterdir() if path.is_file()})  # fmt: skip
        return b"".join(hashlib.sha256(path.read_bytes()).digest() for path in texts)


def prepare(root: Path, name: str, folder: Path) -> TableGraph:
    """The graph of that name from the data below `root`, written into `folder` where need be.

    SourceError: there is no such graph.
    """
    if name == "codex-s":
        source = root / "codex" / "codex-s"
        return TableGraph(name, source, (Evaluated("seen entities", source),))
    if name not in NAMES:
        raise SourceError(f"graph {name!r} is none of {', '.join(NAMES)}")
    seen, other = folder / name, folder / f"{name}_ind"
    if not (seen.is_dir() and other.is_dir()):
        folder.mkdir(parents=True, exist_ok=True)
        make = _grail if name in VERSIONS else _codex_unseen
        make(root, name, seen, other)
    unseen = Evaluated("unseen entities", other)
    parts = (unseen,) if name in VERSIONS else (Evaluated("seen entities", seen), unseen)
    return TableGraph(name, seen, parts)


def _grail(root: Path, name: str, seen: Path, other: Path) -> None:
    texts = root / "kgc" / ("wn18rr" if name.startswith("WN") else "fb15k237")
    with tarfile.open(root / GRAIL) as archive:
        for target in (seen, other):
            with _new(target) as part:
                for split in SPLITS:
                    member = archive.extractfile(f"{target.name}/{split}.txt")
                    if member is None:
                        raise SourceError(f"{root / GRAIL} lacks {target.name}/{split}.txt")
                    (part / f"{split}.txt").write_bytes(member.read())
                for path in texts.glob("*2text.txt*"):
                    shutil.copyfile(path, part / path.name)


def _codex_unseen(root: Path, name: str, seen: Path, other: Path) -> None:
    """Validation of the training folder is of seen entities; the other's valid is filtered alone.

    It holds the valid and test triples of seen entities, which no question may count as wrong.
    """
    del name
    split = read_codex_unseen(root, **SHARES, seed=0)
    graph, parts = split.graph, split.parts
    with _new(seen) as part:
        rows = {
            "train": _named(graph, split.train, split.train.context),
            "valid": _named(graph, parts["transductive valid"]),
            "test": _named(graph, parts["transductive"]),
        }
        _write(part, graph, rows)
    with _new(other) as part:
        others = rows["valid"] + rows["test"]
        rows = {
            "train": _named(graph, parts["test"], parts["test"].context),
            "valid": others, "test": _named(graph, parts["test"]),
        }  # fmt: skip
        _write(part, graph, rows)


def _named(graph: KnowledgeGraph, part: Part, rows: object = None) -> list[str]:
    names, relations = list(graph.entities), list(graph.relations)
    chosen = part.queries if rows is None else rows
    ids = part.entities.tolist()
    return [
        f"{names[ids[h]]}\t{relations[r]}\t{names[ids[t]]}"
        for h, r, t in chosen.tolist()  # type: ignore[attr-defined]
    ]


def _write(part: Path, graph: KnowledgeGraph, rows: dict[str, list[str]]) -> None:
    for name, lines in rows.items():
        _lines(part / f"{name}.txt", lines)
    ids = range(graph.n_entities)
    _lines(part / "entity2text.txt", (f"{graph.entities.name(i)}\t{graph.label(i)}" for i in ids))
    _lines(part / "entity2textlong.txt", (
        f"{graph.entities.name(i)}\t{graph.description(i)}" for i in ids if graph.description(i)
    ))  # fmt: skip
    _lines(part / "relation2text.txt", (
        f"{graph.relations.name(i)}\t{graph.relation_label(i)}" for i in range(graph.n_relations)
    ))  # fmt: skip


def _lines(path: Path, lines: Iterable[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))


def _new(folder: Path):  # type: ignore[no-untyped-def]
    return whole_folder(folder, kind="graph of the table", is_kind=lambda _: True, force=True)
