"""How values show themselves in a notebook (`_repr_html_`): tables and marked text, all escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

N_SHOWN = 20


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]], n_rows: int) -> str:
    """An HTML table of the first `N_SHOWN` of `n_rows` rows, which says how many are left out.

    >>> table("t", ["a"], [["<b>"]], 1)
    '<p>t</p><table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    lines = ["".join(f"<th>{escape(str(cell))}</th>" for cell in head)]
    lines += [
        "".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in islice(rows, N_SHOWN)
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    left = n_rows - N_SHOWN
    more = f"<p>and {left:,} more</p>" if left > 0 else ""
    return f"<p>{escape(title)}</p><table>{body}</table>{more}"


def marked(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """`text` with `spans` (start, end, what it is; sorted) marked; of overlapping ones the first.

    >>> marked("a & b", [(0, 1, "Q1")])
    '<p><mark title="Q1">a</mark> &amp; b</p>'
    """
    parts, at = [], 0
    for start, end, title in spans:
        if start < at:
            continue
        parts.append(escape(text[at:start]))
        parts.append(f'<mark title="{escape(title)}">{escape(text[start:end])}</mark>')
        at = end
    return f"<p>{''.join(parts)}{escape(text[at:])}</p>"
