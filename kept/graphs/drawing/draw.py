"""A word-knowledge graph as a picture: SVG, or one offline HTML page.

Kinds differ by shape and by a colour-blind-safe colour (Okabe and Ito 2008): words are squares,
anchors blue pills, neighbour entities orange pills, relations green hexagons. Numbers are soft
positions. All text is escaped; nothing is fetched.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from kept.graphs.drawing.layout import (
    BOX,
    MARGIN,
    WIDTH,
    Box,
    Drawing,
    Hanging,
    lay_out,
    text_width,
)
from kept.graphs.explain import Explained, ambiguous_links, explain, fact_in_words, left_out
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views import adjacency, is_anchor
from kg_loaders.counting import counted
from kg_loaders.store import KnowledgeGraph

_LEGEND = (
    ("word", "word piece"),
    ("anchor", "anchor, the entity of a mention"),
    ("relation", "injected relation"),
    ("neighbour", "injected entity"),
    ("echo", "the same entity again"),
)
_LEGEND_HEIGHT = 40


def draw_svg(built: WordKnowledgeGraph, graph: KnowledgeGraph, tokenizer: Any) -> str:
    """The graph as a self-contained SVG; hovering a node tells why it is there."""
    nodes = explain(built, graph, tokenizer)
    drawing = lay_out(built, nodes)
    shapes = [_hanging(fact, nodes) for fact in drawing.facts]
    shapes += [_thread(built, drawing, box) for box in drawing.boxes]
    shapes += [_node(box, nodes[box.node]) for box in drawing.boxes]
    height = drawing.height + _LEGEND_HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kept graph" role="img" '
        f'aria-labelledby="graph-title graph-desc" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}">'
        f'<title id="graph-title">Word-knowledge graph of “{safe(built.text)}”</title>'
        f'<desc id="graph-desc">{safe(_summary_of(built, graph))}</desc>'
        f"<style>{asset('graph.css')}</style>"
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto-start-reverse"><path d="M0 0.8 7.4 4 0 7.2z"/></marker>'
        f'</defs>{_legend()}<g transform="translate(0 {_LEGEND_HEIGHT})">{"".join(shapes)}</g>'
        "</svg>"
    )


def draw_html(built: WordKnowledgeGraph, graph: KnowledgeGraph, tokenizer: Any) -> str:
    """One offline page: the picture, why each node is there, the facts, who sees whom."""
    nodes = explain(built, graph, tokenizer)
    visible = adjacency(built)
    data = {
        "nodes": [
            {
                "role": n.role,
                "label": clean(n.label),
                "position": n.position,
                "why": [clean(line) for line in n.why],
                "sees": np.flatnonzero(row).tolist(),
            }
            for n, row in zip(nodes, visible, strict=True)
        ]
    }
    page = asset("page.html")
    parts = {
        "title": safe(built.text[:80]),
        "style": asset("page.css"),
        "sentence": _sentence(built, graph),
        "summary": safe(" ".join([_summary_of(built, graph), *left_out(built, graph)])),
        "graph": draw_svg(built, graph, tokenizer),
        "facts": _facts_table(built, graph),
        "matrix": _matrix(built, nodes),
        "data": json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
        "script": asset("page.js"),
    }
    for name, value in parts.items():
        before, after = page.split(f"@@{name}@@")
        page = before + value.replace("@@", "@\u200b@") + after
    return page


def asset(name: str) -> str:
    """Return a file of this package, such as the style of all pictures."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def clean(text: str) -> str:
    """`text` with characters that XML forbids replaced by U+FFFD."""
    return "".join(
        c
        if c in "\t\n" or " " <= c < "\ud800" or "\ue000" <= c < "\ufffe" or c > "\uffff"
        else "\ufffd"
        for c in text
    )


def safe(text: str) -> str:
    """Return `text` as it may stand in HTML and SVG, in attributes too."""
    return escape(clean(text))


def _summary(built: WordKnowledgeGraph) -> str:
    counts = [int((built.kinds == kind).sum()) for kind in NodeKind]
    n_anchors = int(is_anchor(built).sum())
    return (
        f"{counts[0]} word pieces, {n_anchors} anchors, {counts[1] - n_anchors} neighbour "
        f"entities and {counted(counts[2], 'relations')}; {built.n_nodes} nodes in all."
    )


