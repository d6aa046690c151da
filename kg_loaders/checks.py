"""`check`: possible faults of a graph, as a coded report.

Errors mean that results will be wrong; warnings, that someone should look.

| code | finding |
|------|---------|
| E101 | malformed lines were rejected when the graph was loaded |
| E201 | a triple of a split is also in the graph |
| W301 | duplicates were dropped when the graph was loaded |
| W401 | an entity without any triple (it has texts only) |
| W402 | an entity of a triple without a label |
| W403 | a relation without a label |
| W404 | a label or alias, case aside, that several entities share |
| W405 | a triple whose head is its tail |
| W406 | two relations that mirror each other (inverse twins), or one that mirrors itself |
| W407 | a relation whose identifier is that of an entity with a label: columns in another order? |
| W501 | a triple of a split whose ends are joined the other way round in the graph |
| W502 | a triple of a split with an entity that has no triple in the graph |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from kg_loaders.damage import DamageReport
from kg_loaders.records import TextKind
from kg_loaders.store import KnowledgeGraph

N_EXAMPLES = 5
TWIN_SHARE = 0.95

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the report; `share` is `n` among the `n_asked` things looked at."""

    code: str
    message: str
    n: int
    n_asked: int
    examples: tuple[str, ...]

    @property
    def is_error(self) -> bool:
        return self.code.startswith("E")

    @property
    def share(self) -> float:
        return self.n / self.n_asked if self.n_asked else 0.0

    def __str__(self) -> str:
        examples = f": {'; '.join(self.examples)}" if self.examples else ""
        more = "; ..." if self.n > len(self.examples) > 0 else ""
        return f"{self.code} {self.message}: {self.n} of {self.n_asked}{examples}{more}"


def check(
    graph: KnowledgeGraph,
    *,
    splits: Mapping[str, KnowledgeGraph] | None = None,
    damage: DamageReport | None = None,
) -> list[Finding]:
    """All findings with something in them, errors first, then by code.

    `splits` are held-out graphs (validation, test) that must not leak into `graph`; `damage` is
    the report of its load, to show places where the graph itself remembers only counts.
    """
    findings = [
        *_of_load(graph, damage),
        *_of_coverage(graph),
        _alias_clashes(graph),
        _loops(graph),
        _twins(graph),
        labelled_as_entities(graph),
    ]
    for name, split in (splits or {}).items():
        findings += _of_split(graph, name, split)
    return sorted((f for f in findings if f.n), key=lambda f: (f.code, f.message))


def labelled_as_entities(graph: KnowledgeGraph) -> Finding:
    """Relations whose identifier is that of an entity with a label.

    Where most are, the columns of the triples probably stand in another order than was said.
    """
    ids = graph.entities.ids(graph.relations.array)
    labelled = _with_label(graph.entity_texts.nodes(), graph.entity_texts.kinds, graph.n_entities)
    rows = np.flatnonzero((ids >= 0) & np.append(labelled, False)[ids])
    names = tuple(graph.relations.name(int(i)) for i in rows[:N_EXAMPLES])
    message = "relations that are entities with a label"
    return Finding("W407", message, len(rows), graph.n_relations, names)


def to_json(findings: Iterable[Finding]) -> bytes:
    """A JSON array, one object per finding."""
    return msgspec.json.format(msgspec.json.encode(list(findings)), indent=2)


def _of_load(graph: KnowledgeGraph, damage: DamageReport | None) -> list[Finding]:
    counts = damage.counts() if damage else graph.manifest.load_counts
    n_lines, n_rejected = counts.get("n_lines", 0), counts.get("n_rejected", 0)
    faults = (f"{reason} ({n})" for reason, n in graph.manifest.load_faults.items())
    places = map(str, damage.rejections) if damage else faults
    return [
        Finding("E101", "malformed lines", n_rejected, n_lines, tuple(places)[:N_EXAMPLES]),
        Finding("W301", "duplicates", counts.get("n_duplicates", 0), n_lines, ()),
    ]


def _of_coverage(graph: KnowledgeGraph) -> list[Finding]:
    connected = _connected(graph)
    labelled = _with_label(graph.entity_texts.nodes(), graph.entity_texts.kinds, graph.n_entities)
    named = _with_label(graph.relation_texts.nodes(), graph.relation_texts.kinds, graph.n_relations)
    rows = (
        ("W401", "entities without a triple", ~connected, len(connected), graph.entities),
        ("W402", "entities of triples without a label", connected & ~labelled,
         int(connected.sum()), graph.entities),
        ("W403", "relations without a label", ~named, len(named), graph.relations),
    )  # fmt: skip
    return [
        Finding(
            code,
            message,
            int(mask.sum()),
            n_asked,
            tuple(names.name(int(i)) for i in np.flatnonzero(mask)[:N_EXAMPLES]),
        )
        for code, message, mask, n_asked, names in rows
    ]


def _connected(graph: KnowledgeGraph) -> NDArray[np.bool_]:
    return (np.diff(graph.out_offsets) + np.diff(graph.in_offsets)) > 0


