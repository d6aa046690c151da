"""What a method reads of one text, in the form in which its view puts it before the encoder.

K-BERT's branches hang below their mention, ERNIE's slots below the first word of theirs, KnowBERT's
candidates below the span that they compete for, LUKE's entities below their mention, senses and
concepts below each word, E-BERT's entities between the words. CoLAKE's graph of nodes is drawn by
`kept.graphs.drawing.draw`.

Axis legend: node, mention, candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kept.batches import N_SPECIAL_ROWS, NONE, KnowledgeBatch
from kept.graphs.explain import N_LABEL
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.sentiment import PARTS
from kept.graphs.views import EBERTView, KBERTView, LUKEView, SensesView, View
from kept.graphs.views.ktnet import CONCEPTS
from kept.graphs.views.sentilare import PART
from kg_loaders.store import KnowledgeGraph

N_CANDIDATES = 8
"""Rows of candidates that are drawn below one mention; the rest is counted."""
EMPTY = "–"
"""A slot beside a word without an entity."""
_POLARITIES = ("negative", "positive", "neutral")


@dataclass(frozen=True, slots=True)
class Cell:
    """One box: `role` is a class of graph.css, `note` a position, a prior or empty."""

    role: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Neighbouring nodes of the input, and the rows of what hangs below them."""

    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()


@dataclass(slots=True)
class _Rows:
    """What hangs below each mention or word while it is collected: by (first, end) node."""

    of: dict[tuple[int, int], list[tuple[Cell, ...]]] = field(default_factory=dict)

    def add(self, start: int, stop: int, *cells: Cell) -> None:
        self.of.setdefault((start, stop), []).append(cells)


def form_of(
    built: WordKnowledgeGraph,
    batch: KnowledgeBatch,
    view: View,
    graph: KnowledgeGraph,
    tokenizer: Any,
) -> tuple[Column, ...]:
    """Return the columns of `batch`, which is `view` of `built`, in reading order.

    `batch` is one text without padding (Liu et al. 2020, figure 2, is such a picture of K-BERT).
    Nodes that a view puts behind the words hang below their mention; what is beside words hangs
    below them.
    """
    rows = _Rows()
    heads = _heads(built, batch, view, graph, tokenizer)
    n_nodes = len(heads)
    if isinstance(view, KBERTView):
        n_nodes = _branches(built, batch, view, tokenizer, rows)
    elif isinstance(view, LUKEView):
        n_nodes = _entities_behind(batch, graph, rows)
    elif batch.candidate_ids is not None:
        _candidates(batch, graph, rows)
    elif batch.entity_ids is not None:
        _slots(batch, graph, rows)
    elif batch.mention_spans is not None and batch.mention_labels is not None:
        _labels(batch, graph, rows)
    if batch.extra_ids is not None:
        _extras(batch, view, graph, rows)
    return tuple(_columns(heads[:n_nodes], rows))


def _heads(
    built: WordKnowledgeGraph,
    batch: KnowledgeBatch,
    view: View,
    graph: KnowledgeGraph,
    tokenizer: Any,
) -> list[Cell]:
    """The nodes in a row: word pieces, and between them entities where a view inserts some."""
    kinds, ids = batch.node_kinds[0].tolist(), batch.node_ids[0].tolist()
    positions = batch.positions[0].tolist()
    special = set(tokenizer.all_special_ids)
    cells = []
    for kind, number, position in zip(kinds, ids, positions, strict=True):
        if kind == NodeKind.ENTITY and isinstance(view, EBERTView):
            cells.append(Cell("anchor", _entity(graph, number), str(position)))
            continue
        role = "special" if number in special else "word"
        cells.append(Cell(role, tokenizer.convert_ids_to_tokens(number), str(position)))
    return cells


def _branches(
    built: WordKnowledgeGraph, batch: KnowledgeBatch, view: KBERTView, tokenizer: Any, rows: _Rows
) -> int:
    """Hang every branch below its mention; returns the number of nodes of the trunk."""
    n_words = node = int((built.kinds == NodeKind.WORD).sum())
    assert batch.mention_spans is not None
    spans, positions = batch.mention_spans[0].tolist(), batch.positions[0].tolist()
    for branch in view.branches(built):
        tokens = tokenizer.convert_ids_to_tokens(list(branch.pieces))
        cells = [
            Cell("relation" if kind == NodeKind.RELATION else "neighbour", token, str(positions[n]))
            for n, (token, kind) in enumerate(zip(tokens, branch.kinds, strict=True), start=node)
        ]
        rows.add(*spans[branch.anchor], *cells)
        node += len(branch.pieces)
    return n_words


