"""Entities that may be the same: proposed with reasons, decided by a person, merged.

    {"same": null, "keep": "Q90", "drop": "Q830149", "score": 0.81, "names": ["paris"], ...}

A line a pair, in JSON. Who decides writes true or false in the place of null; `merged` makes one
entity of each pair that is the same, and knows the name of the dropped one as an alias.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kg_loaders.assembly import Columns
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_lines
from kg_loaders.errors import DamageError, SourceError, UnknownNodeError
from kg_loaders.reading.blocks import TextBlock, TripleBlock, taken
from kg_loaders.reading.lines import JSON_FAULTS, read_lines
from kg_loaders.records import Text, TextKind
from kg_loaders.store import KnowledgeGraph
from kg_loaders.stored_blocks import blocks_of

MOST_SHARING = 10
"""A name that more entities than this share proposes nothing: it is a common one."""
INSTANCE_OF = "P31"


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two entities that may be one; `same` is None until a person has decided."""

    same: bool | None = None
    keep: str
    drop: str
    score: float = 0.0
    names: tuple[str, ...] = ()
    same_types: float | None = None
    same_facts: float = 0.0
    labels: tuple[str, str] = ("", "")


def propose(graph: KnowledgeGraph) -> list[Pair]:
    """Return pairs of entities that share a name, the likeliest first.

    Names are labels and aliases, case and forms of characters (NFKC) aside. The score is .5 for
    labels that are equal (.35 for another name), up to .25 for types and .25 for facts in common
    (Jaccard); half of what types would give where one of both has none. Of both, the entity with
    more facts is kept.
    """
    parts = _Parts(graph)
    pairs = [parts.pair(a, b, names) for (a, b), names in _sharing(graph).items()]
    return sorted(pairs, key=lambda pair: (-pair.score, pair.keep, pair.drop))


def write(pairs: Iterable[Pair], path: Path, *, force: bool = False) -> int:
    """Write a file in which to decide; returns the number of pairs."""
    return write_lines(path, (msgspec.json.encode(pair) + b"\n" for pair in pairs), force=force)


def read(path: Path, graph: KnowledgeGraph) -> list[Pair]:
    """Return the pairs of a file; `DamageError` names what is none, with its line."""
    report, pairs = DamageReport(), []
    for line_no, offset, line in read_lines(path, report):
        try:
            pair = msgspec.json.decode(line, type=Pair)
        except JSON_FAULTS as error:
            report.reject(str(path), line_no, offset, f"not a pair in JSON: {error}", line)
            continue
        for name in (pair.keep, pair.drop):
            if graph.entities.find(name) is None:
                report.reject(str(path), line_no, offset, f"{name!r} is not in the graph", line)
        if pair.keep == pair.drop:
            report.reject(str(path), line_no, offset, "an entity and itself", line)
        pairs.append(pair)
    if not pairs:
        raise SourceError(
            f"{path} holds no pair; write one by kept kg merge KG -o {path.name} and decide in it"
        )
    return pairs


@dataclass(frozen=True, slots=True)
class Merged:
    """A graph after merging, how many entities went, and how many facts joined one to itself."""

    graph: KnowledgeGraph
    n_merged: int
    n_loops: int


def merged(graph: KnowledgeGraph, pairs: Iterable[Pair]) -> Merged:
    """Return `graph` with one entity in the place of each two that are the same.

    `same` is an equivalence: all entities that pairs join, in any order, become one. Facts between
    them are left out; a fact that joined an entity to itself before stays. Raises `DamageError`
    where a pair that is not the same is joined by others that are, and `UnknownNodeError`.
    """
    target = _targets(graph, list(pairs))
    goes = target != np.arange(len(target), dtype=np.int32)
    n_merged = int(goes.sum())
    columns, n_loops = Columns(), 0
    for block in blocks_of(graph):
        if isinstance(block, TripleBlock):
            ends = target[block.ends]
            loop = (ends[:, 0] == ends[:, 1]) & (block.ends[:, 0] != block.ends[:, 1])
            n_loops += int(loop.sum())
            columns.add([_renamed(graph, block, ends[~loop], block.relation_ids[~loop])])
        elif block.is_relation:
            nodes, node_ids = taken(block.nodes, block.node_ids)
            columns.add([replace(block, nodes=nodes, node_ids=node_ids)])
        else:
            columns.add([_renamed_texts(graph, block, target, goes)])
    aliases = (
        Text(graph.entities.name(int(target[i])), TextKind.ALIAS, graph.entities.name(int(i)))
        for i in np.flatnonzero(goes)
    )
    columns.add(aliases)
    manifest = graph.manifest
    fields = columns.fields(
        languages=manifest.preferred or manifest.languages,
        sources=(*manifest.sources, f"{n_merged} entities merged"),
        licence=manifest.licence,
    )
    return Merged(KnowledgeGraph(**fields), n_merged, n_loops)


# ---- pairs ---------------------------------------------------------------------------------------
def _sharing(graph: KnowledgeGraph) -> dict[tuple[int, int], list[tuple[str, bool]]]:
    """Names, and whether each is a label of both, by pairs of the entities that share them."""
    texts = graph.entity_texts
    kinds = np.asarray(texts.kinds)
    rows = np.flatnonzero((kinds == TextKind.LABEL) | (kinds == TextKind.ALIAS))
    names = pc.utf8_lower(pc.utf8_normalize(texts.values.take(pa.array(rows)), "NFKC"))
    encoded = pc.utf8_trim_whitespace(names).dictionary_encode()
    codes, nodes = encoded.indices.to_numpy(), texts.nodes()[rows]
    order = np.lexsort((kinds[rows], nodes, codes))
    codes, nodes, is_label = codes[order], nodes[order], kinds[rows][order] == TextKind.LABEL
    first = np.ones(len(codes), np.bool_)
    first[1:] = (codes[1:] != codes[:-1]) | (nodes[1:] != nodes[:-1])
    codes, nodes, is_label = codes[first], nodes[first], is_label[first]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    pairs: dict[tuple[int, int], list[tuple[str, bool]]] = {}
    ends = np.append(starts[1:], len(codes))
    several = (ends - starts > 1) & (ends - starts <= MOST_SHARING)
    for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
        name = str(encoded.dictionary[int(codes[start])].as_py())
        for i in range(start, end):
            for j in range(i + 1, end):
                pair = (int(nodes[i]), int(nodes[j]))
                pairs.setdefault(pair, []).append((name, bool(is_label[i] and is_label[j])))
    return pairs


