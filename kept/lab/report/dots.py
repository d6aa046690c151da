"""Numbers with intervals as dots on a common axis: a table that is a picture, in HTML and SVG.

A row's words are text, so that it is read aloud, copied and set in the page's own size; only the
strip between them is drawn, in shares of its width: it fits narrow windows and follows dark ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from kept.evaluation.statistics import Interval

N_TICKS = 5
MARKS = (
    '<circle r="5.5"/>',
    '<path d="M0-6.5 6.5 0 0 6.5-6.5 0z"/>',
    '<rect x="-5" y="-5" width="10" height="10"/>',
    '<path d="M0-6 6 5-6 5z"/>',
)


@dataclass(frozen=True, slots=True)
class Dot:
    """One row: `interval` as a mark on a line, `points` small beneath it.

    `group`: rows of one group stand under one heading; `remark` stands beside the heading of the
    group's first row. `mark` chooses shape and colour; `note` stands before the number.
    """

    group: str
    label: str
    interval: Interval
    points: tuple[float, ...] = ()
    mark: int = 0
    remark: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """What all strips share: the values at both ends, the ticks, and a line to compare with."""

    low: float
    high: float
    ticks: tuple[float, ...]
    line: float | None

    @classmethod
    def over(cls, values: Sequence[float], line: float | None) -> Axis:
        """Return an axis that holds all `values` and `line`, with round ticks.

        >>> Axis.over([0.41, 0.49], line=None).ticks
        (0.42, 0.44, 0.46, 0.48)
        """
        inside = [*values, *([] if line is None else [line])]
        low, high = min(inside), max(inside)
        pad = 0.04 * (high - low) or 0.05
        low, high = low - pad, high + pad
        rough = (high - low) / N_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
        first = math.ceil(low / step)
        n_places = max(0, -math.floor(math.log10(step)))
        ticks = [round(i * step, n_places) for i in range(first, math.floor(high / step) + 1)]
        return cls(low, high, tuple(ticks), line)

    def position(self, value: float) -> str:
        """Where a value lies, as a share of the strip's width.

        >>> Axis(0.0, 2.0, (), None).position(0.5)
        '25.00%'
        """
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"


def dots(
    rows: Sequence[Dot], caption: str, *, line: float | None = None, signed: bool = False
) -> str:
    """Return the picture as HTML; nothing where there are no rows. All text is escaped.

    `line`: a value to compare with, drawn through every strip. `signed`: numbers carry their sign.
    Rows of one group must follow one another.

    >>> interval = Interval(0.45, 0.43, 0.47, confidence=0.95, n=100, method="given")
    >>> '<th scope="row">true</th>' in dots([Dot("ERNIE", "true", interval)], "accuracy")
    True
    """
    if not rows:
        return ""
    ends = [end for row in rows for end in (row.interval.low, row.interval.high, *row.points)]
    axis = Axis.over(ends, line)
    bodies = []
    for group, members in groupby(rows, key=lambda row: row.group):
        of_group = list(members)
        remark = f"<span>{escape(of_group[0].remark)}</span>" if of_group[0].remark else ""
        lines = "".join(_row(row, axis, signed) for row in of_group)
        heading = f'<tr><th scope="rowgroup" colspan="3">{escape(group)}{remark}</th></tr>'
        bodies.append(f"<tbody>{heading}{lines}</tbody>")
    return (
        f'<table class="dots"><caption>{escape(caption)}</caption>'
        f'<colgroup><col class="who"><col><col class="number"></colgroup>{"".join(bodies)}'
        f'<tfoot aria-hidden="true"><tr><td></td><td>{_ticks(axis)}</td><td></td></tr></tfoot>'
        "</table>"
    )


def _row(row: Dot, axis: Axis, signed: bool) -> str:
    sign = "+" if signed else ""
    low, high = (f"{end:{sign}.3f}" for end in (row.interval.low, row.interval.high))
    note = f"<small>{escape(row.note)}</small> " if row.note else ""
    number = (
        f"{note}{row.interval.estimate:{sign}.3f}"
        f'<span class="more"> [{escape(low)}, {escape(high)}]</span>'
    )
    return (
        f'<tr class="mark{row.mark % len(MARKS)}"><th scope="row">{escape(row.label)}</th>'
        f"<td>{_strip(row, axis, sign)}</td><td>{number}</td></tr>"
    )


def _strip(row: Dot, axis: Axis, sign: str) -> str:
    values = ", ".join(f"{value:{sign}.3f}" for value in row.points)
    label = f"seeds: {values}" if row.points else "one estimate"
    guides = "".join(_guide(axis.position(tick), "tick") for tick in axis.ticks)
    if axis.line is not None:
        guides += _guide(axis.position(axis.line), "line")
    low, high, middle = map(
        axis.position, (row.interval.low, row.interval.high, row.interval.estimate)
    )
    points = "".join(f'<circle cx="{axis.position(v)}" cy="20" r="2.5"/>' for v in row.points)
    return (
        f'<svg role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>{guides}'
        f'<line class="interval" x1="{low}" x2="{high}" y1="10" y2="10"/>'
        f'<svg x="{middle}" y="10" overflow="visible">{MARKS[row.mark % len(MARKS)]}</svg>'
        f"{points}</svg>"
    )


def _guide(x: str, name: str) -> str:
    return f'<line class="{name}" x1="{x}" x2="{x}" y1="0" y2="100%"/>'


def _ticks(axis: Axis) -> str:
    labels = "".join(
        f'<text x="{axis.position(tick)}" y="12" text-anchor="middle">{tick:g}</text>'
        for tick in axis.ticks
    )
    return f"<svg>{labels}</svg>"
