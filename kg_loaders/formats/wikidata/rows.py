"""Triples and texts of a dump as they come, in lists, until they become a block."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kg_loaders.disk.arrow import numpy_of, strings_array
from kg_loaders.reading.blocks import Ids, TextBlock, TripleBlock, numbers_behind


class TripleRows:
    """Triples in runs of one head and one relation, which most often are a property of an item.

    `tails` are those of all runs, `ends` says where each run ends among them; `nodes` are heads,
    and `runs_behind` says how many runs there are up to the last of each. Every node has a run.
    """

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.runs_behind: list[int] = []
        self.relations: list[str] = []
        self.ends: list[int] = []
        self.tails: list[str] = []

    @property
    def n_whole(self) -> int:
        """Runs of nodes that have ended."""
        return self.runs_behind[-1] if self.runs_behind else 0

    def end_run(self, relation: str) -> None:
        """The tails since the last run, if any, are of this relation."""
        n = len(self.tails)
        if n > (self.ends[-1] if self.ends else 0):
            self.relations.append(relation)
            self.ends.append(n)

    def end_node(self, node: str) -> None:
        """The runs since the last node, if any, are of this one."""
        n = len(self.ends)
        if n > self.n_whole:
            self.nodes.append(node)
            self.runs_behind.append(n)

    def add(self, head: str, relation: str, tail: str) -> None:
        self.tails.append(tail)
        self.end_run(relation)
        self.end_node(head)

    def cut(self, n: int) -> None:
        """Forget all but the first `n` runs."""
        del self.relations[n:], self.ends[n:]
        del self.tails[self.ends[-1] if n else 0 :]
        n_nodes = bisect_right(self.runs_behind, n)
        del self.nodes[n_nodes:], self.runs_behind[n_nodes:]

    def block(self) -> TripleBlock:
        n_tails, n_runs = _lengths(self.ends), _lengths(self.runs_behind)
        relations = strings_array(self.relations, pa.string()).dictionary_encode()
        relation_ids = np.repeat(numpy_of(relations.indices), n_tails)
        nodes = strings_array(self.nodes, pa.string())
        tails = strings_array(self.tails, pa.string())
        heads = np.repeat(np.repeat(np.arange(len(nodes), dtype=np.int32), n_runs), n_tails)
        head_numbers, tail_numbers = numbers_behind("Q", nodes)[heads], numbers_behind("Q", tails)
        if (head_numbers >= 0).all() and (tail_numbers >= 0).all():
            ends = np.stack([head_numbers, tail_numbers], axis=1)
            return TripleBlock(ends, relation_ids, "Q", relations.dictionary)
        ends = np.stack([heads, np.arange(len(nodes), len(nodes) + len(tails))], axis=1)
        names = pa.concat_arrays([nodes, tails])
        return TripleBlock(ends.astype(np.int32), relation_ids, names, relations.dictionary)


class TextRows:
    """Texts of entities or of relations, in runs of one node; `ends` is where each run ends.

    `language_ids` are places in `languages`, which grow.
    """

    def __init__(self, is_relation: bool, languages: Iterable[str]) -> None:
        self.is_relation = is_relation
        self.nodes: list[str] = []
        self.ends: list[int] = []
        self.kinds: list[int] = []
        self.language_ids: list[int] = []
        self.values: list[str] = []
        self._languages = {name: number for number, name in enumerate(languages)}

    def by_place(self, terms: Mapping[str, Any]) -> Iterable[tuple[int, Any]]:
        """The place of each language, and what `terms` have in it."""
        places = self._languages
        return [(places.setdefault(name, len(places)), term) for name, term in terms.items()]

    def add(self, kind: int, language: str, value: str) -> None:
        self.kinds.append(kind)
        self.language_ids.append(self._languages.setdefault(language, len(self._languages)))
        self.values.append(value)

    def end_run(self, node: str) -> None:
        """The texts since the last run, if any, are of this node."""
        n = len(self.values)
        if n > (self.ends[-1] if self.ends else 0):
            self.nodes.append(node)
            self.ends.append(n)

    def cut(self, n: int) -> None:
        """Forget all but the first `n` texts, with which the last run ends."""
        del self.kinds[n:], self.language_ids[n:], self.values[n:]

    def block(self) -> TextBlock:
        return TextBlock(
            strings_array(self.nodes, pa.string()),
            np.repeat(np.arange(len(self.nodes), dtype=np.int32), _lengths(self.ends)),
            np.array(self.kinds, np.uint8),
            strings_array(self.values, pa.string()),
            np.array(self.language_ids, np.int32),
            tuple(self._languages),
            self.is_relation,
        )


def _lengths(ends: list[int]) -> Ids:
    bounds = np.array([0, *ends], np.int32)
    return bounds[1:] - bounds[:-1]
