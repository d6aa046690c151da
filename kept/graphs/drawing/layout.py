"""Where each node of a word-knowledge graph is drawn.

Words and anchors run in lines from left to right; the facts of an anchor hang below its line in a
column of rows "relation, entity". Lengths are in pixels of an SVG.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from kept.graphs.explain import Explained, ends_of, facts_of
from kept.graphs.graph import EdgeKind, WordKnowledgeGraph

WIDTH = 1120
MARGIN = 16
BOX = 26
ROW = 36
_GAP, _COLUMN_GAP, _ARROW = 9, 30, 30
_LONGEST = {"relation": 190.0, "neighbour": 210.0}


@dataclass(frozen=True, slots=True)
class Box:
    """A node on the page. `is_echo`: a second picture of a node that stands elsewhere."""

    node: int
    x: float
    y: float
    width: float
    text: str
    is_echo: bool = False

    @property
    def middle(self) -> float:
        return self.y + BOX / 2


@dataclass(frozen=True, slots=True)
class Hanging:
    """A fact below `anchor`: its relation and its other entity; `from_anchor` if that is head."""

    anchor: Box
    relation: Box
    other: Box
    from_anchor: bool
    trunk: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything to draw: boxes of all nodes, hanging facts, height in pixels."""

    boxes: tuple[Box, ...]
    facts: tuple[Hanging, ...]
    height: float


@dataclass(slots=True)
class _Slot:
    """One place in a line: a node, perhaps with an anchor below it, and the anchor's facts."""

    node: int
    width: float
    needed: float
    gap: float
    below: int | None
    column: float


def text_width(text: str, size: float = 13) -> float:
    """Estimated width of `text` in a common sans-serif face."""
    units = sum(
        0.0
        if unicodedata.combining(c)
        else 1.0
        if unicodedata.east_asian_width(c) in "WF"
        else 0.39
        if c in "iljtfr.,;:'!|()[] "
        else 0.95
        if c in "mMW@%—"
        else 0.71
        if c.isupper()
        else 0.62
        for c in text
    )
    return size * units