def _summary_of(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> str:
    return " ".join([_summary(built), *ambiguous_links(built, graph)])


def shape(role: str, x: float, y: float, width: float) -> str:
    """Return the outline of a box: its kind is told by its form as well as by its colour."""
    if role == "relation":
        points = [(0, 13), (10, 0), (width - 10, 0), (width, 13), (width - 10, 26), (10, 26)]
        return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points)}"/>'
    radius = {"word": 2, "special": 2}.get(role, 13)
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BOX}" rx="{radius}" '
        f'ry="{radius}"/>'
    )


def _node(box: Box, node: Explained) -> str:
    role = "echo" if box.is_echo else node.role
    x, y, middle = box.x, box.y, box.x + box.width / 2
    tip = "\n".join([f"{node.label} ({node.role}, position {node.position})", *node.why])
    kinds = f"{role} ambiguous" if node.is_ambiguous else role
    hung = role in ("relation", "neighbour", "echo")
    if hung:
        texts = (
            f'<text class="position" x="{x + 20:.1f}" y="{y + 17:.1f}">{node.position}</text>'
            f'<text class="label" x="{x + 35:.1f}" y="{y + 17.5:.1f}">{safe(box.text)}</text>'
        )
    else:
        texts = (
            f'<text class="position" x="{middle:.1f}" y="{y - 5:.1f}">{node.position}</text>'
            f'<text class="label middle" x="{middle:.1f}" y="{y + 17.5:.1f}">'
            f"{safe(box.text)}</text>"
        )
    return (
        f'<g class="node {kinds}" data-node="{box.node}" tabindex="0" role="img" '
        f'aria-label="{safe(tip)}"><title>{safe(tip)}</title>'
        f"{shape(role, x, y, box.width)}{texts}</g>"
    )


def _hanging(fact: Hanging, nodes: tuple[Explained, ...]) -> str:
    """A fact below its anchor, with its edges."""
    start = fact.anchor.x + fact.anchor.width / 2
    top, y, trunk = fact.anchor.y + BOX, fact.relation.middle, fact.trunk
    bend = top + 22
    arrow = f'marker-{"end" if fact.from_anchor else "start"}="url(#arrow)"'
    return (
        f'<path class="edge" data-edge="{fact.anchor.node} {fact.relation.node}" {arrow} '
        f'd="M{start:.1f} {top:.1f}C{start:.1f} {top + 16:.1f} {trunk:.1f} {top + 6:.1f} '
        f"{trunk:.1f} {bend:.1f}V{y - 6:.1f}Q{trunk:.1f} {y:.1f} {trunk + 6:.1f} {y:.1f}"
        f'H{fact.relation.x:.1f}"/>'
        f'<path class="edge" data-edge="{fact.relation.node} {fact.other.node}" '
        f"{arrow} "
        f'd="M{fact.relation.x + fact.relation.width:.1f} {y:.1f}H{fact.other.x:.1f}"/>'
        f"{_node(fact.relation, nodes[fact.relation.node])}"
        f"{_node(fact.other, nodes[fact.other.node])}"
    )


def _thread(built: WordKnowledgeGraph, drawing: Drawing, box: Box) -> str:
    """Edges from kept mention words down to the anchor in `box`."""
    words = built.edges[
        (built.edges[:, 1] == box.node) & (built.edge_kinds == EdgeKind.MENTION_ENTITY), 0
    ].tolist()
    homes = [word for word in drawing.boxes if word.node in words]
    end = box.x + box.width / 2
    return "".join(
        f'<path class="edge mention" data-edge="{word.node} {box.node}" '
        f'd="M{word.x + word.width / 2:.1f} {word.y + BOX}L{end:.1f} {box.y}"/>'
        for word in homes
    )


def _legend() -> str:
    x, parts = float(MARGIN), []
    for role, text in _LEGEND:
        parts.append(
            f'<g class="node {role}">{shape(role, x, 0, 36)}'
            f'<text class="key" x="{x + 43:.1f}" y="17.5">{text}</text></g>'
        )
        x += 43 + text_width(text, 12.5) + 16
    parts.append(f'<text class="key" x="{x:.1f}" y="17.5">number = soft position</text>')
    return f'<g class="legend" aria-hidden="true" transform="translate(0 3)">{"".join(parts)}</g>'


