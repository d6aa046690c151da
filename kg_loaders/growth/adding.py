"""`add`: new entities, names and facts in a graph that is stored."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kg_loaders.build import Source, load
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import claim
from kg_loaders.store import KnowledgeGraph


@dataclass(frozen=True, slots=True)
class Added:
    """The graph that grew, the one before, and the report of what was read."""

    graph: KnowledgeGraph
    before: KnowledgeGraph
    report: DamageReport

    @property
    def n_new_entities(self) -> int:
        return self.graph.n_entities - self.before.n_entities

    @property
    def n_new_relations(self) -> int:
        return self.graph.n_relations - self.before.n_relations


def add(
    kg: str | Path,
    sources: Iterable[Source | Path | str],
    *,
    out: str | Path | None = None,
    force: bool = False,
    **options: Any,
) -> Added:
    """Write a graph that holds what `kg` and `sources` say to `out`, or in the place of `kg`.

    It has the content hash of a graph that is built of the sources of both; those of `kg` are not
    needed. Ids are ranks of names, so they may move: `graph.entities.ids(before.entities.array)`
    says where to. `options` are those of `load`. In the place of `kg` one process adds at a time,
    and what is there stays until the new graph is whole. Raises what `load` does, and `StoreError`.
    """
    target = Path(kg if out is None else out)
    is_same = os.path.realpath(target) == os.path.realpath(kg)
    with claim(f"{os.path.realpath(kg)}.adding"):
        before = KnowledgeGraph.open(kg)
        graph, report = load(sources, out=target, onto=before, force=force or is_same, **options)
    return Added(graph, before, report)
