"""Studies of cells: the outcome of a row under a seed, one JSON file each, with what it came from.

For rows that are compared with one another, without controls of their knowledge (`Study` is for
those). A `CellTrial` says what a cell depends on and how it is made; running what is missing,
effects over seeds and items, and the parts of a page are here.

Axis legend: seed, group (items that are not independent), count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kept.errors import ConfigError
from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import Counts, accuracy_counts, f1_value
from kept.lab.study import store
from kept.lab.study.origins import Origin, read_stored, write_stored
from kept.lab.study.tables import Table

Key = tuple[str, int]
"""A row and a seed."""
Cells = dict[str, dict[int, Any]]
"""By row and seed, what was stored."""
NONE = "–"
"""A cell of a table for which there are too few outcomes."""


class CellTrial(ABC):
    """How the cells of a study are made; they lie in `folder`."""

    folder: Path

    @property
    @abstractmethod
    def rows(self) -> Sequence[str]:
        """The names of the rows, in the order of the table."""

    @abstractmethod
    def seeds(self, row: str) -> Sequence[int]:
        """Return the seeds that a row is run with; one where nothing in it is drawn."""

    @abstractmethod
    def origin(self, row: str, seed: int) -> Origin:
        """Return fingerprints of all that a cell depends on."""

    @abstractmethod
    def run(self, row: str, seed: int) -> Any:
        """Return the outcome of a row under a seed, as JSON values."""

    def path(self, row: str, seed: int) -> Path:
        """Return the file of a cell."""
        return self.folder / "cells" / f"{row}-{seed}.json"

    def summary(self, row: str, seed: int, cell: Any) -> str:
        """Return what is printed about a cell; "": nothing."""
        return ""

    def read(self, row: str, seed: int) -> Any | None:
        """Return a stored cell, None where there is none.

        Raises `CheckpointError` for a file that came from other settings or data.
        """
        return read_stored(self.path(row, seed), self.origin(row, seed))

    def write(self, row: str, seed: int, cell: Any) -> None:
        """Store a cell."""
        write_stored(self.path(row, seed), self.origin(row, seed), cell)

    def make(self, row: str, seed: int) -> Any:
        """Run a row under a seed, and return its cell, which is stored."""
        cell = self.run(row, seed)
        self.write(row, seed, cell)
        return cell

    def cell(self, row: str, seed: int) -> Any:
        """Return a cell, made where it is missing."""
        stored = self.read(row, seed)
        return self.make(row, seed) if stored is None else stored

    def keys(self, rows: Sequence[str] | None = None, seed: int | None = None) -> list[Key]:
        """Return rows with their seeds, seed by seed: some rows, one seed, or all.

        Raises `ConfigError` for a row or a seed that the study has not.
        """
        chosen = self.rows if rows is None else rows
        if odd := [row for row in chosen if row not in self.rows]:
            raise ConfigError(f"there is no row {odd[0]!r}; rows are {', '.join(self.rows)}")
        seeds = list(dict.fromkeys(each for row in chosen for each in self.seeds(row)))
        if seed is not None and seed not in seeds:
            raise ConfigError(f"there is no seed {seed}; seeds are {', '.join(map(str, seeds))}")
        return [
            (row, each)
            for each in (seeds if seed is None else [seed])
            for row in chosen
            if each in self.seeds(row)
        ]

    def run_missing(
        self,
        keys: Iterable[Key] | None = None,
        *,
        announce: Callable[[str], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make the missing cells of `keys` (None: all); after `should_stop` none is begun."""
        for row, seed in self.keys() if keys is None else keys:
            cell = self.read(row, seed)
            if cell is None and not should_stop():
                cell = self.make(row, seed)
            if cell is not None and (line := self.summary(row, seed, cell)):
                announce(line)

    def stored(self) -> Cells:
        """Return the cells that are there; rows without any are left out."""
        cells: Cells = {}
        for row in self.rows:
            for seed in self.seeds(row):
                if (cell := self.read(row, seed)) is not None:
                    cells.setdefault(row, {})[seed] = cell
        return cells


class PlainCellTrial(CellTrial):
    """Cells that are stored alone: the name of a file says all that its cell depends on.

    A cell is made by one process at a time, and is read as a value of the type `form`.
    """

    form: Any = object

    def origin(self, row: str, seed: int) -> Origin:
        """Return nothing."""
        return {}

    def read(self, row: str, seed: int) -> Any | None:
        """Return a stored cell, None where there is none; CheckpointError for a faulty file."""
        return store.read_stored(self.path(row, seed), self.form)

    def write(self, row: str, seed: int, cell: Any) -> None:
        """Store a cell."""
        store.update_stored(self.path(row, seed), lambda: cell)

    def make(self, row: str, seed: int) -> Any:
        """Run a row under a seed, and return its cell, which is stored."""
        return store.stored_once(self.path(row, seed), self.form, lambda: self.run(row, seed))


# ---- effects -------------------------------------------------------------------------------------
def digits(right: Iterable[bool]) -> str:
    """Return one digit an answer, 1 where it is right.

    >>> digits([True, False])
    '10'
    """
    return "".join("01"[bool(is_right)] for is_right in right)


def counts_of_digits(right: str, groups: Sequence[object]) -> Counts:
    """Return right, answered and asked of each group; `f1_value` of them is the accuracy."""
    return accuracy_counts([digit == "1" for digit in right], groups)


def share(right: str) -> float:
    """Return the share of ones.

    >>> share("1100")
    0.5
    """
    return right.count("1") / len(right)


def mean_effect(counts: Iterable[Counts]) -> Effect:
    """Return the score over seeds, each with counts `[group count]`."""
    return effect(np.stack(list(counts)), f1_value)


def paired_effect(ours: Mapping[int, Counts], theirs: Mapping[int, Counts]) -> Effect:
    """Return ours minus theirs over the seeds that both have.

    A side of one seed is paired with every seed of the other.
    """
    if 1 in (len(ours), len(theirs)):
        seeds = sorted({*ours} | {*theirs})
        ours, theirs = (_repeated(side, seeds) for side in (ours, theirs))
    both = [seed for seed in ours if seed in theirs]
    return difference([ours[s] for s in both], [theirs[s] for s in both], f1_value)


def paired_effects(
    counts: Mapping[str, Mapping[int, Counts]], pairs: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, Effect]]:
    """Yield the name and the paired effect of each pair of rows that are both there."""
    for ours, theirs in pairs:
        if ours in counts and theirs in counts:
            yield f"{ours} − {theirs}", paired_effect(counts[ours], counts[theirs])


def _repeated(side: Mapping[int, Counts], seeds: Sequence[int]) -> Mapping[int, Counts]:
    return dict.fromkeys(seeds, next(iter(side.values()))) if len(side) == 1 else side


# ---- the page ------------------------------------------------------------------------------------
def page_of(title: str, command: str, *parts: str | Table) -> str:
    """Return a Markdown page: title, command, paragraphs and tables, without what is empty."""
    head = [f"# {title}", *([f"`{command}`"] if command else [])]
    texts = (part.compact() if isinstance(part, Table) else part.strip() for part in parts if part)
    return "\n\n".join([*head, *texts]) + "\n"