class _Parts:
    """What pairs are compared by."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        instance_of = graph.relations.find(INSTANCE_OF)
        self._instance_of = -1 if instance_of is None else instance_of

    def pair(self, a: int, b: int, names: list[tuple[str, bool]]) -> Pair:
        graph = self._graph
        facts, types = (self._facts(a), self._facts(b)), (self._types(a), self._types(b))
        same_types = _jaccard(*types) if all(types) else None
        same_facts = _jaccard(*facts)
        by_name = 0.5 if any(is_label for _, is_label in names) else 0.35
        score = by_name + 0.25 * (0.5 if same_types is None else same_types) + 0.25 * same_facts
        keep, drop = (a, b) if len(facts[0]) >= len(facts[1]) else (b, a)
        return Pair(
            keep=graph.entities.name(keep), drop=graph.entities.name(drop),
            score=round(score, 4), names=tuple(name for name, _ in names),
            same_types=None if same_types is None else round(same_types, 4),
            same_facts=round(same_facts, 4), labels=(graph.label(keep), graph.label(drop)),
        )  # fmt: skip

    def _facts(self, entity: int) -> set[tuple[int, int, bool]]:
        graph = self._graph
        return {(int(r), int(t), True) for _, r, t in graph.outgoing(entity).tolist()} | {
            (int(r), int(h), False) for h, r, _ in graph.incoming(entity).tolist()
        }

    def _types(self, entity: int) -> set[str | int]:
        types: set[str | int] = set(self._graph.types(entity))
        return types | {
            int(tail)
            for _, relation, tail in self._graph.outgoing(entity).tolist()
            if relation == self._instance_of
        }


def _jaccard(a: set[Any], b: set[Any]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


# ---- merging -------------------------------------------------------------------------------------
def _targets(graph: KnowledgeGraph, pairs: list[Pair]) -> NDArray[np.int32]:
    """What each entity becomes, int32 `[entity]`.

    `same` is an equivalence: all entities that its pairs join become one. It is the one that most
    pairs keep, of several the one that the fewest drop, and then the first by name.
    """
    n = graph.n_entities
    ends = [(_id(graph, pair.keep), _id(graph, pair.drop)) for pair in pairs]
    same = [end for end, pair in zip(ends, pairs, strict=True) if pair.same]
    if not same:
        return np.arange(n, dtype=np.int32)
    keeps, drops = np.array(same, np.int64).T
    links = coo_array((np.ones(len(keeps), np.int8), (keeps, drops)), shape=(n, n))
    group = connected_components(links)[1]  # weakly: by pairs in either direction
    for pair, (keep, drop) in zip(pairs, ends, strict=True):
        if pair.same is False and group[keep] == group[drop]:
            raise DamageError(
                f"{pair.keep!r} and {pair.drop!r} are decided to be different, and other pairs "
                f"make them the same: {_way(graph, same, keep, drop)}; set one of these to false, "
                "or this pair to true"
            )
    n_kept, n_dropped = np.bincount(keeps, minlength=n), np.bincount(drops, minlength=n)
    order = np.lexsort((np.arange(n), n_dropped, -n_kept, group))
    first = np.ones(n, np.bool_)
    first[1:] = group[order][1:] != group[order][:-1]
    chosen = order[first]  # one entity of each group, in the order of groups
    target: NDArray[np.int32] = chosen[group].astype(np.int32)
    return target


def _id(graph: KnowledgeGraph, name: str) -> int:
    id = graph.entities.find(name)
    if id is None:
        raise UnknownNodeError(f"{name!r} is not among the entities of {graph}")
    return id


def _way(graph: KnowledgeGraph, same: list[tuple[int, int]], start: int, end: int) -> str:
    """The shortest chain of pairs from one entity to another, as names."""
    import networkx as nx

    path = nx.shortest_path(nx.Graph(same), start, end)
    return " - ".join(graph.entities.name(i) for i in path)


def _renamed(
    graph: KnowledgeGraph, block: TripleBlock, ends: NDArray[np.int32], ids: NDArray[np.int32]
) -> TripleBlock:
    used, places = np.unique(ends, return_inverse=True)
    names = graph.entities.array.take(pa.array(used))
    relations, ids = taken(block.relations, ids)
    return TripleBlock(places.reshape(ends.shape).astype(np.int32), ids, names, relations)


def _renamed_texts(
    graph: KnowledgeGraph, block: TextBlock, target: NDArray[np.int32], goes: NDArray[np.bool_]
) -> TextBlock:
    """The texts with their new entities; labels of what goes are aliases."""
    nodes = target[block.node_ids]
    used, places = np.unique(nodes, return_inverse=True)
    is_label = goes[block.node_ids] & (block.kinds == TextKind.LABEL)
    kinds = np.where(is_label, TextKind.ALIAS, block.kinds).astype(np.uint8)
    return TextBlock(
        graph.entities.array.take(pa.array(used)), places.astype(np.int32), kinds, block.values,
        block.language_ids, block.languages, False, block.counts,
    )  # fmt: skip