def _with_label(nodes: Ids, kinds: NDArray[np.uint8], n_nodes: int) -> NDArray[np.bool_]:
    return np.bincount(nodes[kinds == TextKind.LABEL], minlength=n_nodes) > 0


def _alias_clashes(graph: KnowledgeGraph) -> Finding:
    texts = graph.entity_texts
    rows = np.flatnonzero(texts.kinds <= TextKind.ALIAS)
    owners: dict[str, dict[int, None]] = {}
    for row, node in zip(rows.tolist(), texts.nodes()[rows].tolist(), strict=True):
        owners.setdefault(texts.values[row].as_py().casefold(), {})[node] = None
    clashes = sorted(
        ((name, nodes) for name, nodes in owners.items() if len(nodes) > 1),
        key=lambda pair: (-len(pair[1]), pair[0]),
    )
    examples = tuple(
        f"{name!r} ({len(nodes)}: "
        + ", ".join(graph.entities.name(node) for node in list(nodes)[:N_EXAMPLES])
        + ")"
        for name, nodes in clashes[:N_EXAMPLES]
    )
    return Finding("W404", "names of several entities", len(clashes), len(owners), examples)


def _loops(graph: KnowledgeGraph) -> Finding:
    rows = np.flatnonzero(graph.triples[:, 0] == graph.triples[:, 2])
    examples = _examples(graph, graph.triples[rows[:N_EXAMPLES]])
    return Finding("W405", "triples whose head is their tail", len(rows), graph.n_triples, examples)


def _twins(graph: KnowledgeGraph) -> Finding:
    """Relations r, s with `r(h, t)` for nearly every `s(t, h)` and the other way round."""
    triples = graph.triples[graph.triples[:, 0] != graph.triples[:, 2]]
    pairs = triples[:, 0].astype(np.int64) * graph.n_entities + triples[:, 2]
    mirrored = triples[:, 2].astype(np.int64) * graph.n_entities + triples[:, 0]
    by_pair = np.argsort(pairs, kind="stable")
    low = np.searchsorted(pairs[by_pair], mirrored, "left")
    high = np.searchsorted(pairs[by_pair], mirrored, "right")
    counts = high - low
    before = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(low - before, counts)
    first = np.repeat(triples[:, 1], counts).astype(np.int64)
    codes, n_both = np.unique(
        first * graph.n_relations + triples[by_pair[places], 1], return_counts=True
    )
    n_of = np.bincount(triples[:, 1], minlength=graph.n_relations)
    twins = [
        (int(r), int(s), int(n))
        for code, n in zip(codes.tolist(), n_both.tolist(), strict=True)
        for r, s in [divmod(code, graph.n_relations)]
        if r <= s and n >= TWIN_SHARE * max(n_of[r], n_of[s])
    ]
    examples = tuple(
        f"{graph.relations.name(r)} and {graph.relations.name(s)} ({n} triples)"
        for r, s, n in twins[:N_EXAMPLES]
    )
    return Finding("W406", "relations that mirror one another", len(twins), len(codes), examples)


def _of_split(graph: KnowledgeGraph, name: str, split: KnowledgeGraph) -> list[Finding]:
    triples = split.triples
    if split.id_space_hash != graph.id_space_hash:
        entities = graph.entities.ids(split.entities.array)
        relations = graph.relations.ids(split.relations.array)
        heads, tails = entities[triples[:, 0]], entities[triples[:, 2]]
        triples = np.stack([heads, relations[triples[:, 1]], tails], axis=1)
    inside = graph.contains(triples)
    known = (triples[:, [0, 2]] >= 0).all(axis=1)
    connected = np.append(_connected(graph), False)  # id -1, unknown, finds the last
    unseen = ~connected[triples[:, 0]] | ~connected[triples[:, 2]]
    reverse = np.zeros(len(triples), np.bool_)
    reverse[known] = _joined(graph, triples[known][:, [2, 0]])
    rows = (
        ("E201", f"triples of {name} that are in the graph", inside),
        ("W501", f"triples of {name} whose ends are joined the other way round", reverse),
        ("W502", f"triples of {name} with an unseen entity", unseen),
    )
    return [
        Finding(
            code,
            message,
            int(mask.sum()),
            len(triples),
            _examples(split, split.triples[np.flatnonzero(mask)[:N_EXAMPLES]]),
        )
        for code, message, mask in rows
    ]


def _joined(graph: KnowledgeGraph, pairs: Ids) -> NDArray[np.bool_]:
    """Whether some relation leads from head to tail, for `pairs [n 2]`."""
    keys = graph.triples[:, 0].astype(np.int64) * graph.n_entities + graph.triples[:, 2]
    return np.isin(pairs[:, 0].astype(np.int64) * graph.n_entities + pairs[:, 1], keys)


def _examples(graph: KnowledgeGraph, triples: Ids) -> tuple[str, ...]:
    return tuple(
        f"{graph.entities.name(h)} {graph.relations.name(r)} {graph.entities.name(t)}"
        for h, r, t in triples.tolist()
    )
