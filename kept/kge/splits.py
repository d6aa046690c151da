"""Triples with splits: a benchmark folder, or a knowledge graph split by seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph, SourceError, Triple, graph_from_records
from kg_loaders.errors import UnknownNodeError
from kg_loaders.formats.benchmarks.folders import (
    ALL,
    BenchmarkFolder,
    read_kopa_negatives,
    read_triples,
)
from kg_loaders.formats.benchmarks.texts import texts_of_folder

SPLITS = ("train", "valid", "test")
STRATA = ("seen", "half seen", "unseen")


@dataclass(frozen=True, eq=False)
class Seen:
    """What occurs in training triples: bool `entities [entity]` and `relations [relation]`.

    All other vectors keep their initialisation.
    """

    entities: NDArray[np.bool_]
    relations: NDArray[np.bool_]

    @classmethod
    def of(cls, triples: NDArray[np.integer], *, n_entities: int, n_relations: int) -> Seen:
        """Of the training triples `[triple 3]`."""
        entities, relations = np.zeros(n_entities, np.bool_), np.zeros(n_relations, np.bool_)
        entities[triples[:, [0, 2]]] = True
        relations[triples[:, 1]] = True
        return cls(entities, relations)

    def strata(self, triples: NDArray[np.integer]) -> NDArray[np.str_]:
        """The stratum of each of `triples [triple 3]`, one of `STRATA`.

        "seen": head, relation and tail were trained; "unseen": neither head nor tail; "half seen":
        all others, one entity or the relation alone being unseen.
        """
        ends = self.entities[triples[:, [0, 2]]]
        is_seen = ends.all(1) & self.relations[triples[:, 1]]
        names = np.array(STRATA)
        return np.asarray(names[np.where(is_seen, 0, np.where(ends.any(1), 1, 2))])


@dataclass(frozen=True, eq=False)
class Splits:
    """A graph that has all triples' ids, and the three splits `[triple 3]`.

    Splits of a graph are disjoint; overlaps in a benchmark folder are kept, and counted by
    `shared`. `notes` say what a reader of the folder should know.
    """

    graph: KnowledgeGraph
    train: NDArray[np.int32]
    valid: NDArray[np.int32]
    test: NDArray[np.int32]
    notes: tuple[str, ...] = ()

    def as_mapping(self) -> dict[str, NDArray[np.int32]]:
        """Split name -> triples, as `Filter` and the leak audit take them."""
        return {name: getattr(self, name) for name in SPLITS}

    @property
    def splits_hash(self) -> str:
        """SHA-256 of which triples stand in which split; their order and repeats change nothing."""
        digest = hashlib.sha256()
        for name, rows in self.as_mapping().items():
            distinct = np.unique(rows, axis=0)
            digest.update(f"{name} {len(distinct)}\n".encode())
            digest.update(distinct.astype("<i4").tobytes())
        return digest.hexdigest()

    def shared(self) -> dict[str, int]:
        """`"test in train"` -> triples of the one that stand in the other too; no pair with none.

        Such test triples were trained on.
        """
        sizes = (self.graph.n_entities, self.graph.n_relations, self.graph.n_entities)
        keys = {
            name: np.ravel_multi_index(tuple(rows.T), sizes)
            for name, rows in self.as_mapping().items()
        }
        shared = {
            f"{later} in {earlier}": int(np.isin(keys[later], keys[earlier]).sum())
            for earlier, later in combinations(SPLITS, 2)
        }
        return {pair: n for pair, n in shared.items() if n}

    def distinct(self, name: str) -> NDArray[np.int32]:
        """Return the triples of a split, each once, in the order in which they first occur."""
        rows = self.as_mapping()[name]
        first = np.unique(rows, axis=0, return_index=True)[1]
        return np.asarray(rows[np.sort(first)])

    def repeats(self) -> dict[str, int]:
        """Return how many triples of each split repeat an earlier one; no split without."""
        n = {name: len(rows) - len(self.distinct(name)) for name, rows in self.as_mapping().items()}
        return {name: count for name, count in n.items() if count}

    def reversed_in_train(self) -> dict[str, int]:
        """Return how many triples of valid and test have their two entities the other way round in
        a training triple of any relation; no split without.

        Most of these can be answered by rote (Toutanova and Chen 2015; Dettmers et al. 2018). A
        triple of an entity with itself has no other way round.
        """
        n = self.graph.n_entities
        pairs = self.train[:, 2].astype(np.int64) * n + self.train[:, 0]
        counts = {}
        for name in SPLITS[1:]:
            rows = self.as_mapping()[name].astype(np.int64)
            is_reversed = np.isin(rows[:, 0] * n + rows[:, 2], pairs)
            counts[name] = int((is_reversed & (rows[:, 0] != rows[:, 2])).sum())
        return {name: count for name, count in counts.items() if count}

    def n_unseen(self, name: str) -> int:
        """Triples of a split with an entity or a relation that no training triple has."""
        return int((self.seen.strata(self.as_mapping()[name]) != STRATA[0]).sum())

    @cached_property
    def seen(self) -> Seen:
        """What the training triples hold."""
        sizes = {"n_entities": self.graph.n_entities, "n_relations": self.graph.n_relations}
        return Seen.of(self.train, **sizes)


def read_splits(path: Path, *, holdout: float, seed: int, texts: bool = True) -> Splits:
    """Read `path`: a graph folder, or a benchmark (`kg_loaders.formats.benchmarks.folders`).

    A graph is split by `seed`: a share `holdout` of its triples is the test set, another the
    validation set. A benchmark brings its own splits; one that lacks valid, or valid and test, is
    cut likewise, which its `notes` say. Texts beside the triples are labels and descriptions
    (`kg_loaders.formats.benchmarks.texts`), unless `texts` is False. SourceError, DamageError,
    ConfigError say what is missing, empty or malformed.
    """
    if (path / "manifest.json").is_file():
        return _random_splits(KnowledgeGraph.open(path), holdout, seed)
    source = BenchmarkFolder.of(path)
    files = {name: source.find(name) for name in SPLITS}
    missing = [name for name, file in files.items() if file is None]
    if missing not in ([], ["valid"], ["valid", "test"]):
        raise _no_benchmark(path, missing[0])
    parts = {
        name: [] if file is None else [triple for _, triple in read_triples(file)]
        for name, file in files.items()
    }
    triples = [triple for part in parts.values() for triple in part]
    descriptions = texts_of_folder(
        source.folder,
        entities=(end for head, _, tail in triples for end in (head, tail)),
        relations=(triple.relation for triple in triples),
    )
    graph = graph_from_records([*triples, *(descriptions if texts else ())], sources=[path.name])
    entities = {name: i for i, name in enumerate(graph.entities)}
    relations = {name: i for i, name in enumerate(graph.relations)}
    train, valid, test = (
        np.array([(entities[h], relations[r], entities[t]) for h, r, t in part], np.int32)
        for part in parts.values()
    )
    splits = Splits(graph, train, valid, test, _notes(path, missing, holdout))
    return _with_missing_splits(splits, missing, holdout, seed)


def whole_graph(path: Path) -> Splits:
    """Read `path` for a scorer that was trained elsewhere: all triples of a graph folder are read.

    A benchmark has its own splits (`read_splits`).
    """
    if not (path / "manifest.json").is_file():
        return read_splits(path, holdout=0.05, seed=0)
    graph = KnowledgeGraph.open(path)
    rows = np.asarray(graph.triples)
    return Splits(graph, rows, rows[:0], rows[:0], ())


def _no_benchmark(path: Path, name: str) -> SourceError:
    if path.is_file():
        return SourceError(
            f"{path} is a file, not the folder of a graph; make one of it with "
            f"`kept kg build {path} -o kg/`"
        )
    return SourceError(
        f"{path} is neither a graph folder (manifest.json) nor a benchmark folder: "
        f"{name}{{{','.join(ALL)}}} is missing"
    )


def _notes(path: Path, missing: list[str], holdout: float) -> tuple[str, ...]:
    """What a reader of the folder should know."""
    notes = []
    if missing:
        notes.append(f"{path} has no {' and no '.join(missing)}: {holdout:.0%} of train for each")
    other = path.with_name(f"{path.name}_ind")
    if path.is_dir() and other.is_dir():
        notes.append(
            f"{other} is the test graph (the form of GraIL): evaluate on it with `kept kgc "
            f"eval {other}`"
        )
    return tuple(notes)


def _with_missing_splits(splits: Splits, missing: list[str], holdout: float, seed: int) -> Splits:
    """The same with the splits that are missing cut from train."""
    if not missing:
        return splits
    n = round(len(splits.train) * holdout)
    if not 0 < holdout < 0.5 or n < 1 or len(missing) * n >= len(splits.train):
        raise _cut_error(holdout, len(splits.train))
    rows = splits.train[np.random.default_rng(seed).permutation(len(splits.train))]
    valid, rest = rows[:n], rows[n:]
    if "test" not in missing:
        return replace(splits, train=rest, valid=valid)
    return replace(splits, train=rest[n:], valid=valid, test=rest[:n])


def _cut_error(holdout: float, n_triples: int) -> ConfigError:
    return ConfigError(
        f"holdout {holdout} of {n_triples} triples leaves nothing to train or to test; "
        "give a larger graph, or with --holdout a share between 0 and 0.5 that is at least one "
        "triple"
    )


def _random_splits(graph: KnowledgeGraph, holdout: float, seed: int) -> Splits:
    n = round(graph.n_triples * holdout)
    if not 0 < holdout < 0.5 or n < 1 or 2 * n >= graph.n_triples:
        raise _cut_error(holdout, graph.n_triples)
    order = np.random.default_rng(seed).permutation(graph.n_triples)
    rows = np.asarray(graph.triples)
    return Splits(graph, rows[order[2 * n :]], rows[order[n : 2 * n]], rows[order[:n]])


def read_negatives(folder: Path, splits: Splits) -> dict[str, NDArray[np.int32]]:
    """False triples of valid and test `[triple 3]`: `valid_negatives` and `test_negatives`.

    The files end as those of `read_splits` do, or are KoPA's (`NAME-valid.json`). UnknownNodeError:
    a name that no split holds, with its line; SourceError: no file, or an empty one.
    """
    graph = splits.graph
    entities, relations = graph.entities, graph.relations
    negatives = {}
    for name in ("valid", "test"):
        rows = []
        for line, (head, relation, tail) in _negatives(folder, name):
            try:
                rows.append((entities.id(head), relations.id(relation), entities.id(tail)))
            except UnknownNodeError as error:
                raise UnknownNodeError(
                    f"{line}: {error}; drop the line, or give the negatives of this benchmark"
                ) from error
        negatives[name] = np.array(rows, np.int32)
    return negatives


def _negatives(folder: Path, name: str) -> Iterator[tuple[str, Triple]]:
    path = BenchmarkFolder(folder).find(f"{name}_negatives")
    if path is not None:
        return read_triples(path)
    rows = read_kopa_negatives(folder, name)
    if rows is None:
        raise SourceError(
            f"{folder} has neither {name}_negatives{{{','.join(ALL)}}} nor KoPA's *-{name}.json"
        )
    return rows
