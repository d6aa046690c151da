"""The picture of a form: columns of word pieces and, below them, rows of what they read."""

from __future__ import annotations

from collections.abc import Sequence

from kept.graphs.drawing.draw import asset, safe, shape
from kept.graphs.drawing.form import EMPTY, Cell, Column
from kept.graphs.drawing.layout import BOX, MARGIN, WIDTH, shorten, text_width

_GAP, _CELL_GAP, _ROW = 9.0, 3.0, 42.0
_ABOVE, _BELOW = 18.0, 30.0
_LONGEST = 200.0


def draw_form(columns: Sequence[Column], title: str, *, page_width: int = WIDTH) -> str:
    """Return the columns as a self-contained SVG, with a description that lists what hangs.

    Lines break at `page_width` pixels. Numbers above boxes are soft positions, or priors of
    candidates. All text is escaped.
    """
    shapes: list[str] = []
    x, top, depth = float(MARGIN), 0.0, _ABOVE + BOX
    for column in columns:
        width = min(_width_of(column), page_width - 2.0 * MARGIN)
        if x > MARGIN and x + width > page_width - MARGIN:
            x, top = float(MARGIN), top + depth + _BELOW
            depth = _ABOVE + BOX
        shapes += _draw(column, x, top + _ABOVE)
        depth = max(depth, _ABOVE + BOX + len(column.rows) * _ROW)
        x += width + _GAP
    height = top + depth + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kept graph form" role="img" '
        f'viewBox="0 0 {page_width} {height:.0f}" width="{page_width}" height="{height:.0f}" '
        f'aria-label="{safe(title)}"><title>{safe(title)}</title>'
        f"<desc>{safe(columns_in_words(columns))}</desc>"
        f"<style>{asset('graph.css')}</style>{''.join(shapes)}</svg>"
    )


def columns_in_words(columns: Sequence[Column]) -> str:
    """What hangs below which words, in words: for readers who do not see the picture."""
    parts = []
    for column in columns:
        rows = [" ".join(cell.text for cell in row) for row in column.rows]
        hung = [row for row in rows if row != EMPTY]
        if hung:
            words = " ".join(cell.text for cell in column.head)
            parts.append(f"below “{words}”: {'; '.join(hung)}")
    return ". ".join(parts) or "word pieces alone"


def _cell_width(cell: Cell) -> float:
    bold = 1.1 if cell.role == "anchor" else 1.0
    return max(bold * text_width(shorten(cell.text, _LONGEST)) + 14, 24)


def _row_width(cells: Sequence[Cell]) -> float:
    return sum(map(_cell_width, cells)) + _CELL_GAP * max(len(cells) - 1, 0)


def _width_of(column: Column) -> float:
    return max(_row_width(column.head), *(10 + _row_width(row) for row in column.rows), 0.0)


def _draw(column: Column, x: float, y: float) -> list[str]:
    """The head, and the rows below it on a line that comes down from its middle."""
    shapes = []
    for n, row in enumerate(column.rows):
        middle = y + (n + 1) * _ROW + BOX / 2
        shapes.append(
            f'<path class="edge" d="M{x + 4:.1f} {y + BOX:.1f}V{middle:.1f}H{x + 10:.1f}"/>'
        )
        shapes += _cells(row, x + 10, y + (n + 1) * _ROW)
    return [*shapes, *_cells(column.head, x, y)]


def _cells(cells: Sequence[Cell], x: float, y: float) -> list[str]:
    shapes = []
    for cell in cells:
        width = _cell_width(cell)
        middle = x + width / 2
        note = (
            f'<text class="position above" x="{middle:.1f}" y="{y - 4:.1f}">{safe(cell.note)}'
            "</text>"
            if cell.note
            else ""
        )
        shapes.append(
            f'<g class="node {cell.role}"><title>{safe(cell.text)}</title>'
            f"{shape(cell.role, x, y, width)}{note}"
            f'<text class="label middle" x="{middle:.1f}" y="{y + 17.5:.1f}">'
            f"{safe(shorten(cell.text, _LONGEST))}</text></g>"
        )
        x += width + _CELL_GAP
    return shapes