def shorten(text: str, width: float) -> str:
    """`text`, cut with an ellipsis to at most `width`, and to so many characters."""
    most = max(int(width), 1)
    if len(text) <= most and text_width(text) <= width:
        return text
    text = text[:most]
    while text and text_width(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"


def lay_out(built: WordKnowledgeGraph, nodes: Sequence[Explained]) -> Drawing:
    """Place every node of `built`; lines break where words or columns of facts run out of room."""
    facts = facts_of(built)
    boxes: list[Box] = []
    hanging: list[Hanging] = []
    top = 0.0
    for line in _lines(_slots(built, nodes, facts)):
        top += 30
        anchors = _place_line(line, nodes, top, boxes)
        bottom = max([b.y + BOX for b in boxes[-len(line) :]] + [a.y + BOX for a in anchors])
        columns = [(a, facts[a.node]) for a in anchors if facts[a.node]]
        starts = _column_starts([(a.x, _column_width(built, nodes, f)) for a, f in columns])
        depth = bottom
        for (anchor, relations), start in zip(columns, starts, strict=True):
            for row, relation in enumerate(relations):
                y = bottom + 30 + row * ROW
                hanging.append(_hang(built, nodes, anchor, relation, start, y))
                depth = max(depth, y + BOX)
        top = depth + 14
    placed = {box.node for box in boxes}
    for fact in hanging:
        placed.add(fact.relation.node)
    return Drawing(tuple(boxes), tuple(_with_homes(hanging, placed)), top + 6)


def _slots(
    built: WordKnowledgeGraph, nodes: Sequence[Explained], facts: dict[int, list[int]]
) -> list[_Slot]:
    joined = built.edges[built.edge_kinds == EdgeKind.MENTION_ENTITY]
    first_word = {int(anchor): int(word) for word, anchor in joined[::-1]}
    below = {word: anchor for anchor, word in first_word.items()}
    inline = [n for n, node in enumerate(nodes) if node.role in ("word", "special", "anchor")]
    inline = [n for n in inline if n not in first_word]
    slots: list[_Slot] = []
    end = -1
    for node in sorted(inline, key=lambda n: (nodes[n].position, n)):
        start, stop = built.spans[node].tolist()
        anchor = node if node in facts else below.get(node)
        continues = nodes[node].role == "word" and start == end
        column = _column_width(built, nodes, facts[anchor]) if anchor is not None else 0.0
        width = _inline_width(nodes[node])
        under = below.get(node)
        needed = width if under is None else max(width, _inline_width(nodes[under]))
        slots.append(_Slot(node, width, needed, 2 if continues else _GAP, under, column))
        end = stop
    return slots


def _inline_width(node: Explained) -> float:
    bold = 1.1 if node.role == "anchor" else 1.0
    return max(bold * text_width(node.label) + (22 if node.role == "anchor" else 14), 24)


def _column_width(
    built: WordKnowledgeGraph, nodes: Sequence[Explained], relations: Sequence[int]
) -> float:
    if not relations:
        return 0.0
    others = [n for r in relations for n in ends_of(built, r)]
    relation = max(_injected_width(nodes[r], "relation") for r in relations)
    return 14 + relation + _ARROW + max(_injected_width(nodes[n], "neighbour") for n in others)


def _injected_width(node: Explained, kind: str) -> float:
    return min(text_width(node.label), _LONGEST[kind]) + 50


def _lines(slots: Sequence[_Slot]) -> list[list[_Slot]]:
    lines: list[list[_Slot]] = []
    width = columns = float(WIDTH)
    for slot in slots:
        grown = columns + slot.column + (_COLUMN_GAP if slot.column and columns else 0)
        room = WIDTH - 2 * MARGIN
        if not lines or width + slot.gap + slot.needed > room or (slot.column and grown > room):
            lines.append([])
            width, grown = 0.0, slot.column
        lines[-1].append(slot)
        width += slot.gap + slot.needed
        columns = grown
    return lines


def _place_line(
    line: Sequence[_Slot], nodes: Sequence[Explained], top: float, boxes: list[Box]
) -> list[Box]:
    """Add the boxes of a line to `boxes`; returns its anchors."""
    x: float = MARGIN
    anchors: list[Box] = []
    for slot in line:
        x += slot.gap if x > MARGIN else 0
        box = Box(slot.node, x, top, slot.width, nodes[slot.node].label)
        boxes.append(box)
        if nodes[slot.node].role == "anchor":
            anchors.append(box)
        if slot.below is not None:
            label = nodes[slot.below].label
            width = _inline_width(nodes[slot.below])
            anchors.append(Box(slot.below, x, top + 46, width, label))
        x += slot.width
    below = [i for i, anchor in enumerate(anchors) if anchor.y > top]
    starts = _column_starts([(anchors[i].x, anchors[i].width) for i in below], gap=_GAP)
    for i, start in zip(below, starts, strict=True):
        box = anchors[i]
        anchors[i] = Box(box.node, start, box.y, box.width, box.text)
        boxes.append(anchors[i])
    return anchors


def _column_starts(
    wishes: Sequence[tuple[float, float]], *, gap: float = _COLUMN_GAP
) -> list[float]:
    """Left edges of columns (wanted left edge, width): no overlap, near the wish, on the page."""
    starts: list[float] = []
    free: float = MARGIN
    for x, width in wishes:
        starts.append(max(x, free))
        free = starts[-1] + width + gap
    end: float = WIDTH - MARGIN
    for i in range(len(starts) - 1, -1, -1):
        starts[i] = max(min(starts[i], end - wishes[i][1]), MARGIN)
        end = starts[i] - gap
    return starts


def _hang(
    built: WordKnowledgeGraph,
    nodes: Sequence[Explained],
    anchor: Box,
    relation: int,
    start: float,
    y: float,
) -> Hanging:
    head, tail = ends_of(built, relation)
    from_anchor = head == anchor.node
    other = tail if from_anchor else head
    x = start + 14
    boxes = []
    for node, kind in ((relation, "relation"), (other, "neighbour")):
        width = _injected_width(nodes[node], kind)
        boxes.append(Box(node, x, y, width, shorten(nodes[node].label, _LONGEST[kind])))
        x += width + _ARROW
    return Hanging(anchor, boxes[0], boxes[1], from_anchor, start)


def _with_homes(facts: Sequence[Hanging], placed: set[int]) -> list[Hanging]:
    """Mark every entity that was placed before (an anchor, an earlier fact) as an echo."""
    marked = []
    for fact in facts:
        box = fact.other
        echo = Box(box.node, box.x, box.y, box.width, box.text, box.node in placed)
        placed.add(box.node)
        marked.append(Hanging(fact.anchor, fact.relation, echo, fact.from_anchor, fact.trunk))
    return marked