def _sentence(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> str:
    """The text with its anchored mentions marked."""
    parts, end = [], 0
    for node in np.flatnonzero(is_anchor(built)).tolist():
        start, stop = built.spans[node].tolist()
        name = safe(graph.entities.name(int(built.ids[node])))
        parts.append(safe(built.text[end:start]))
        parts.append(
            f'<mark data-node="{node}">{safe(built.text[start:stop])}<sub>{name}</sub></mark>'
        )
        end = stop
    return "".join([*parts, safe(built.text[end:])])


def _facts_table(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> str:
    """Rows of the facts that come from the graph."""
    rows = []
    for node in np.flatnonzero(built.kinds == NodeKind.RELATION).tolist():
        link, row, rank = built.origins[node].tolist()
        if row < 0:
            continue
        mention = built.links[link].mention
        head, relation, tail = graph.triples[row].tolist()
        names = (graph.entities.name(head), graph.relations.name(relation))
        cells = (
            fact_in_words(graph, row),
            built.text[mention.start : mention.end],
            str(rank + 1),
            " ".join((*names, graph.entities.name(tail))),
        )
        columns = "".join(f"<td>{safe(cell)}</td>" for cell in cells)
        rows.append(f'<tr data-node="{node}">{columns}</tr>')
    empty = '<tr><td colspan="4">No fact was injected.</td></tr>'
    return "".join(rows) or empty


def _matrix(built: WordKnowledgeGraph, nodes: tuple[Explained, ...]) -> str:
    """Who sees whom, as an SVG grid: rows are queries, columns keys."""
    n, side = built.n_nodes, 150
    cell = max(7.0, min(16.0, 720 / max(n, 1)))
    size = side + n * cell + 2
    visible = adjacency(built)
    block = (built.kinds == NodeKind.WORD) | is_anchor(built)
    classes = np.where(np.eye(n, dtype=bool), 2, np.where(block[:, None] & block[None], 0, 1))
    layers = []
    for kind, name in enumerate(("block", "fact", "self")):
        cells = np.argwhere(visible & (classes == kind))
        start, w = side + 0.5, cell - 1
        path = "".join(
            f"M{start + j * cell:.1f} {start + i * cell:.1f}h{w:.1f}v{w:.1f}h-{w:.1f}z"
            for i, j in cells.tolist()
        )
        layers.append(f'<path class="cells {name}" d="{path}"/>')
    end = side + n * cell
    grid = "".join(
        f"M{side} {side + i * cell:.1f}H{end:.1f}M{side + i * cell:.1f} {side}V{end:.1f}"
        for i in range(n + 1)
    )
    ranks = 2 * built.kinds.astype(int) - is_anchor(built)
    divide = "".join(
        f"M{side} {side + i * cell:.1f}H{end:.1f}M{side + i * cell:.1f} {side}V{end:.1f}"
        for i in (np.flatnonzero(np.diff(ranks)) + 1).tolist()
    )
    labels = "".join(
        f'<text class="axis {node.role}" data-row="{i}" x="{side - 6}" '
        f'y="{side + (i + 0.76) * cell:.1f}">{safe(_short(node))}</text>'
        f'<text class="axis {node.role}" data-column="{i}" transform="translate('
        f'{side + (i + 0.76) * cell:.1f} {side - 6}) rotate(-90)">{safe(_short(node))}</text>'
        for i, node in enumerate(nodes)
    )
    return (
        f'<svg class="matrix" role="img" aria-labelledby="matrix-title" data-n="{n}" '
        f'data-side="{side}" data-cell="{cell:.3f}" viewBox="0 0 {size:.0f} {size:.0f}" '
        f'width="{size:.0f}" height="{size:.0f}" style="--axis:{min(cell * 0.86, 12):.1f}px">'
        '<title id="matrix-title">Visibility matrix: rows are nodes that look, columns nodes that '
        f'are seen</title><path class="grid" d="{grid}"/>{"".join(layers)}'
        f'<path class="divide" d="{divide}"/>{labels}'
        '<rect class="cross row" width="0" height="0"/><rect class="cross column" width="0" '
        'height="0"/></svg>'
    )


def _short(node: Explained) -> str:
    return node.label if len(node.label) <= 17 else node.label[:16] + "…"
