"""One self-contained, offline HTML page: headings, prose, tables, pictures, embedded pages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

HELD = ("verdict", "is")
"""Columns that stay in sight however wide a table is."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its blocks of HTML; make blocks with the functions below.

    Without a title the blocks stand by themselves. `folded`: only the heading is shown until a
    click or a key opens the rest. Empty blocks are left out, a section of none of them too.
    """

    title: str
    blocks: tuple[str, ...]
    folded: bool = False


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole document; all text in `title`, `lead` and section titles is escaped.

    Without a `lead` the first section follows the title at once.
    """
    style, script = (
        Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8")
        for kind in ("css", "js")
    )
    filled = [section for section in sections if any(section.blocks)]
    open_ones = [(i, s) for i, s in enumerate(filled) if s.title and not s.folded]
    links = "".join(f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in open_ones)
    opening = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    opening += f"<nav>{links}</nav>" if len(open_ones) > 1 else ""
    body = "".join(_section(i, section) for i, section in enumerate(filled))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="generator" content="kept">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>\n"
        f"<h1>{escape(title)}</h1>{opening}\n"
        f"{body}<script>{script}</script></body></html>\n"
    )


def _section(number: int, section: Section) -> str:
    blocks = "\n".join(filter(None, section.blocks))
    name = escape(section.title)
    if section.folded:
        return f'<details id="s{number}"><summary><h2>{name}</h2></summary>\n{blocks}\n</details>\n'
    return (f'<h2 id="s{number}">{name}</h2>\n' if name else "") + f"{blocks}\n"


def is_kept_page(path: Path) -> bool:
    """Whether a file is a page or picture of kept's, which a newer one may replace."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1000)
    return b'<meta name="generator" content="kept">' in start or b'class="kept graph"' in start


def prose(text: str) -> str:
    """One paragraph, escaped."""
    return f"<p>{escape(text)}</p>"


def verdict(text: str) -> str:
    """A paragraph that states a finding."""
    return f'<p class="verdict">{escape(text)}</p>'


def quoted(mark: str, text: str) -> str:
    """A text that is shown, with a word before it."""
    return f"<blockquote><b>{escape(mark)}</b> {escape(text)}</blockquote>"


def drawing(svg: str) -> str:
    """A drawing of ours, at its own size."""
    return f'<div class="scroll drawn">{svg}</div>'


def code(text: str) -> str:
    """A block of commands or output."""
    return f"<pre>{escape(text)}</pre>"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> str:
    """A table, sorted by a click on a column's name; every cell is escaped with `str`.

    Nothing where there are no rows; a column without a single entry is left out.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    used = [i for i in range(len(columns)) if any(row[i] for row in cells)]
    if not used:
        return ""
    held = [' class="held"' if columns[i] in HELD else "" for i in used]
    head = "".join(
        f'<th scope="col"{kept}>{escape(columns[i])}</th>'
        for i, kept in zip(used, held, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kept}>{escape(row[i])}</td>" for i, kept in zip(used, held, strict=True))
        + "</tr>"
        for row in cells
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="sorted"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def picture(path: Path, alternative: str) -> str:
    """A PNG, embedded."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(alternative)}" src="data:image/png;base64,{data}">'


def gallery(pictures: Sequence[tuple[Path, str]]) -> str:
    """PNGs side by side, small, each with its caption."""
    figures = "".join(
        f"<figure>{picture(path, caption)}<figcaption>{escape(caption)}</figcaption></figure>"
        for path, caption in pictures
    )
    return f'<div class="gallery">{figures}</div>'


def embedded_page(html: str, title: str, height: int) -> str:
    """Another self-contained page in a frame, so that its scripts stay its own."""
    return f'<iframe title="{escape(title)}" height="{height}" srcdoc="{escape(html)}"></iframe>'