def _entities_behind(batch: KnowledgeBatch, graph: KnowledgeGraph, rows: _Rows) -> int:
    """Hang every entity below its mention; returns the number of words."""
    assert batch.mention_spans is not None
    spans, kinds = batch.mention_spans[0].tolist(), batch.node_kinds[0].tolist()
    n_words: int = kinds.count(int(NodeKind.WORD))
    for span, number in zip(spans, batch.node_ids[0].tolist()[n_words:], strict=True):
        rows.add(*span, Cell("anchor", _entity(graph, number)))
    return n_words


def _candidates(batch: KnowledgeBatch, graph: KnowledgeGraph, rows: _Rows) -> None:
    assert batch.mention_spans is not None
    assert batch.candidate_ids is not None
    assert batch.candidate_priors is not None
    graphs = None if batch.mention_graphs is None else batch.mention_graphs[0].tolist()
    parts = (batch.mention_spans[0], batch.candidate_ids[0], batch.candidate_priors[0])
    for i, (span, ids, priors) in enumerate(zip(*(p.tolist() for p in parts), strict=True)):
        if graphs is not None and graphs[i]:
            continue  # of a further graph, whose names are not at hand
        candidates = [(n, p) for n, p in zip(ids, priors, strict=True) if n >= N_SPECIAL_ROWS]
        for number, prior in candidates[:N_CANDIDATES]:
            rows.add(*span, Cell("neighbour", _entity(graph, number), f"{prior:.2f}"))
        if len(candidates) > N_CANDIDATES:
            rows.add(*span, Cell("echo", f"and {len(candidates) - N_CANDIDATES} more"))


def _slots(batch: KnowledgeBatch, graph: KnowledgeGraph, rows: _Rows) -> None:
    assert batch.entity_ids is not None
    for node, number in enumerate(batch.entity_ids[0].tolist()):
        is_filled = number >= N_SPECIAL_ROWS
        cell = Cell("anchor", _entity(graph, number)) if is_filled else Cell("special", EMPTY)
        rows.add(node, node + 1, cell)


def _labels(batch: KnowledgeBatch, graph: KnowledgeGraph, rows: _Rows) -> None:
    """Entities of mentions that no encoder reads: losses of pre-training ask for them."""
    assert batch.mention_spans is not None
    assert batch.mention_labels is not None
    pairs = zip(batch.mention_spans[0].tolist(), batch.mention_labels[0].tolist(), strict=True)
    for span, number in pairs:
        if number >= N_SPECIAL_ROWS:
            rows.add(*span, Cell("echo", _entity(graph, number)))


def _extras(batch: KnowledgeBatch, view: View, graph: KnowledgeGraph, rows: _Rows) -> None:
    assert batch.extra_ids is not None
    for vocabulary, ids in batch.extra_ids.items():
        for node, slots in enumerate(ids[0].tolist()):
            for number in [n for n in slots if n != NONE][:N_CANDIDATES]:
                rows.add(node, node + 1, Cell("relation", _extra(vocabulary, number, view, graph)))


def _extra(vocabulary: str, number: int, view: View, graph: KnowledgeGraph) -> str:
    if vocabulary == CONCEPTS:
        return _entity(graph, number)
    if isinstance(view, SensesView):
        return view.names[number]
    if vocabulary == PART:
        return {n: name for name, n in PARTS.items()}.get(number, "other")
    return _POLARITIES[number] if number < len(_POLARITIES) else str(number)


def _entity(graph: KnowledgeGraph, row: int) -> str:
    return (
        graph.label(row - N_SPECIAL_ROWS)[:N_LABEL] if row >= N_SPECIAL_ROWS else "unknown entity"
    )


def _columns(heads: list[Cell], rows: _Rows) -> Iterator[Column]:
    """A column for each stretch with rows of its own; of overlapping ones the first is wider."""
    corners = sorted(rows.of, key=lambda positions: (positions[0], -positions[1]))
    node = 0
    for start, stop in corners:
        if start < node:  # within a stretch that has a column: its rows follow there
            continue
        yield from (Column((cell,)) for cell in heads[node:start])
        inner = [r for p in corners if start <= p[0] < stop for r in rows.of[p]]
        yield Column(tuple(heads[start:stop]), tuple(inner))
        node = stop
    yield from (Column((cell,)) for cell in heads[node:])
